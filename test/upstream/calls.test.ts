import { gzipSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import type { JsonValue } from '../../src/core/json.ts';
import type { Params } from '../../src/core/records.ts';
import type { ParamPlace, UpstreamRequest } from '../../src/definitions/upstream/upstream.ts';
import { buildRequest, type PagedCall } from '../../src/upstream/ask-upstream.ts';
import { openRequest } from '../../src/upstream/credentials.ts';
import { seededRandom } from '../support/seeded-random.ts';
import {
  query,
  requestOf,
  never,
  secretToken,
  failureOf,
  listOf,
  openTestAccount,
  things,
} from '../support/third-party/open-test-account.ts';
import { startThirdParty, type Reply } from '../support/third-party/start-third-party.ts';

const base = new URL('https://service.example/v1');

function built(request: UpstreamRequest, params: Params, more: Partial<PagedCall> = {}) {
  const call = { params, query: [], isAlone: false, ...more };
  const given = openRequest(request, { values: new Map(), secrets: [] });
  const wire = buildRequest(base, request, call, given);
  return { ...wire, search: decodeURIComponent(wire.url.search) };
}

const inQuery = (more: Partial<Extract<ParamPlace, { kind: 'query' | 'header' }>>): ParamPlace => ({
  kind: 'query',
  name: 'x',
  list: 'comma',
  omit: [],
  ...more,
});

describe('a parameter', () => {
  it.each<[string, ParamPlace, JsonValue, string]>([
    ['a text', query, 'a b', '?p=a+b'],
    ['a time', query, '2026-01-01T00:00:00+00:00', '?p=2026-01-01T00:00:00+00:00'],
    ['a number', query, 10, '?p=10'],
    ['a number beyond 2^53', query, 12345678901234567890n, '?p=12345678901234567890'],
    ['true', query, true, '?p=true'],
    ['an empty text', query, '', '?p='],
    ['null', query, null, ''],
    ['a value that is omitted', inQuery({ omit: [false, 0] }), false, ''],
    ['another value', inQuery({ omit: [false, 0] }), true, '?x=true'],
    ['a list with commas', inQuery({}), ['a', 1], '?x=a,1'],
    ['a list that repeats', inQuery({ list: 'repeat' }), ['a', 1], '?x=a&x=1'],
    ['a list with brackets', inQuery({ list: 'brackets' }), ['a', 1], '?x[]=a&x[]=1'],
    ['an empty list', inQuery({}), [], ''],
  ])('goes into the query as %s', (_what, place, value, search) => {
    const sent = built(requestOf('/items', { p: place }), { p: value });
    expect(sent.search).toBe(search);
    if (_what === 'a time') expect(sent.url.search).toContain('%2B00%3A00');
    expect(sent.body).toBeNull();
  });

  it('goes into the JSON body, at its place, over what is fixed there', () => {
    const omit: JsonValue[] = [];
    const request = requestOf(
      '/search',
      {
        filter: { kind: 'body', at: ['filter'], omit },
        size: { kind: 'body', at: ['page', 'size'], omit },
        proto: { kind: 'body', at: ['__proto__'], omit },
      },
      { method: 'POST', body: { filter: { fixed: true }, page: { from: 1 }, mode: 'all' } },
    );
    const params = Object.fromEntries([
      ['filter', { id: 12345678901234567890n, exact: 2 ** 60 }],
      ['size', 5],
      ['proto', 'own'],
    ]);
    const sent = built(request, params);
    expect(sent.body).toBe(
      '{"mode":"all","filter":{"id":12345678901234567890,"exact":1152921504606846976},"page":{"from":1,"size":5},"__proto__":"own"}',
    );
    expect(built(request, {}).body).toBe('{"filter":{"fixed":true},"page":{"from":1},"mode":"all"}');
    expect(sent.headers['content-type']).toBe('application/json');
    expect(sent.search).toBe('');
  });

  it('goes into a header, which takes one line of printable ASCII', () => {
    const request = requestOf('/items', { p: inQuery({ kind: 'header', name: 'x-version' }) });
    expect(built(request, { p: ' 2026-01-01 ' }).headers['x-version']).toBe('2026-01-01');
    expect(built(request, { p: ['a', 'b'] }).headers['x-version']).toBe('a,b');
    for (const p of ['a\r\nx-evil: 1', 'ü', '\u0000']) {
      expect(() => built(request, { p })).toThrow('p goes into a header');
    }
  });

  it.each<[string, Params]>([
    ['is not declared', { other: 1 }],
    ['is not declared', { constructor: 1 }],
    ['must be a text', { p: { a: 1 } }],
    ['must be well-formed', { p: '\ud800' }],
  ])('that %s is refused', (why, params) => {
    expect(() => built(requestOf('/items', { p: query }), params)).toThrow(why);
  });

  it('cannot change the headers of the authentication', async () => {
    const server = await startThirdParty(() => ({ body: records(1) }));
    const request = requestOf('/items', { p: inQuery({ kind: 'header', name: 'authorization' }) });
    const account = openTestAccount({ baseUrl: server.origin, list: listOf(request) });
    await account.list({ entity: things, params: { p: 'Bearer mine' } }, never);
    expect(server.requests[0]?.headers.authorization).toBe(`Bearer ${secretToken}`);
  });
});

it('sends fixed values under the parameters, and leaves all of them out of a call that stands alone', () => {
  const request = requestOf(
    '/items',
    { status: query, size: query },
    {
      query: new Map([
        ['status', 'any'],
        ['fields', 'a,b'],
      ]),
    },
  );
  expect(built(request, {}).search).toBe('?status=any&fields=a,b');
  expect(built(request, { status: 'open', size: 3 }).search).toBe('?fields=a,b&status=open&size=3');
  const page = [
    ['info', 'p2'],
    ['size', '50'],
  ] as const;
  expect(built(request, { status: 'open', size: 3 }, { query: page }).search).toBe(
    '?fields=a,b&status=open&info=p2&size=50',
  );
  expect(built(request, { status: 'open' }, { query: page, isAlone: true }).search).toBe('?info=p2&size=50');
});

it('sends exactly the parameters that are given, whatever they hold', () => {
  const random = seededRandom(11);
  const names = ['a', 'b[]', 'c&d', 'e=f', 'ü', '#'];
  const texts = ['', '&x=1', '?', '#', '%26', 'a b', '+', 'ü😀', '\n', '"', '[]=', '../'];
  const pick = <T>(from: readonly T[]): T => from[Math.floor(random() * from.length)] as T;
  for (let trial = 0; trial < 500; trial += 1) {
    const params = Object.fromEntries(
      names.filter(() => random() < 0.5).map((name) => [name, pick(texts) + pick(texts)]),
    );
    const request = requestOf('/items', Object.fromEntries(names.map((name) => [name, query])));
    const { url } = built(request, params);
    expect(Object.fromEntries(new URLSearchParams(url.search))).toEqual(params);
    expect(url.origin + url.pathname + url.hash).toBe('https://service.example/v1/items');
  }
});

const small = listOf(requestOf('/items', {}, { maxBodyBytes: 100_000 }));
const impatient = listOf(requestOf('/items', {}, { timeoutMs: 400 }));
const list = { entity: things, params: {} };

async function listFrom(reply: Reply, request = small): Promise<ReturnType<typeof failureOf>> {
  const server = await startThirdParty(() => reply);
  const account = openTestAccount({ baseUrl: server.origin, list: request });
  const failure = await failureOf(account.list(list, never));
  expect(failure.text.length).toBeLessThan(400);
  return failure;
}

const records = (count: number): string =>
  JSON.stringify({ items: Array.from({ length: count }, () => ({ id: 1 })) });
const gzip = { 'content-encoding': 'gzip' };

describe('a body', () => {
  it('is read from gzip, asked for or not, and from an error too', async () => {
    const server = await startThirdParty((_request, index) =>
      index === 0
        ? { headers: gzip, body: gzipSync(records(3)) }
        : { status: 403, headers: gzip, body: gzipSync('{"detail":"your role may not"}') },
    );
    const account = openTestAccount({ baseUrl: server.origin, list: small });
    expect((await account.list(list, never)).records).toHaveLength(3);
    expect(await failureOf(account.list(list, never))).toMatchObject({ text: 'your role may not' });
  });

  it('may not be larger than its limit', async () => {
    expect(await listFrom({ body: records(20_000) })).toMatchObject({
      class: 'tooLarge',
      reason: 'tooLarge',
    });
  });

  it('may not be larger than its limit where its length is not announced', async () => {
    const failure = await listFrom((response) => {
      response.writeHead(200, { 'content-type': 'application/json' });
      response.write('{"items":[');
      response.end(records(20_000));
    });
    expect(failure).toMatchObject({ class: 'tooLarge' });
  });

  it('may not become larger than its limit when it is decompressed', async () => {
    const bomb = gzipSync(Buffer.alloc(50_000_000, 0x20));
    expect(bomb.length).toBeLessThan(100_000);
    expect(await listFrom({ headers: gzip, body: bomb })).toMatchObject({ class: 'tooLarge' });
  });

  it('without an end is cut at the limit', async () => {
    const failure = await listFrom((response) => {
      response.writeHead(200, { 'content-type': 'application/json' });
      const more = (): void => {
        while (!response.destroyed && response.write(Buffer.alloc(10_000, 0x20)));
      };
      response.on('drain', more);
      more();
    });
    expect(failure).toMatchObject({ class: 'tooLarge' });
  });

  it.each(['200', '403'])(
    'that comes too slowly ends with the time of the whole call, with HTTP %s',
    async (status) => {
      const timers: NodeJS.Timeout[] = [];
      const failure = await listFrom((response) => {
        response.writeHead(Number(status), { 'content-type': 'application/json' });
        timers.push(setInterval(() => response.write(' '), 20));
      }, impatient);
      timers.forEach(clearInterval);
      expect(failure).toMatchObject({ class: 'unavailable', reason: 'timeout' });
    },
  );

  it('that does not begin ends with the time of the call', async () => {
    expect(await listFrom(() => undefined, impatient)).toMatchObject({
      class: 'unavailable',
      reason: 'timeout',
    });
  });

  it.each([
    ['cut JSON', { body: '{"items":[{"id":1}' }, 'unavailable', 'brokenBody'],
    [
      'cut gzip',
      { headers: gzip, body: gzipSync(records(9_000)).subarray(0, 60) },
      'unavailable',
      'brokenBody',
    ],
    [
      'an encoding that was not asked for',
      { headers: { 'content-encoding': 'br' }, body: 'x' },
      'unavailable',
      'brokenBody',
    ],
    ['bytes that are no UTF-8', { body: Buffer.from([0x22, 0xff, 0x22]) }, 'unavailable', 'brokenBody'],
    [
      'HTML',
      { headers: { 'content-type': 'text/html' }, body: '<p>Log in to the hotel' },
      'unavailable',
      'notJson',
    ],
    ['other text', { headers: { 'content-type': 'text/csv' }, body: 'id,name' }, 'unavailable', 'notJson'],
    [
      'JSON of 100,000 levels',
      { body: `{"items":${'['.repeat(49_000)}${']'.repeat(49_000)}}` },
      'tooLarge',
      'tooLarge',
    ],
    [
      'headers of 100 KB',
      { headers: { 'x-long': 'x'.repeat(100_000) }, body: records(1) },
      'tooLarge',
      'tooLarge',
    ],
  ])('with %s is not used', async (_what, reply, failureClass, reason) => {
    expect(await listFrom(reply)).toMatchObject({ class: failureClass, reason });
  });

  it.each(['text/plain', 'text/html', 'application/octet-stream', 'application/x-json', ''])(
    'is JSON with the content type "%s" too',
    async (type) => {
      const server = await startThirdParty(() => ({ headers: { 'content-type': type }, body: records(2) }));
      const account = openTestAccount({ baseUrl: server.origin, list: small });
      expect((await account.list(list, never)).records).toHaveLength(2);
    },
  );

  it.each([
    ['text/html; charset=utf-8', 'of the type text/html'],
    ['application/json', 'of the type application/json'],
    ['', 'without a content type'],
    [`text/x-${'a1'.repeat(20)}`, 'of the type text/[redacted]'],
  ])('that is a page is named as one, with the content type "%s"', async (type, named) => {
    const page = '\uFEFF\n <!doctype html><title>[[[</title>';
    expect(await listFrom({ headers: { 'content-type': type }, body: page })).toMatchObject({
      reason: 'notJson',
      text: `expected JSON, got a page (HTML or XML) ${named}; something else may answer at this address`,
    });
  });

  it('may hold brackets in its texts, and records of 200 levels', async () => {
    const deep = `${'['.repeat(200)}${']'.repeat(200)}`;
    const body = String.raw`{"items":[{"text":"\"${'['.repeat(1_000)}\\","deep":${deep}}]}`;
    const server = await startThirdParty(() => ({
      headers: { 'content-type': 'application/vnd.api+json; charset=utf-8' },
      body,
    }));
    const account = openTestAccount({ baseUrl: server.origin });
    expect((await account.list(list, never)).records).toHaveLength(1);
  });
});
