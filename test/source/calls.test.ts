import { describe, expect, it } from 'vitest';
import { systemClock } from '../../src/core/clock.ts';
import type { RunEvent } from '../../src/core/events.ts';
import type { JsonValue } from '../../src/core/json.ts';
import { Secret } from '../../src/core/secret.ts';
import { policyRate, retryAfterMs, type SeenExchange } from '../../src/http/exchange.ts';
import { JsonTextError, parseJsonText } from '../../src/http/lossless-json.ts';
import { redactMessage } from '../../src/http/redact-message.ts';
import { textOf } from '../../src/sample/sample-values.ts';
import { classifyThrown, readUpstreamMessage, type CallFacts } from '../../src/source/api/call-failure.ts';
import { openDirectClient, openDirectSource } from '../../src/source/direct/open-direct-source.ts';
import {
  drip,
  resetBeforeHeaders,
  closeBeforeHeaders,
  cutByClose,
  cutByLength,
  cutInChunks,
  endless,
  resetAfterHeaders,
  stallBeforeHeaders,
  stallInBody,
  type Reply,
  apiError,
  html,
  json,
  success,
  successText,
  text,
  throttled,
  envelope,
  gzipped,
  redirect,
} from '../support/hostile/replies.ts';
import { instantClock } from '../support/instant-clock.ts';
import {
  failureOf,
  never,
  openTestSource,
  type TestSource,
  type TestSourceOptions,
  connectorId,
} from '../support/source/open-test-source.ts';
import { entityName } from '../support/source/test-definition.ts';
import { jsonAnswer } from '../support/upstream/fake-server.ts';
import { instead, onPath } from '../support/upstream/faults.ts';
import { deskWorld } from '../support/upstream/upstream-world.ts';
import type { ErrorCode, Recovery } from '../../src/core/errors.ts';
import type { EntityName } from '../../src/core/names.ts';
import type { DownloadRequest, IncomingFile } from '../../src/source/source.ts';
import { fileReply, library } from '../support/file-world.ts';

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

const request = { entity: entityName('members'), params: {}, isRoot: false };

type CallEnded = Extract<RunEvent, { readonly kind: 'call-ended' }>;
const callsOf = (events: readonly RunEvent[]): readonly CallEnded[] =>
  events.filter((event) => event.kind === 'call-ended');
const answersOf = (events: readonly RunEvent[], entity: string | null): readonly string[] =>
  callsOf(events)
    .filter((call) => call.entity === entity)
    .map(({ answer }) => answer);

it.each<[string, readonly Reply[], readonly string[]]>([
  ['a good answer', [], ['ok']],
  ['a failure that passes', [apiError(503, 'down'), resetBeforeHeaders], ['retry', 'retry', 'ok']],
  ['a throttle', [throttled({ seconds: 1 })], ['throttle', 'ok']],
  ['a body that cannot be used', [html(200)], ['retry', 'ok']],
  ['a partition that is refused', [apiError(404, 'no such list')], ['skip-partition']],
  ['a page that is too large', [apiError(504, 'slow')], ['smaller-page']],
  ['an account without a plan', [apiError(402, 'no plan')], ['stop']],
])('reports one end for each attempt: %s', async (_title, replies, answers) => {
  const { source, events, server } = await openTestSource({
    respond: ({ index }) => replies[index] ?? success([]),
  });
  await source.list(request, never).catch(() => undefined);
  expect(answersOf(events, 'members')).toEqual(answers);
  expect(server.calls).toHaveLength(answers.length);
});

it('tells a refused token from refused credentials', async () => {
  const { source, events, server } = await openTestSource({});
  await source.list(request, never);
  server.expireTokens();
  await source.list(request, never);
  expect(answersOf(events, 'members')).toEqual(['ok', 'refresh-auth', 'ok']);
  server.refuseAllTokens();
  await source.list(request, never).catch(() => undefined);
  expect(answersOf(events, 'members').slice(3)).toEqual(['refresh-auth', 'stop']);
});

it('reports calls about tokens and the catalog without an entity', async () => {
  const { source, client, events } = await openTestSource({
    respondToken: (index) => (index === 0 ? json(503, {}) : null),
  });
  await source.list(request, never);
  expect(answersOf(events, null)).toEqual(['retry', 'ok']);
  await client.connector(connectorId('c1'), never);
  expect(answersOf(events, null)).toEqual(['retry', 'ok', 'ok']);
});

it('says how long a call waited for its turn, apart from how long it took', async () => {
  const clock = instantClock();
  const { source, events } = await openTestSource({
    clock,
    requestsPerSecond: 0.5,
    respond: () => async (exchange) => {
      clock.advance(300);
      await success([])(exchange);
    },
  });
  await source.list(request, never);
  await source.list(request, never);
  const calls = callsOf(events).filter(({ entity }) => entity !== null);
  expect(calls.map(({ waitedMs, ms }) => ({ waitedMs, ms }))).toEqual([
    { waitedMs: 0, ms: 300 },
    { waitedMs: 1_700, ms: 300 },
  ]);
});

it('reports no end of a call that its caller aborted', async () => {
  const { source, events, server } = await openTestSource({ respond: () => drip(20) });
  const controller = new AbortController();
  const stuck = source.list(request, controller.signal);
  await server.arrived(1);
  controller.abort(new Error('stopped by test'));
  await expect(stuck).rejects.toThrow('stopped by test');
  expect(answersOf(events, 'members')).toEqual([]);
});

describe('JSON text', () => {
  it.each([
    '{"a":[1,-0,0.1,1e5,"x\\u00e9\\ud83d\\ude00",null,true]}',
    '{"a":1,"a":2}',
    '[1234567890123456, "1234567890123456789"]',
    '  [ 5 ]  ',
    '{"id":"1234567890123456"}',
  ])('reads as JSON.parse does: %s', (text) => {
    expect(parseJsonText(text)).toEqual(JSON.parse(text));
    expect(parseJsonText(`[${text},9007199254740993]`)).toEqual([JSON.parse(text), 9007199254740993n]);
  });

  it.each<[string, unknown]>([
    ['9007199254740991', 9007199254740991],
    ['9007199254740993', 9007199254740993n],
    ['-9007199254740993', -9007199254740993n],
    ['[ 123456789012345678901234567890 ]', [123456789012345678901234567890n]],
    ['{"a": 1e400}', { a: 10n ** 400n }],
    ['[-1.5e309]', [-15n * 10n ** 308n]],
    ['[1e-400]', [0]],
    ['[12345678901234567.5]', [Number('12345678901234567.5')]],
  ])('keeps the number in %s', (text, value) => {
    expect(parseJsonText(text)).toEqual(value);
  });

  it.each(['', '{', '[1,]', 'nope', '[9007199254740993', '[1e9999999]', '{"a":9007199254740993}x'])(
    'is refused without being quoted: %j',
    (text) => {
      expect(() => parseJsonText(text)).toThrow(JsonTextError);
    },
  );
});

describe('a redacted message', () => {
  it.each<[string, string]>([
    ['mail to ann.b+c@example.co.uk now', 'mail to [e-mail] now'],
    ['revoked by ann@example.com. Make a new key', 'revoked by [e-mail]. Make a new key'],
    ['Authorization: Bearer abc.def.ghi', 'Authorization: Bearer [redacted]'],
    ['api_key=short1 and password: "hunter2"', 'api_key=[redacted] and password: "[redacted]"'],
    ['hash d41d8cd98f00b204e9800998ecf8427e', 'hash [redacted]'],
    ['page 39a69b4e-7cc2-4f7a-a656-dd128f3ce855 gone', 'page 39a69b4e-7cc2-4f7a-a656-dd128f3ce855 gone'],
    ['a\u0000b\u001b[31mc\u202ed\ufeffe', 'a b [31mc d e'],
    ['an_ordinary_name_of_a_parameter_that_is_long', 'an_ordinary_name_of_a_parameter_that_is_long'],
    ['the s3cret word', 'the [secret] word'],
  ])('%j', (text, clean) => {
    expect(redactMessage(text, ['s3cret', ''])).toBe(clean);
  });

  it('has at most 300 characters', () => {
    expect(redactMessage('word '.repeat(500), []).length).toBe(300);
  });
});

describe('Retry-After', () => {
  const now = Date.parse('2026-01-01T00:00:00Z');
  it.each<[string | null, string | null, number | null]>([
    [null, null, null],
    ['5', null, 5_000],
    ['0', null, 0],
    ['1.5', null, 1_500],
    ['86400', null, 3_600_000],
    ['-5', null, null],
    ['soon', null, null],
    ['Thu, 01 Jan 2026 00:00:30 GMT', null, 30_000],
    ['Wed, 31 Dec 2025 00:00:30 GMT', null, 0],
    // The server's clock is an hour ahead: only the difference counts.
    ['Thu, 01 Jan 2026 01:00:30 GMT', 'Thu, 01 Jan 2026 01:00:00 GMT', 30_000],
  ])('%j (Date %j) is %j ms', (header, date, ms) => {
    expect(retryAfterMs(header, date, now)).toBe(ms);
  });
});

describe('RateLimit-Policy', () => {
  it.each<[string | null, number | null]>([
    [null, null],
    ['"token";q=1000;w=1', 1000],
    ['"burst"; q=100; w=60', 100 / 60],
    ['100;w=60', 100 / 60],
    ['"hour";q=1000;w=3600, "second";q=10;w=1', 1000 / 3600],
    ['"bytes";q=10;qu="content-bytes"', null],
    ['"token";q=0;w=1', null],
    ['"token";q=5;w=0', null],
    ['soon', null],
  ])('%j is %j calls a second', (header, rate) => {
    expect(policyRate(header)).toBe(rate);
  });
});

describe("a failure's body", () => {
  it.each<[string, string, boolean]>([
    ['{"message":"m","errors":[{"field":"f","message":"e"}]}', 'm; e', true],
    ['{"detail":"Not Found"}', 'Not Found', true],
    ['{"detail":[{"loc":["body"],"msg":"field required"}]}', 'field required', true],
    ['{"error":{"message":"x"}}', 'x', true],
    ['{"message":null,"errors":[]}', '{"message":null,"errors":[]}', true],
    ['<html>', '<html>', false],
    ['', '', false],
    ['"text"', '"text"', false],
  ])('%s says %j', (body, text, isJson) => {
    expect(readUpstreamMessage(body)).toMatchObject({ text, isJson });
  });
});

describe('a failure without an answer', () => {
  const facts: CallFacts = {
    purpose: 'execute',
    label: 'list members',
    entity: null,
    isRoot: false,
    canShrink: false,
    hasPageToken: false,
    patterns: [],
  };
  const of = (code: string) => classifyThrown(Object.assign(new Error('raw text'), { code }), facts);

  it.each([
    ['ENOTFOUND', 'NETWORK', 'retry', 1],
    ['ECONNREFUSED', 'NETWORK', 'retry', Infinity],
    ['EAI_AGAIN', 'NETWORK', 'retry', Infinity],
    ['EPIPE', 'NETWORK', 'retry', Infinity],
    ['UND_ERR_CONNECT_TIMEOUT', 'TIMEOUT', 'retry', Infinity],
    ['ETIMEDOUT', 'TIMEOUT', 'retry', Infinity],
    ['UND_ERR_RES_EXCEEDED_MAX_SIZE', 'BODY_TOO_LARGE', 'skip-partition', null],
    ['ERR_ADDRESS_REFUSED', 'CONFIG_INVALID', 'stop', null],
    ['DEPTH_ZERO_SELF_SIGNED_CERT', 'NETWORK', 'stop', null],
    ['CERT_HAS_EXPIRED', 'NETWORK', 'stop', null],
    ['ERR_TLS_CERT_ALTNAME_INVALID', 'NETWORK', 'stop', null],
  ])('%s', (code, expected, recovery, most) => {
    const failure = of(code);
    expect(failure?.error).toMatchObject({ code: expected, recovery });
    expect(failure?.retry?.most ?? null).toBe(most);
  });

  it('is none of the call when the program is wrong', () => {
    expect(classifyThrown(new TypeError('x is not a function'), facts)).toBeNull();
    expect(of('UND_ERR_INVALID_ARG')).toBeNull();
  });
});

it('says once what a service says in several members', () => {
  const body = {
    message: 'List not found',
    detail: 'List not found ',
    errors: [{ message: 'List not found', details: 'List not found: a1' }, { message: 'Try another' }],
  };
  expect(readUpstreamMessage(JSON.stringify(body))).toMatchObject({
    text: 'List not found: a1; Try another',
    isJson: true,
  });
});

describe('exchanges', () => {
  const never = new AbortController().signal;
  const tickets = { entity: entityName('tickets'), params: {}, isRoot: true };

  it.each(['Key in a header', 'Key in the query', 'Agent', 'Token'])(
    'a direct source tells of its requests without the credentials of "%s"',
    async (signIn) => {
      await using world = await deskWorld();
      const { seen, source, client } = await openDesk(world, signIn);
      await using _client = client;
      await using _source = source;
      await source.connect(never);
      await source.list(tickets, never);
      world.fake.script({ on: onPath('/api/tickets'), effect: instead(jsonAnswer(404, { ok: false })) });
      await expect(source.list(tickets, never)).rejects.toThrow('404');
      expect(seen).toMatchObject([
        { method: 'GET', body: null, status: 200, keys: ['ok', 'account'] },
        { method: 'GET', status: 200, keys: ['object', 'data', 'has_more'] },
        { method: 'GET', status: 404, keys: null },
      ]);
      expect(seen[1]?.wireBytes).toBeGreaterThan(100);
      const query = signIn === 'Key in the query' ? '?apikey=[secret]' : '';
      expect(seen[1]?.url).toBe(`${world.fake.baseUrl}/tickets${query}`);
      const told = JSON.stringify(seen);
      for (const value of Object.values(world.credentials.get(signIn) ?? {})) {
        expect(told).not.toContain(textOf(value));
      }
    },
  );

  it('tells of a request that got no answer', async () => {
    await using world = await deskWorld();
    const { seen, source, client } = await openDesk(world, 'Token');
    await using _client = client;
    await using _source = source;
    const reset = ({ request }: { readonly request: { readonly socket: { destroy(): void } } }): void =>
      request.socket.destroy();
    world.fake.script({ on: onPath('/api/tickets'), times: 100, effect: instead(reset) });
    await expect(source.list(tickets, never)).rejects.toThrow();
    expect(seen[0]).toMatchObject({ status: null, wireBytes: 0, keys: null });
  });

  it('a source of an API tells of each attempt, with the address below its base URL and no token', async () => {
    const seen: SeenExchange[] = [];
    const { source } = await openTestSource({
      onExchange: (exchange) => void seen.push(exchange),
      respond: () => (seen.length === 0 ? apiError(503, 'down') : success([])),
    });
    await source.connect(never);
    await source.list({ entity: entityName('members'), params: {}, isRoot: false }, never);
    const url = '/api/v1/integrations/connectors/c1/execute';
    expect(seen).toMatchObject([
      { method: 'POST', url, status: 503 },
      { method: 'POST', url, status: 200, body: expect.stringContaining('"entity":"members"') as string },
    ]);
    expect(JSON.stringify(seen)).not.toMatch(/bearer|token|planted/i);
  });

  type Desk = Awaited<ReturnType<typeof deskWorld>>;

  function openDesk({ definition, allowHosts, credentials: all }: Desk, signIn: string) {
    const seen: SeenExchange[] = [];
    const onExchange = (exchange: SeenExchange): void => void seen.push(exchange);
    const given = Object.entries(all.get(signIn) ?? {});
    const credentials = new Map(given.map(([name, value]) => [name, new Secret(textOf(value))]));
    const client = openDirectClient({ allowHosts, clock: systemClock, maxThrottleWaitMs: 1_000 });
    const account = client.account({ name: 'desk', definition, credentials, onExchange });
    const how = { definition, address: '', concurrency: 1, requestsPerSecond: 1_000, maxCalls: 5 };
    const source = openDirectSource(account, { ...how, limits: { backOffMs: 1, retries: 1 } });
    return Promise.resolve({ seen, source, client });
  }
});

const start = (options: TestSourceOptions): Promise<TestSource> =>
  openTestSource({ definition: library, ...options });

const fileRequest: DownloadRequest = {
  entity: 'attachments' as EntityName,
  params: { attachment_id: 'a1' },
  size: null,
  maxBytes: 1_000_000,
};

interface Read {
  readonly name: string | null;
  readonly contentType: string | null;
  readonly size: number | null;
  readonly text: string;
}

const read = async ({ name, contentType, size, bytes }: IncomingFile): Promise<Read> => {
  const chunks: Uint8Array[] = [];
  for await (const chunk of bytes) chunks.push(chunk);
  return { name, contentType, size, text: Buffer.concat(chunks).toString() };
};

describe('a download', () => {
  // Proves specification 4.4.8
  it('brings the bytes with the name, the type and the length that the answer says', async () => {
    const { source, server } = await start({ respond: () => fileReply(Buffer.from('bytes'), 'Größe.txt') });
    expect(await source.download({ ...fileRequest, size: 5 }, read, never)).toEqual({
      name: 'Größe.txt',
      contentType: 'text/plain',
      size: 5,
      text: 'bytes',
    });
    expect(server.calls[0]).toMatchObject({
      body: { entity: 'attachments', action: 'download', params: { attachment_id: 'a1' } },
      headers: { accept: '*/*', 'accept-encoding': 'identity' },
    });
  });

  it('without a name, a type or a length is a file all the same, and so is JSON', async () => {
    const { source } = await start({
      respond: ({ index }) =>
        index === 0
          ? ({ response }) => {
              response.writeHead(200, { 'content-type': 'nonsense' });
              response.write('by');
              response.end('tes');
            }
          : json(
              200,
              { status: 'draft', message: 'Hello' },
              index === 1 ? {} : { 'content-disposition': 'attachment; filename=a.json' },
            ),
    });
    expect(await source.download(fileRequest, read, never)).toEqual({
      name: null,
      contentType: null,
      size: null,
      text: 'bytes',
    });
    const letter = JSON.stringify({ status: 'draft', message: 'Hello' });
    expect((await source.download(fileRequest, read, never)).text).toBe(letter);
    expect(await source.download(fileRequest, read, never)).toMatchObject({ name: 'a.json', text: letter });
  });

  /** What each failure means for the file, and how many attempts it costs. */
  const outcomes: Partial<Record<ErrorCode, readonly [Recovery, number]>> = {
    FILE_INVALID: ['retry', 3],
    NETWORK: ['retry', 4],
    TIMEOUT: ['retry', 4],
    UPSTREAM: ['retry', 4],
    BODY_TOO_LARGE: ['skip-partition', 1],
    NOT_FOUND: ['skip-partition', 1],
    FORBIDDEN: ['skip-partition', 1],
    REDIRECTED: ['stop', 1],
  };
  // Proves specification 4.4.8, 7.3
  it.each<[string, Reply, ErrorCode, number?]>([
    ['no bytes', text(200, ''), 'FILE_INVALID'],
    ['no bytes, as its record says', text(200, ''), 'FILE_INVALID', 0],
    ['fewer bytes than the record says', text(200, 'abc'), 'FILE_INVALID', 10],
    ['more bytes than the record says', text(200, 'abc'), 'FILE_INVALID', 2],
    ['the end of the connection instead of the end', cutByClose, 'FILE_INVALID', 10_000],
    ['fewer bytes than it announces', cutByLength, 'NETWORK'],
    ['no last chunk', cutInChunks, 'NETWORK'],
    ['a reset within the body', resetAfterHeaders, 'NETWORK'],
    ['no headers', closeBeforeHeaders, 'NETWORK'],
    ['silence', stallBeforeHeaders, 'TIMEOUT'],
    ['silence within the body', stallInBody, 'TIMEOUT'],
    ['an envelope', success({ id: 'a1' }), 'FILE_INVALID'],
    ['an envelope of an error', json(200, { ...envelope('c1', null), status: 'error' }), 'FILE_INVALID'],
    ['an error with HTTP 200', json(200, { status: 'error', message: 'no' }), 'FILE_INVALID'],
    ['a part of a file', text(206, 'abc'), 'FILE_INVALID'],
    ['word that it is not ready', text(202, 'preparing'), 'FILE_INVALID'],
    ['a body in gzip', gzipped([]), 'FILE_INVALID'],
    ['more than is allowed', endless, 'BODY_TOO_LARGE'],
    ['more than is allowed, announced', text(200, 'x', { 'content-length': '1000001' }), 'BODY_TOO_LARGE'],
    ['404', apiError(404, 'no such attachment'), 'NOT_FOUND'],
    ['403', apiError(403, 'not yours'), 'FORBIDDEN'],
    ['a redirect', redirect(302, 'http://127.0.0.1:1/elsewhere'), 'REDIRECTED'],
    ['503', html(503), 'UPSTREAM'],
  ])('refuses %s', async (_, reply, code, size) => {
    const { source, server } = await start({
      respond: () => reply,
      limits: { headersTimeoutMs: 300, bodyTimeoutMs: 300, attemptTimeoutMs: 2_000, retries: 3 },
    });
    const failure = await failureOf(source.download({ ...fileRequest, size: size ?? null }, read, never));
    expect([failure.code, failure.recovery, server.calls.length]).toEqual([code, ...(outcomes[code] ?? [])]);
  });

  // Proves promise 15
  it('is received from the start by each attempt, and whole by the last one', async () => {
    const { source, events } = await start({
      respond: ({ index }) => (index < 2 ? cutByLength : fileReply(Buffer.from('whole'), 'x')),
    });
    const begun: (string | null)[] = [];
    const file = await source.download(
      fileRequest,
      (incoming) => {
        begun.push(incoming.name);
        return read(incoming);
      },
      never,
    );
    expect(file.text).toBe('whole');
    expect(begun).toEqual([null, null, 'x']);
    expect(events.filter(({ kind }) => kind === 'call-retried')).toHaveLength(2);
    expect(source.stats()).toMatchObject({ calls: 3, retries: 2 });
  });

  it('takes as long as it takes, as long as something comes', async () => {
    const { source } = await start({
      respond:
        () =>
        async ({ response }) => {
          response.writeHead(200, { 'content-type': 'text/plain' });
          for (let chunk = 0; chunk < 10; chunk += 1) {
            response.write('x');
            await new Promise((resolve) => setTimeout(resolve, 60));
          }
          response.end();
        },
      limits: { attemptTimeoutMs: 200, maxCallMs: 200, retries: 0 },
    });
    expect((await source.download(fileRequest, read, never)).text).toBe('x'.repeat(10));
  });

  it('is given up when hardly anything arrives, however long it lasts', async () => {
    const { source, server } = await start({
      respond:
        () =>
        async ({ response }) => {
          response.writeHead(200, { 'content-type': 'text/plain' });
          while (!response.destroyed) {
            response.write('x');
            await new Promise((resolve) => setTimeout(resolve, 20));
          }
        },
      limits: { bodyTimeoutMs: 200, retries: 1 },
    });
    expect(await failureOf(source.download(fileRequest, read, never))).toMatchObject({ code: 'TIMEOUT' });
    expect(server.calls).toHaveLength(2);
  });

  it('is not hurried by a slow reader', async () => {
    const { source } = await start({
      respond: () => fileReply(Buffer.alloc(1_000_000), 'x'),
      limits: { bodyTimeoutMs: 100, leastFileBytes: 900_000, retries: 0 },
    });
    let length = 0;
    const slowly = async ({ bytes }: IncomingFile): Promise<void> => {
      for await (const chunk of bytes) {
        length += chunk.byteLength;
        if (length < 500_000) await new Promise((resolve) => setTimeout(resolve, 30));
      }
    };
    await source.download(fileRequest, slowly, never);
    expect(length).toBe(1_000_000);
  });

  it('ends with what its reader throws, at once, whatever that looks like', async () => {
    const { source, server } = await start({ respond: () => fileReply(Buffer.from('bytes'), 'x') });
    const full = Object.assign(new Error('ENOSPC'), { code: 'ENOSPC', syscall: 'write' });
    const failure = await failureOf(source.download(fileRequest, () => Promise.reject(full), never));
    expect(failure).toMatchObject({ code: 'INTERNAL', recovery: 'stop' });
    expect(server.calls).toHaveLength(1);
  });

  it('is not whole where its reader passes over the cut', async () => {
    const { source } = await start({ respond: () => cutByLength, limits: { retries: 0 } });
    const passingOver = async ({ bytes }: IncomingFile): Promise<string> => {
      const chunks = bytes[Symbol.asyncIterator]();
      while ((await chunks.next().catch(() => ({ done: true }))).done !== true);
      return 'whole';
    };
    expect(await failureOf(source.download(fileRequest, passingOver, never))).toMatchObject({
      recovery: 'retry',
    });
  });

  it('ends with its signal, in the middle of the bytes', async () => {
    const { source, server } = await start({ respond: () => stallInBody });
    const ending = new AbortController();
    const call = source.download(fileRequest, read, ending.signal);
    await server.arrived(1);
    const reason = new Error('enough');
    ending.abort(reason);
    await expect(call).rejects.toBe(reason);
  });

  it('gets another token when the one it had has expired', async () => {
    const { source, server } = await start({ respond: () => fileReply(Buffer.from('bytes'), 'x') });
    await source.download(fileRequest, read, never);
    server.expireTokens();
    expect((await source.download(fileRequest, read, never)).text).toBe('bytes');
    expect(server.tokensIssued()).toBe(2);
  });

  it('is refused for an entity that has none, and without its parameter', async () => {
    const { source, server } = await start({});
    const folders = { ...fileRequest, entity: 'folders' as EntityName };
    expect(await failureOf(source.download(folders, read, never))).toMatchObject({ code: 'USAGE' });
    const nothing = { ...fileRequest, params: {} };
    expect(await failureOf(source.download(nothing, read, never))).toMatchObject({ code: 'USAGE' });
    expect(server.calls).toEqual([]);
  });
});
