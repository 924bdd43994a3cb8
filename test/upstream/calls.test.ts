import { gzipSync } from 'node:zlib';
import { describe, expect, it, onTestFinished } from 'vitest';
import type { JsonValue, JsonObject } from '../../src/core/json.ts';
import type { EntityName } from '../../src/core/names.ts';
import type { Params } from '../../src/core/records.ts';
import type { Param } from '../../src/definitions/definition.ts';
import type { ParamPlace, UpstreamRequest } from '../../src/definitions/upstream/upstream.ts';
import { buildRequest, type PagedCall } from '../../src/upstream/ask-upstream.ts';
import { openCallGate } from '../../src/upstream/call-gate.ts';
import { openHeaders } from '../../src/upstream/credentials.ts';
import { openUpstream } from '../../src/upstream/open-upstream.ts';
import { openUpstreamTransport } from '../../src/upstream/upstream-transport.ts';
import { builtInDefinition } from '../support/sample-service.ts';
import { seededRandom } from '../support/seeded-random.ts';
import {
  query,
  requestOf,
  never,
  template,
  failureOf,
  listOf,
  openTestAccount,
  things,
} from '../support/third-party/open-test-account.ts';
import { startThirdParty, type Reply } from '../support/third-party/start-third-party.ts';

const base = new URL('https://service.example/v1');

function built(request: UpstreamRequest, params: Params, more: Partial<PagedCall> = {}) {
  const signature = { headers: { authorization: 'Bearer t' }, query: [], secrets: [] };
  const call = { params, query: [], isAlone: false, ...more };
  const fixed = openHeaders(request.headers, { values: new Map(), secrets: [] }).headers;
  const wire = buildRequest(base, request, call, fixed, signature);
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
      ['filter', { id: 12345678901234567890n }],
      ['size', 5],
      ['proto', 'own'],
    ]);
    const sent = built(request, params);
    expect(sent.body).toBe(
      '{"mode":"all","filter":{"id":12345678901234567890},"page":{"from":1,"size":5},"__proto__":"own"}',
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

  it('cannot change the headers of the authentication', () => {
    const request = requestOf('/items', { p: inQuery({ kind: 'header', name: 'authorization' }) });
    expect(built(request, { p: 'Bearer mine' }).headers['authorization']).toBe('Bearer t');
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

/** As the documentation of each service has them: entity and action -> method and path. */
const documented: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  'email-marketing': {
    'lists list': 'GET /lists',
    'lists get': 'GET /lists/{list_id}',
    'campaigns list': 'GET /campaigns',
    'campaigns get': 'GET /campaigns/{campaign_id}',
    'automations list': 'GET /automations',
    'reports list': 'GET /reports',
    'reports get': 'GET /reports/{campaign_id}',
    'list_members list': 'GET /lists/{list_id}/members',
    'list_members get': 'GET /lists/{list_id}/members/{subscriber_hash}',
    'tags list': 'GET /lists/{list_id}/tag-search',
    'interest_categories list': 'GET /lists/{list_id}/interest-categories',
    'interest_categories get': 'GET /lists/{list_id}/interest-categories/{interest_category_id}',
    'interests list': 'GET /lists/{list_id}/interest-categories/{interest_category_id}/interests',
    'interests get':
      'GET /lists/{list_id}/interest-categories/{interest_category_id}/interests/{interest_id}',
    'segments list': 'GET /lists/{list_id}/segments',
    'segments get': 'GET /lists/{list_id}/segments/{segment_id}',
    'segment_members list': 'GET /lists/{list_id}/segments/{segment_id}/members',
    'email_activity list': 'GET /reports/{campaign_id}/email-activity',
    'unsubscribes list': 'GET /reports/{campaign_id}/unsubscribed',
  },
  'workspace-notes': {
    'users list': 'GET /users',
    'users get': 'GET /users/{user_id}',
    'pages list': 'POST /search',
    'pages get': 'GET /pages/{page_id}',
    'data_sources list': 'POST /search',
    'data_sources get': 'GET /data_sources/{data_source_id}',
    'blocks list': 'GET /blocks/{block_id}/children',
    'blocks get': 'GET /blocks/{block_id}',
    'comments list': 'GET /comments',
    'comments get': 'GET /comments/{comment_id}',
  },
};
const credentials: Readonly<Record<string, JsonObject>> = {
  'email-marketing': { api_key: 'a'.repeat(32), data_center: 'us1' },
  'workspace-notes': { token: 'ntn_secret' },
};

function exampleOf(name: string, param: Param): JsonValue {
  const [first] = param.enum ?? [];
  if (first !== undefined) return first;
  switch (param.type) {
    case 'string':
      return `${name} of a call`;
    case 'integer':
      return param.min ?? 7;
    case 'boolean':
      return true;
    case 'array':
      return ['a'];
    case 'object':
      return Object.fromEntries(
        [...(param.members ?? [])].map(([member, inner]) => [member, exampleOf(member, inner)]),
      );
  }
}

interface Sent {
  readonly line: string;
  readonly query: JsonObject;
  readonly body: JsonObject;
}

/** Sends calls of a built-in definition to a server of this machine, and gives what that received. */
async function openCalls(definitionName: string) {
  const built = builtInDefinition(definitionName);
  if (built.upstream === null) throw new Error(`${definitionName} has no upstream`);
  const arrays = [...built.upstream.entities.values()].map(({ list }) => [list.records.path.join('.'), []]);
  const server = await startThirdParty(() => ({ body: Object.fromEntries(arrays) as JsonObject }));
  const upstream = { ...built.upstream, baseUrl: template(server.origin), host: new Map() };
  const gate = openCallGate();
  const transport = openUpstreamTransport({ allowHosts: ['127.0.0.1'] });
  const account = openUpstream({
    definition: { ...built, upstream: { ...upstream, limits: { concurrency: 6, requestsPerSecond: 1_000 } } },
    connector: 'one',
    credentials: () => Promise.resolve(credentials[definitionName] ?? {}),
    gate,
    transport,
  });
  onTestFinished(async () => {
    await gate[Symbol.asyncDispose]();
    await transport[Symbol.asyncDispose]();
  });
  return async (entity: EntityName, action: 'list' | 'get', params: JsonObject): Promise<Sent> => {
    await account[action]({ entity, params }, never);
    const { method, path, query, body } = server.requests.at(-1) ?? fail();
    return {
      line: `${method} ${path}`,
      query: Object.fromEntries(query),
      body: body === '' ? {} : (JSON.parse(body) as JsonObject),
    };
  };
}

function fail(): never {
  throw new Error('expected a request');
}

/** As a query has it. */
function textIn(value: JsonValue): string {
  if (Array.isArray(value)) return value.map(textIn).join(',');
  return typeof value === 'string' ? value : JSON.stringify(value);
}

describe.each(Object.keys(documented))('%s', (definitionName) => {
  it('sends each declared parameter alone, under its name and where the service looks for it, and nothing else', async () => {
    const call = await openCalls(definitionName);
    const paths = documented[definitionName] ?? {};
    const met = new Set<string>();
    for (const { name: entity, actions } of builtInDefinition(definitionName).entities.values()) {
      for (const action of ['list', 'get'] as const) {
        const declared = actions.get(action)?.params;
        if (declared === undefined) continue;
        const documentedLine = paths[`${entity} ${action}`] ?? '';
        met.add(`${entity} ${action}`);
        const required = [...declared].filter(([, { required: is }]) => is);
        for (const [name] of [...declared, ['', null] as const]) {
          const given = new Map([...required, ...[...declared].filter(([other]) => other === name)]);
          const params = Object.fromEntries([...given].map(([one, param]) => [one, exampleOf(one, param)]));
          const what = `${entity} ${action} ${name}`;
          const sent = await call(entity, action, params);
          const line = documentedLine.replace(/\{(\w+)\}/g, (_, one: string) =>
            encodeURIComponent(textIn(params[one] ?? '')),
          );
          expect(`${what}: ${sent.line}`).toBe(`${what}: ${line}`);
          const others = Object.entries(params).filter(([one]) => !documentedLine.includes(`{${one}}`));
          const isPost = line.startsWith('POST');
          expect({ what, ...sent }).toEqual({
            what,
            line,
            query: isPost ? {} : Object.fromEntries(others.map(([one, value]) => [one, textIn(value)])),
            body: isPost ? Object.fromEntries(others) : {},
          });
        }
      }
    }
    expect([...met].toSorted()).toEqual(Object.keys(paths).toSorted());
  });
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
