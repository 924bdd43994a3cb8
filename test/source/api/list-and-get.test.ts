import { describe, expect, it } from 'vitest';
import type { JsonValue } from '../../../src/core/json.ts';
import { drip } from '../../support/hostile/broken-replies.ts';
import type { Reply } from '../../support/hostile/exchange.ts';
import { apiError, gzipped, html, json, success, successText, text } from '../../support/hostile/replies.ts';
import {
  failureOf,
  never,
  openTestSource,
  type TestSource,
  type TestSourceOptions,
} from '../../support/source/open-test-source.ts';
import { instantClock } from '../../support/instant-clock.ts';
import { entityName } from '../../support/source/test-definition.ts';

const members = entityName('members');
const notes = entityName('notes');
let open: TestSource;

async function sourceWith(reply: Reply, options: TestSourceOptions = {}): Promise<TestSource> {
  open = await openTestSource({ respond: () => reply, ...options });
  return open;
}

const list = (entity = members, params = {}) => {
  return open.source.list({ entity, params, isRoot: false }, never);
};

describe('a list', () => {
  // Proves specification 2.2.9
  it('brings the records as they came, the server time and the sizes', async () => {
    const { server, source } = await sourceWith(success([{ id: 'a' }, 7, null, { id: 'b', deep: [{}] }]));
    const page = await list(members, { list_id: 'l', count: 1000, offset: 0 });
    expect([...page.records]).toEqual([{ id: 'a' }, 7, null, { id: 'b', deep: [{}] }]);
    expect(page.records.length).toBe(4);
    expect(page.next).toBeNull();
    expect(page.serverTime).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
    expect(page.bytes).toBeGreaterThan(50);
    expect(server.calls[0]?.body).toEqual({
      entity: 'members',
      action: 'list',
      params: { list_id: 'l', count: 1000, offset: 0 },
      skip_truncation: true,
    });
    expect(source.stats()).toMatchObject({ calls: 1, retries: 0 });
    expect(source.stats().bytes).toBeGreaterThan(50);
  });

  it.each([
    ['only status and result', {}],
    ['null metadata', { connector_metadata: null, execution_metadata: null }],
    ['the bare connector id', { execution_metadata: { connector_instance_id: 'c1' } }],
    [
      'metadata that is no object',
      { connector_metadata: 'x', execution_metadata: { connector_instance_id: null } },
    ],
  ])('is read from an envelope with %s', async (_title, rest) => {
    await sourceWith(json(200, { status: 'success', result: [{ id: 'a' }], ...rest }));
    expect([...(await list()).records]).toEqual([{ id: 'a' }]);
  });

  it('reads a gzip body', async () => {
    const { server } = await sourceWith(gzipped([{ id: 'a' }]));
    expect([...(await list()).records]).toEqual([{ id: 'a' }]);
    expect(server.calls[0]?.headers['accept-encoding']).toBe('gzip');
  });

  it.each<[string, unknown, unknown, JsonValue]>([
    ['snake case', { has_more: true, next_cursor: 't1' }, [], { hasMore: true, token: 't1' }],
    ['camel case', { hasMore: false, nextCursor: null }, [], { hasMore: false, token: null }],
    ['a null flag', { has_more: null, next_cursor: 't1' }, [], { hasMore: null, token: 't1' }],
    ['only a token', { next_cursor: 't1' }, [], { hasMore: null, token: 't1' }],
    ['an empty token', { has_more: false, next_cursor: '' }, [], { hasMore: false, token: null }],
    ['a flag without token', { has_more: true }, [], { hasMore: true, token: null }],
    [
      'meta beside data',
      null,
      { data: [], meta: { has_more: true, cursor: 'm' } },
      { hasMore: true, token: 'm' },
    ],
    ['hits', null, { hits: [], next_cursor: 'h' }, { hasMore: null, token: 'h' }],
  ])('reads what the response says about more pages: %s', async (_title, metadata, result, next) => {
    await sourceWith(success(result, metadata));
    expect((await list(notes)).next).toEqual(next);
  });

  it('takes records out of {data} and {hits}', async () => {
    open = await openTestSource({
      respond: ({ index }) =>
        success(
          index === 0
            ? { data: [{ id: 'a' }], meta: {} }
            : { hits: [{ id: 'x', score: 1, data: { id: 'b' } }] },
        ),
    });
    expect([...(await list()).records]).toEqual([{ id: 'a' }]);
    expect([...(await list()).records]).toEqual([{ id: 'b' }]);
  });

  it('keeps integers that a double cannot hold', async () => {
    await sourceWith(successText('[{"web_id":9007199254740993,"n":-12345678901234567890,"ok":5,"f":0.5}]'));
    expect([...(await list()).records]).toEqual([
      { web_id: 9007199254740993n, n: -12345678901234567890n, ok: 5, f: 0.5 },
    ]);
  });

  it('hands on a record nested 100,000 deep without a crash', async () => {
    await sourceWith(successText(`[${'['.repeat(100_000)}${']'.repeat(100_000)},{"id":"good"}]`));
    const page = await list();
    expect(page.records.length).toBe(2);
    expect(page.records.value(1)).toEqual({ id: 'good' });
  });

  it('asks for a smaller page when depth and big integers meet in one body', async () => {
    const { server } = await sourceWith(
      successText(`[${'['.repeat(100_000)}${']'.repeat(100_000)},{"id":9007199254740993}]`),
    );
    expect(await failureOf(list())).toMatchObject({ code: 'BODY_INVALID', recovery: 'smaller-page' });
    expect(server.calls).toHaveLength(1);
  });

  it('keeps a __proto__ member a plain member', async () => {
    await sourceWith(successText('[{"__proto__":{"polluted":true},"id":9007199254740993}]'));
    const [record] = (await list()).records;
    expect(Object.keys(record as object)).toEqual(['__proto__', 'id']);
    expect((record as { polluted?: unknown }).polluted).toBeUndefined();
    expect(({} as { polluted?: unknown }).polluted).toBeUndefined();
  });

  // Proves specification 2.2.9
  it.each<[string, Reply]>([
    ['HTML', html(200)],
    ['JSON that is cut', text(200, '{"status":"success","result":[')],
    [
      'bytes that are not UTF-8',
      text(200, Buffer.from('{"status":"success","result":["caf\u00e9"]}', 'latin1')),
    ],
    ['an empty body', text(200, '')],
    ['another status', json(200, { status: 'error', result: [] })],
    ['no envelope', json(200, [1, 2])],
    ['an object as result', success({ id: 'a' })],
    ['no result', json(200, { status: 'success' })],
    ['text as result', success('rows')],
    [
      'another connector',
      json(200, {
        status: 'success',
        result: [],
        execution_metadata: { connector_instance_id: 'source_id:xc1' },
      }),
    ],
    ['an encoding that was not asked for', text(200, '{}', { 'content-encoding': 'br' })],
    ['a page of a proxy', html(200)],
    ['damaged gzip', text(200, '{}', { 'content-encoding': 'gzip' })],
    ['an endless number', successText('[{"n":1e999999}]')],
  ])('refuses a 200 with %s, after as many attempts as for a failure', async (_title, reply) => {
    const { server, source } = await sourceWith(reply, { limits: { retries: 2 } });
    expect(await failureOf(list())).toMatchObject({ code: 'BODY_INVALID' });
    expect(server.calls).toHaveLength(3);
    expect(source.stats()).toMatchObject({ calls: 3, retries: 2 });
  });

  it('names a page that answers in place of the API', async () => {
    await sourceWith(html(200), { limits: { retries: 0 } });
    const { message } = await failureOf(list());
    expect(message).toContain('expected JSON, got a page (HTML or XML) of the type text/html');
  });

  it.each([
    ['no metadata', null],
    ['metadata without the keys', { links: [] }],
    ['a flag that is text', { has_more: 'yes' }],
    ['a token that is a fraction', { has_more: true, next_cursor: 5.5 }],
  ])('refuses %s where pages are found by token', async (_title, metadata) => {
    await sourceWith(success([], metadata), { limits: { retries: 0 } });
    expect(await failureOf(list(notes))).toMatchObject({ code: 'BODY_INVALID', recovery: 'retry' });
  });

  it.each<[string, unknown, unknown, object]>([
    ['null', null, null, { wasNull: true }],
    ['null in the place of data', { data: null }, null, { wasNull: true }],
    ['null in the place of hits', { hits: null }, null, { wasNull: true }],
    ['null that a total of 0 agrees with', null, { total_items: 0 }, { total: 0 }],
    ['no data, where a total of 0 agrees', { meta: {} }, { total_items: 0 }, { total: 0 }],
  ])('takes %s for an empty page', async (_what, result, metadata, expected) => {
    await sourceWith(success(result, metadata), { limits: { retries: 0 } });
    const page = await list(entityName('tags'), { list_id: 'a' });
    expect(page).toMatchObject({ records: { length: 0 }, ...expected });
    expect('wasNull' in page).toBe('wasNull' in expected);
  });

  it('takes an answer without content for an empty page, and for the last one by token', async () => {
    await sourceWith(text(204, ''), { limits: { retries: 0 } });
    expect(await list(notes)).toMatchObject({
      records: { length: 0 },
      next: { hasMore: false, token: null },
    });
  });

  it.each([
    ['an object without members', {}],
    ['false', false],
    ['an empty text in the place of data', { data: '' }],
    ['null beside a total of 5', null, { total_items: 5 }],
  ])('refuses %s as a result, for this listing alone', async (_what, result, metadata: unknown = null) => {
    await sourceWith(success(result, metadata), { limits: { retries: 0 } });
    expect(await failureOf(list(entityName('tags'), { list_id: 'a' }))).toMatchObject({
      code: 'BODY_INVALID',
      recovery: 'skip-partition',
    });
  });

  it.each(['deep inside … [truncated — use `get` action]', 'x... [truncated — use'])(
    'refuses a page that holds a shortened value',
    async (value) => {
      const { server } = await sourceWith(success([{ id: 'a', nested: [{ note: value }] }]));
      expect(await failureOf(list())).toMatchObject({ code: 'TRUNCATED_VALUE', recovery: 'skip-partition' });
      expect(server.calls).toHaveLength(1);
    },
  );

  it('finds the truncation marker when it is written with an escape', async () => {
    await sourceWith(successText(String.raw`[{"a":"cut [truncated \u2014 use get"}]`));
    expect(await failureOf(list())).toMatchObject({ code: 'TRUNCATED_VALUE' });
  });

  it('is not misled by the marker in a member name', async () => {
    await sourceWith(success([{ '[truncated — use': 1 }]));
    expect((await list()).records.length).toBe(1);
  });

  it('recovers when the next answer is good', async () => {
    open = await openTestSource({ respond: ({ index }) => (index === 0 ? html(200) : success([1])) });
    expect((await list()).records.length).toBe(1);
    expect(open.events.filter(({ kind }) => kind !== 'call-ended')).toEqual([
      expect.objectContaining({ kind: 'call-retried', entity: 'members', code: 'BODY_INVALID', attempt: 1 }),
    ]);
  });

  it.each([
    ['an undeclared parameter', members, { cursor: 'x' }],
    ['an unknown entity', entityName('nowhere'), {}],
  ])('sends nothing for %s', async (_title, entity, params) => {
    const { server } = await sourceWith(success([]));
    expect(await failureOf(list(entity, params))).toMatchObject({ code: 'USAGE', recovery: 'stop' });
    expect(server.requests).toEqual([]);
  });

  it('rejects with the reason of the signal, promptly, and frees its place', async () => {
    open = await openTestSource({
      respond: ({ index }) => (index === 0 ? drip(20) : success([])),
      concurrency: 1,
    });
    const controller = new AbortController();
    const stuck = open.source.list({ entity: members, params: {}, isRoot: true }, controller.signal);
    const queued = open.source.list({ entity: members, params: {}, isRoot: true }, controller.signal);
    await open.server.arrived(1);
    const reason = new Error('stopped by test');
    controller.abort(reason);
    await expect(stuck).rejects.toBe(reason);
    await expect(queued).rejects.toBe(reason);
    expect((await list()).records.length).toBe(0);
    expect(open.server.calls).toHaveLength(2);
  });
});

describe('a get', () => {
  const get = (params = { member_id: 'm' }) => {
    return open.source.get({ entity: members, params }, never);
  };

  it('brings one record', async () => {
    await sourceWith(success({ id: 'm' }));
    expect(await get()).toEqual({ id: 'm' });
  });

  it('is null when the record does not exist', async () => {
    await sourceWith(apiError(404, 'Member not found'));
    expect(await get()).toBeNull();
  });

  it('does not call a record deleted when its connector no longer exists', async () => {
    await sourceWith(apiError(404, 'Not found'), { connectors: [] });
    expect(await failureOf(get())).toMatchObject({ code: 'CONNECTOR_UNKNOWN', recovery: 'stop' });
  });

  it('asks after the connector when it has not answered for a minute, and only then', async () => {
    const clock = instantClock();
    const { server } = await sourceWith(apiError(404, 'Not found'), { clock });
    await get();
    await get();
    expect(server.requests.filter((line) => line.startsWith('GET'))).toHaveLength(1);
    clock.advance(61_000);
    await get();
    expect(server.requests.filter((line) => line.startsWith('GET'))).toHaveLength(2);
  });

  it('refuses an array', async () => {
    await sourceWith(success([{ id: 'm' }]), { limits: { retries: 0 } });
    expect(await failureOf(get())).toMatchObject({ code: 'BODY_INVALID' });
  });

  it('tries a 504 again, because there is no page to make smaller', async () => {
    open = await openTestSource({
      respond: ({ index }) => (index === 0 ? apiError(504, 'slow') : success({ id: 'm' })),
    });
    expect(await get()).toEqual({ id: 'm' });
  });
});
