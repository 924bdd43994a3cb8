import { describe, expect } from 'vitest';
import { keyedService } from '../support/described/described-service.ts';
import { it } from '../support/it.ts';
import { shortenWaits } from '../support/shorten-waits.ts';
import type { ReceivedRequest, Reply } from '../support/third-party/start-third-party.ts';
import type { RunReport } from '../../src/sinks/run-report.ts';

/** Records `from` to `to` of a listing that grows at its end. */
const records = (from: number, to: number) =>
  Array.from({ length: Math.max(0, to - from) }, (_none, at) => ({ id: String(from + at).padStart(4, '0') }));

/** A service with one listing, which `answer` gives in pages. */
async function paged(pagination: string, metadata: string, answer: (asked: ReceivedRequest) => Reply) {
  const service = await keyedService({
    entities: `
entities:
  things:
    fields: { id: string }
    key: [id]
    actions: { list: { params: { start: integer, size: integer, after: string, mode: string } } }
    pagination: ${pagination}
    order: { field: id }`,
    requests: `{ things: { list: { path: /things, records: items, metadata: ${metadata} } } }`,
    respond: answer,
  });
  const asked = (name: string) =>
    service.requests.flatMap(({ path, query }) => (path === '/things' ? [query.get(name)] : []));
  return {
    ...service,
    asked,
    ids: () => [...service.rows('things').values()].map(({ columns: { id } }) => id),
    // `as`: the program's own report.
    read: async () => (await service.sync()) as unknown as RunReport,
  };
}

const complete = { entities: [{ completeness: 'complete' }], partMissing: [] };
const idsTo = (count: number) => records(0, count).map(({ id }) => id);

describe('records that are skipped in a number', () => {
  const pagination = '{ kind: offset, offsetParam: start, sizeParam: null, maxSize: 10 }';
  /** Pages of a size that the service chooses. */
  const rowsAt = (start: number, size: number, count: number) => ({
    body: { items: records(start, Math.min(count, start + size)) },
  });

  it('are read whole where the service alone decides the size of a page', async () => {
    const service = await paged(pagination, '{}', ({ query }) => rowsAt(Number(query.get('start')), 10, 35));
    const report = await service.read();
    expect(service.ids()).toEqual(idsTo(35));
    expect(report).toMatchObject(complete);
    expect(new Set(service.asked('size'))).toEqual(new Set([null]));
  });

  it.each([3, 25])(
    'are read whole where the service gives %i a page, and not the declared 10',
    async (size) => {
      const service = await paged(pagination, '{}', ({ query }) =>
        rowsAt(Number(query.get('start')), size, 60),
      );
      await service.read();
      expect(service.ids()).toEqual(idsTo(60));
    },
  );

  it('are read whole where pages become shorter in the middle of a walk', async () => {
    let pages = 0;
    const service = await paged(pagination, '{}', ({ query }) => {
      pages += 1;
      return rowsAt(Number(query.get('start')), pages < 4 ? 10 : 4, 60);
    });
    await service.read();
    expect(service.ids()).toEqual(idsTo(60));
  });

  it('are counted from 1 where the service does so', async () => {
    const from1 = '{ kind: offset, offsetParam: start, first: 1, sizeParam: size, maxSize: 10 }';
    const service = await paged(from1, '{}', ({ query }) => {
      const start = Number(query.get('start'));
      return start < 1 ? { status: 400, body: { error: 'from 1' } } : rowsAt(start - 1, 10, 35);
    });
    await service.read();
    expect(service.ids()).toEqual(idsTo(35));
    expect(service.asked('start')[0]).toBe('1');
  });

  it('may be behind pages whose records are all left out, while the answer says that more follow', async () => {
    const flagged = '{ kind: offset, offsetParam: start, sizeParam: size, maxSize: 10, doneKeys: [last] }';
    const hidden = (id: string): boolean => id >= '0010' && id < '0090';
    const service = await paged(flagged, '{ last: last }', ({ query }) => {
      const start = Number(query.get('start'));
      const items = records(start, Math.min(100, start + Number(query.get('size'))));
      return {
        body: {
          items: items.filter(({ id }) => !hidden(id)),
          last: start + Number(query.get('size')) >= 100,
        },
      };
    });
    await service.read();
    expect(service.ids()).toEqual(idsTo(100).filter((id) => !hidden(id)));
  });
});

describe('pages by number', () => {
  const rowsOn = (page: number, count: number) => ({
    body: { items: records(page * 10, Math.min(count, page * 10 + 10)) },
  });

  it.each([
    ['from 0 without a size', 'first: 0', 0, 1],
    ['from 100, in steps of 5', 'first: 100, step: 5', 100, 5],
  ])('are read %s', async (_how, numbers, first, step) => {
    const pagination = `{ kind: page, pageParam: start, ${numbers}, maxSize: 10 }`;
    const service = await paged(pagination, '{}', ({ query }) =>
      rowsOn((Number(query.get('start')) - first) / step, 35),
    );
    await service.read();
    expect(service.ids()).toEqual(idsTo(35));
    expect(service.asked('start').slice(0, 2)).toEqual([String(first), String(first + step)]);
    expect(new Set(service.asked('size'))).toEqual(new Set([null]));
  });
});

describe('a flag that says which page is the last', () => {
  const pagings = {
    offset: '{ kind: offset, offsetParam: start, sizeParam: size, maxSize: 10, doneKeys: [paging.done] }',
    page: '{ kind: page, pageParam: start, first: 0, maxSize: 10, doneKeys: [paging.done] }',
    token: '{ kind: pageToken, tokenParam: after, tokenKeys: [next], doneKeys: [paging.done] }',
    last: '{ kind: lastRecord, tokenParam: after, field: id, doneKeys: [paging.done] }',
  };
  const startOf = (kind: string, { query }: ReceivedRequest): number => {
    if (kind === 'offset') return Number(query.get('start'));
    if (kind === 'page') return Number(query.get('start')) * 10;
    const after = query.get('after');
    return after === null ? 0 : Number(after) + 1;
  };
  const open = async (kind: keyof typeof pagings, count: number, done: (isLast: boolean) => object) =>
    await paged(pagings[kind], '{ next: next, paging: paging }', (asked) => {
      const start = startOf(kind, asked);
      const end = Math.min(start + 10, count);
      const items = records(start, end);
      return { body: { items, next: items.at(-1)?.id ?? null, paging: done(end === count) } };
    });

  it.each(['offset', 'page', 'token', 'last'] as const)(
    'ends a listing by %s, and proves that all was read',
    async (kind) => {
      const service = await open(kind, 30, (isLast) => ({ done: isLast }));
      const report = await service.read();
      expect(service.ids()).toEqual(idsTo(30));
      if (kind !== 'page') expect(report).toMatchObject(complete);
      const calls = service.asked('start').length;
      // Offsets overlap, and nothing is asked for behind the last page.
      expect(calls).toBe(kind === 'offset' ? 4 : 3);
    },
  );

  it.each(['offset', 'page', 'token', 'last'] as const)(
    'is missed by %s where an answer lacks it: the listing is not read as if it had ended',
    async (kind) => {
      shortenWaits(0.001);
      const service = await open(kind, 30, () => ({}));
      const failed = await service.cli('sync');
      expect(failed.code).not.toBe(0);
      expect(failed.stdout + failed.stderr).toContain('expected true or false at paging.done');
    },
  );

  it.each(['offset', 'page', 'token', 'last'] as const)('is no text (%s)', async (kind) => {
    shortenWaits(0.001);
    const service = await open(kind, 30, () => ({ done: 'perhaps' }));
    const failed = await service.cli('sync');
    expect(failed.stdout + failed.stderr).toContain(
      'at paging.done, by which the last page is known, got a string',
    );
  });
});

describe('parameters of the first page', () => {
  it.each([
    ['a token', '{ kind: pageToken, tokenParam: after, tokenKeys: [next], firstParams: { mode: open } }'],
    [
      'an offset',
      '{ kind: offset, offsetParam: start, sizeParam: null, maxSize: 10, firstParams: { mode: open } }',
    ],
    ['a page number', '{ kind: page, pageParam: start, first: 1, maxSize: 10, firstParams: { mode: open } }'],
  ])('are sent with it, and with no page that %s asks for', async (_what, pagination) => {
    const service = await paged(pagination, '{ next: next }', ({ query }) => {
      const after = query.get('after');
      const number = Number(query.get('start'));
      const start =
        after !== null ? Number(after) + 1 : pagination.includes('first: 1') ? (number - 1) * 10 : number;
      const items = records(start, Math.min(start + 10, 30));
      const isFirst = start === 0;
      if (isFirst !== (query.get('mode') === 'open')) return { status: 400, body: { error: 'mode' } };
      return { body: { items, next: start + 10 >= 30 ? null : items.at(-1)?.id } };
    });
    await service.read();
    expect(service.ids()).toEqual(idsTo(30));
  });
});
