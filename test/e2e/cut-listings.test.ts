import { describe, expect, it } from 'vitest';
import type { RunReport } from '../../src/sinks/run-report.ts';
import {
  keyedService,
  describedService,
  hostedAnswers,
  type DescribedOptions,
} from '../support/described/described-service.ts';
import { jsonLines } from '../support/run-cli.ts';

interface Item {
  readonly id: string;
  readonly at: string;
  readonly text: string;
}

const size = 30;
const item = (number: number, minute = number, text = 'first'): Item => ({
  id: `i-${String(number).padStart(4, '0')}`,
  // Three in a minute: what is cut off may have the time of what is shown.
  at: new Date(Date.UTC(2026, 0, 1, 0, Math.floor(minute / 3))).toISOString(),
  text,
});
const items = (count: number): Item[] => Array.from({ length: count }, (_none, number) => item(number));
const whole = items(250);

const pagings = {
  token: `{ kind: pageToken, tokenParam: cursor, sizeParam: limit, maxSize: ${size}, tokenKeys: [next] }`,
  offset: `{ kind: offset, offsetParam: offset, sizeParam: limit, maxSize: ${size}, totalKeys: [total] }`,
  page: `{ kind: page, pageParam: page, first: 1, sizeParam: limit, maxSize: ${size}, totalKeys: [total] }`,
};
type Paging = keyof typeof pagings;

interface Service {
  rows: Item[];
  /** Records that a listing shows at most. */
  cap: number;
  /** Whether an answer says so; else a page behind the limit is refused. */
  saysSo?: boolean;
  namesTotal?: boolean;
  ignoresSort?: boolean;
}

/** An answer of the service; null: refused. */
function answer(service: Service, asked: Readonly<Record<string, unknown>>) {
  const { rows, cap, saysSo = true, namesTotal = false, ignoresSort = false } = service;
  const isDown = asked['sort'] === 'desc' && !ignoresSort;
  const order = (a: Item, b: Item): number => (a.at === b.at ? (a.id < b.id ? -1 : 1) : a.at < b.at ? -1 : 1);
  const sorted = rows.toSorted((a, b) => (isDown ? order(b, a) : order(a, b)));
  const limit = Number(asked['limit'] ?? size);
  const start = Number(asked['cursor'] ?? asked['offset'] ?? (Number(asked['page'] ?? 1) - 1) * limit);
  if (!saysSo && start + limit > Math.max(cap, limit) && start >= cap) return null;
  const end = Math.min(start + limit, cap, sorted.length);
  const isEnd = end === Math.min(cap, sorted.length);
  return {
    items: sorted.slice(start, end),
    next: isEnd ? null : String(end),
    ...(namesTotal ? { total: rows.length } : {}),
    ...(isEnd && saysSo && sorted.length > cap ? { status: { type: 'incomplete' } } : {}),
  };
}

const entities = (paging: Paging, cut: string, incremental: string): string => `
entities:
  things:
    fields: { id: string, at: string, text: string }
    key: [id]
    actions: { list: { params: { cursor: string, offset: integer, page: integer, limit: integer, sort: string } } }
    pagination: ${pagings[paging]}
    order: { field: at, params: { sort: asc } }
    cut: ${cut}
${incremental}`;
const newestFirst =
  '    incremental: { kind: newestFirst, field: at, params: { sort: desc }, lookbackMs: 60000 }\n';

const sign = 'sign: { key: status.type, is: incomplete }';
const reversed = 'reversed: { sort: desc }';

async function open(service: Service, paging: Paging, cut: string, incremental = '') {
  const respond: DescribedOptions['respond'] = ({ query }) => {
    const body = answer(service, Object.fromEntries(query));
    return body === null ? { status: 400, body: { error: 'too far' } } : { body };
  };
  const described = await keyedService({
    entities: entities(paging, `{ ${cut} }`, incremental),
    requests:
      '{ things: { list: { path: /things, records: items, metadata: { next: next, status: status, total: total } } } }',
    respond,
  });
  return { ...described, ...readable(described) };
}

function readable(described: Awaited<ReturnType<typeof describedService>>) {
  return {
    texts: () =>
      new Map([...described.rows('things').values()].map(({ columns: { id, text } }) => [id, text])),
    read: async (...options: readonly string[]) => {
      const { code, ...result } = await described.cli('sync', '--json', ...options);
      // `as`: the program's own report.
      const { report } = jsonLines({ code, ...result }).find(({ kind }) => kind === 'run-report') as {
        readonly report: RunReport;
      };
      const [things] = report.entities;
      const [missing] = report.partMissing;
      return { code, things, doubt: missing?.doubt ?? null };
    },
  };
}

describe('a listing that the service cuts, and says so', () => {
  // Proves promise 3.3
  it.each<[Paging, string]>([
    ['token', newestFirst],
    ['token', ''],
    ['offset', ''],
    ['page', ''],
  ])('by %s is read from its other end, and is unconfirmed where both meet', async (paging, incremental) => {
    const service = { rows: whole, cap: 200 };
    const { read, texts } = await open(service, paging, `${sign}, ${reversed}`, incremental);
    const first = await read();
    expect(first).toMatchObject({
      code: 0,
      doubt: null,
      things: { completeness: 'unconfirmed', deleted: 0 },
    });
    expect(texts().size).toBe(250);
    service.rows = [...whole.slice(1), item(0, 760, 'edited'), item(999, 770, 'new')];
    expect(await read()).toMatchObject({ code: 0, things: { deleted: 0 } });
    expect([texts().get('i-0000'), texts().get('i-0999'), texts().size]).toEqual(['edited', 'new', 251]);
  });

  // Proves promise 3.3
  it.each<[Paging, string]>([
    ['token', newestFirst],
    ['token', ''],
    ['offset', ''],
    ['page', ''],
  ])(
    'by %s has a part missing where its ends do not meet, and later edits arrive',
    async (paging, incremental) => {
      const service = { rows: whole, cap: 100 };
      const { read, texts } = await open(service, paging, `${sign}, ${reversed}`, incremental);
      const doubt = { kind: 'cut', by: 'status.type: incomplete' };
      expect(await read()).toMatchObject({
        code: 0,
        doubt,
        things: { completeness: 'part-missing', setAside: 0 },
      });
      expect(texts().size).toBe(200);
      // One of the oldest, one of the middle that was never shown, and a new one: the oldest end shows one more.
      const left = whole.filter(({ id }) => id !== 'i-0003' && id !== 'i-0120');
      service.rows = [...left, item(3, 760, 'edited'), item(120, 763, 'edited'), item(999, 770, 'new')];
      expect(await read('--full')).toMatchObject({ code: 0, doubt, things: { deleted: 0 } });
      expect(['i-0003', 'i-0120', 'i-0999'].map((id) => texts().get(id))).toEqual([
        'edited',
        'edited',
        'new',
      ]);
      expect(texts().size).toBe(203);
    },
  );

  it('has a part missing where the service has no other order, or ignores it', async () => {
    for (const [cut, ignoresSort] of [
      [sign, false],
      [`${sign}, ${reversed}`, true],
    ] as const) {
      const { read, texts } = await open({ rows: whole, cap: 100, ignoresSort }, 'token', cut);
      expect(await read()).toMatchObject({ code: 0, doubt: { kind: 'cut' }, things: { setAside: 0 } });
      expect(texts().size).toBe(100);
    }
  });

  it('is complete again once it is shown whole', async () => {
    const service = { rows: whole, cap: 100 };
    const { read } = await open(service, 'token', sign);
    await read();
    service.cap = 1_000;
    expect(await read('--full')).toMatchObject({
      code: 0,
      doubt: null,
      things: { isProven: true, isWhole: true, unordered: 0 },
    });
  });

  it('is resumed at the end that was read', async () => {
    const { read, texts } = await open({ rows: whole, cap: 200 }, 'token', `${sign}, ${reversed}`);
    for (let run = 0; run < 4; run += 1) await read('--max-calls', '3');
    expect(texts().size).toBe(250);
  });

  it('is known behind an API too', async () => {
    const described = await describedService({
      definition: entities('token', `{ ${sign}, ${reversed} }`, ''),
      respond: hostedAnswers(({ params }) => {
        const { items: result, ...metadata } = answer({ rows: whole, cap: 200 }, params) ?? { items: [] };
        return { result, connector_metadata: metadata };
      }),
    });
    const { read, texts } = readable(described);
    expect(await read()).toMatchObject({ code: 0, doubt: null, things: { unordered: 1 } });
    expect(texts().size).toBe(250);
  });
});

describe('a listing that shows a known number of results at most', () => {
  // Proves promise 3.3
  it.each<[Paging, string, number, string | null]>([
    ['token', 'maxResults: 100', 100, 'maxResults: 100'],
    ['offset', 'maxResults: 100', 100, 'maxResults: 100'],
    ['page', 'maxResults: 90', 90, 'maxResults: 90'],
    ['offset', `maxResults: 100, ${reversed}`, 200, 'maxResults: 100'],
    ['offset', `maxResults: 200, ${reversed}`, 250, null],
  ])('by %s is read up to there with %s', async (paging, cut, rows, by) => {
    const cap = Number(/\d+/.exec(cut)?.[0]);
    const { read, texts } = await open({ rows: whole, cap, saysSo: false }, paging, cut);
    const doubt = by === null ? null : { kind: 'cut', by };
    expect(await read()).toMatchObject({ code: 0, doubt, things: { setAside: 0 } });
    expect(texts().size).toBe(rows);
  });

  it('is whole where its total says that there are no more', async () => {
    const service = { rows: items(90), cap: 90, saysSo: false, namesTotal: true };
    const { read } = await open(service, 'offset', 'maxResults: 90');
    expect(await read()).toMatchObject({ code: 0, doubt: null, things: { isProven: true, unordered: 0 } });
  });
});

// Proves promise 4.2
it('a listing that shrinks very far stays in doubt, and nothing is deleted, until it is reset', async () => {
  let rows = 8_000;
  let cap = 1_000;
  const described = await keyedService({
    entities: `entities:
  things:
    fields: { id: string }
    key: [id]
    actions: { list: { params: { offset: integer, limit: integer } } }
    pagination: { kind: offset, offsetParam: offset, sizeParam: limit, maxSize: 1000 }
`,
    requests: '{ things: { list: { path: /things, records: items } } }',
    respond: ({ query }) => {
      const start = Number(query.get('offset') ?? 0);
      const length = Math.max(0, Math.min(cap, rows - start));
      return { body: { items: Array.from({ length }, (_none, at) => ({ id: String(start + at) })) } };
    },
  });
  const after = async (...args: readonly string[]): Promise<string> => {
    const { code, stdout } = await described.cli(...args);
    const isDoubted = stdout.includes('more rows of it are stored than came');
    const isAdvised = stdout.includes('"connector-sync reset" of things');
    return `${code}, ${described.rows('things').size} rows${isDoubted ? ', in doubt' : ''}${isAdvised ? ', advised' : ''}`;
  };
  expect(await after('sync')).toBe('0, 8000 rows');
  rows = 20;
  cap = 10;
  expect(await after('sync', '--full', '--allow-deletes')).toBe('0, 8000 rows, in doubt, advised');
  await described.cli('reset', 'mine/things', '--yes');
  expect(await after('sync')).toBe('6, 8000 rows');
  expect(await after('sync', '--allow-deletes')).toBe('0, 20 rows');
}, 120_000);
