import { describe, expect, it } from 'vitest';
import type { JsonObject, JsonValue } from '../../src/core/json.ts';
import { recordsPlace } from '../../src/definitions/upstream/service-texts.ts';
import type { ListRequest, Paging } from '../../src/definitions/upstream/upstream.ts';
import { buildRequest } from '../../src/upstream/ask-upstream.ts';
import { openRequest } from '../../src/upstream/credentials.ts';
import { translatePaging, nextLinkOf } from '../../src/upstream/translate-paging.ts';
import {
  failureOf,
  listOf,
  never,
  openTestAccount,
  query,
  requestOf,
  secretToken,
  things,
} from '../support/third-party/open-test-account.ts';
import { startThirdParty, type Reply } from '../support/third-party/start-third-party.ts';

const noted = { headers: { date: 'Tue, 03 Feb 2026 10:00:00 GMT' } };

describe('list', () => {
  it('brings the records with their numbers, the declared metadata and the time of the service', async () => {
    const body = '{"data":{"items":[{"id":1,"big":12345678901234567890}]},"next":"n2","more":true,"other":1}';
    const server = await startThirdParty(() => ({ ...noted, body }));
    const request = requestOf('/items', { page_size: query, start_cursor: query });
    const account = openTestAccount({
      baseUrl: `${server.origin}/v1`,
      list: listOf(request, {
        records: recordsPlace('data.items'),
        metadata: new Map([
          ['next_cursor', { kind: 'body', path: ['next'] }],
          ['has_more', { kind: 'body', path: ['more'] }],
          ['date', { kind: 'header', name: 'date' }],
          ['absent', { kind: 'body', path: ['nothing', 'here'] }],
        ]),
      }),
    });
    const page = await account.list({ entity: things, params: { page_size: 2, start_cursor: null } }, never);
    expect(page).toEqual({
      records: [{ id: 1, big: 12345678901234567890n }],
      metadata: { next_cursor: 'n2', has_more: true, date: noted.headers.date },
      serverTime: '2026-02-03T10:00:00.000Z',
      bytes: body.length,
      bodyBytes: body.length,
    });
    expect(server.requests).toMatchObject([
      { method: 'GET', path: '/v1/items', body: '', headers: { authorization: `Bearer ${secretToken}` } },
    ]);
    expect(server.requests[0]?.query.toString()).toBe('page_size=2');
  });

  it('gives fields the names that the definition has', async () => {
    const items = [{ a: 1, b: 2 }, { list_id: 'own' }];
    const server = await startThirdParty((_request, index) => ({ body: index === 0 ? { items } : { a: 3 } }));
    const account = openTestAccount({
      baseUrl: server.origin,
      list: listOf(requestOf('/lists/{list_id}', { list_id: { kind: 'path' } })),
      rename: new Map([['a', 'x']]),
    });
    const page = await account.list({ entity: things, params: { list_id: 'l1' } }, never);
    expect(page.records).toEqual([{ x: 1, b: 2 }, { list_id: 'own' }]);
    expect(page.metadata).toBeNull();
    expect(await account.get({ entity: things, params: { note_id: 'n' } }, never)).toEqual({ x: 3 });
  });

  it.each([
    [
      'no array',
      { items: { id: 1 } },
      'expected an array of records at items, got items is an object with "id" (a number)',
    ],
    [
      'nothing',
      {},
      'expected an array of records at items, got nothing there: the answer is an object without members',
    ],
    [
      'records elsewhere',
      { meta: { total: 2 }, data: [{}, {}] },
      'got nothing there: the answer is an object with "data" (an array of 2), "meta" (an object)',
    ],
    ['an array at the top', [{}, {}, {}], 'got nothing there: the answer is an array of 3'],
    ['no object among its records', { items: [1, 'a', null] }, 'expected objects as records, got a number'],
    ['null where the service writes its errors', { items: null, message: 'no access' }, 'got items is null'],
    ['false', { items: false }, 'got items is false'],
    ['an empty text', { items: '' }, 'got items is a text'],
    ['an empty object', { items: {} }, 'got items is an object'],
    ['zero', { items: 0 }, 'got items is a number'],
    ['a text alone', '"nothing"', 'the answer is a text'],
  ])('takes no answer with %s for a page, and says what came', async (_what, body, text) => {
    const server = await startThirdParty(() => ({ body }));
    const account = openTestAccount({ baseUrl: server.origin });
    const failure = await failureOf(account.list({ entity: things, params: {} }, never));
    expect(failure).toMatchObject({ class: 'unavailable', reason: 'noRecords', status: 200 });
    expect(failure.text).toContain(text);
  });

  it('names the members of an answer without records as hostile text: escaped, cut, and without secrets', async () => {
    const names = [
      '\u001b[2J\u202e',
      'x'.repeat(5_000),
      'Bearer key-0815',
      ...Array.from({ length: 500 }, (_none, at) => `m${at}`),
    ];
    const server = await startThirdParty(({ headers }) => ({
      body: Object.fromEntries([...names, String(headers.authorization)].map((name) => [name, 1])),
    }));
    const account = openTestAccount({ baseUrl: server.origin });
    const { text } = await failureOf(account.list({ entity: things, params: {} }, never));
    expect(text).toMatch(/^[\x20-\x7e…]{60,450}$/);
    expect(text).not.toContain('key-0815');
  });

  it('takes an answer without records for a broken one where the definition has led to some before', async () => {
    const server = await startThirdParty((_request, index) => ({ body: index === 0 ? { items: [] } : {} }));
    const account = openTestAccount({ baseUrl: server.origin });
    await account.list({ entity: things, params: {} }, never);
    const failure = await failureOf(account.list({ entity: things, params: {} }, never));
    expect(failure).toMatchObject({ class: 'unavailable', reason: 'brokenRecords', status: 200 });
  });

  it('is empty behind the last page, where the service refuses that with the status of its end', async () => {
    const server = await startThirdParty(() => ({ status: 416, body: { detail: 'no such page' } }));
    const account = openTestAccount({
      baseUrl: server.origin,
      list: listOf(requestOf('/items', { page: query })),
      pagination: {
        kind: 'page',
        pageParam: 'page',
        first: 1,
        sizeParam: null,
        maxSize: 50,
        totalKeys: [],
        flagKeys: [],
        end: { status: 416 },
      },
    });
    const listed = (page: number) => account.list({ entity: things, params: { page } }, never);
    expect((await listed(2)).records).toEqual([]);
    expect(await failureOf(listed(1))).toMatchObject({ class: 'refused', status: 416 });
  });

  it('hands on what is no object among its records', async () => {
    const server = await startThirdParty(() => ({ body: { items: [{ id: 1 }, 'text', null, [2]] } }));
    const account = openTestAccount({ baseUrl: server.origin, rename: new Map([['id', 'x']]) });
    const page = await account.list({ entity: things, params: {} }, never);
    expect(page.records).toEqual([{ x: 1 }, 'text', null, [2]]);
  });
});

describe('an answer without an array of records', () => {
  const totalKeys = ['total'];
  const declared = ['null', 'missing', 'noContent'] as const;
  const nothing = { records_came_as: 'nothing' };
  const listed = async (reply: Reply, empty: ListRequest['empty'] = null) => {
    const server = await startThirdParty(() => reply);
    const account = openTestAccount({
      baseUrl: server.origin,
      list: listOf(requestOf('/items'), {
        empty,
        metadata: new Map([['total', { kind: 'body', path: ['total'] }]]),
      }),
      pagination: { kind: 'single', totalKeys },
    });
    return account.list({ entity: things, params: {} }, never);
  };

  it.each<[string, Reply, ListRequest['empty'], JsonObject]>([
    ['by its status', { status: 204 }, null, nothing],
    ['by a total of 0 beside null', { body: { items: null, total: 0 } }, null, { total: 0, ...nothing }],
    ['by a total of 0 alone', { body: { total: 0 } }, null, { total: 0, ...nothing }],
    ['as declared, by null', { body: { items: null } }, declared, nothing],
    ['as declared, by a missing key', { body: { page: 1 } }, declared, nothing],
    ['as declared, by a list without members', { body: [] }, declared, nothing],
    ['as declared, by an empty body', { body: '' }, declared, nothing],
    ['as declared, by null alone', { body: 'null' }, declared, nothing],
    ['as declared, beside words', { body: { items: null, message: 'ok' } }, declared, nothing],
    ['it seems, by null', { body: { items: null } }, null, { records_came_as: 'null' }],
    ['it seems, by null alone', { body: 'null' }, null, { records_came_as: 'null' }],
  ])('is an empty one %s', async (_how, reply, empty, metadata) => {
    expect(await listed(reply, empty)).toMatchObject({ records: [], metadata });
  });

  it.each<[string, Reply, ListRequest['empty']]>([
    ['a missing key that is not declared', { body: {} }, null],
    ['a missing key where only null is declared', { body: {} }, ['null']],
    ['an empty body that is not declared', { body: '' }, null],
    ['an empty body, declared as a missing key', { body: '' }, ['missing']],
    [
      'null where the definition says that it never stands for an empty listing',
      { body: { items: null } },
      [],
    ],
    ['null beside a total of 5', { body: { items: null, total: 5 } }, null],
    ['a missing key beside a total of 5', { body: { total: 5 } }, null],
    ['false, whatever is declared', { body: { items: false } }, declared],
    ['a text, whatever is declared', { body: { items: '' } }, declared],
    ['an object, whatever is declared', { body: { items: {} } }, declared],
    ['a number, whatever its total', { body: { items: 0, total: 0 } }, declared],
    ['a text alone', { body: '"none"' }, declared],
  ])('is none by %s', async (_what, reply, empty) => {
    expect(await failureOf(listed(reply, empty))).toMatchObject({ class: 'unavailable' });
  });
});

describe('get', () => {
  it('brings the record', async () => {
    const server = await startThirdParty(() => ({ body: { id: 'a b' } }));
    const account = openTestAccount({ baseUrl: server.origin });
    expect(await account.get({ entity: things, params: { note_id: 'a b/ü' } }, never)).toEqual({ id: 'a b' });
    expect(server.requests[0]?.path).toBe('/items/a%20b%2F%C3%BC');
  });

  it('is null where the service has no such record', async () => {
    const server = await startThirdParty(() => ({ status: 404, body: { detail: 'no such item' } }));
    const account = openTestAccount({ baseUrl: server.origin });
    expect(await account.get({ entity: things, params: { note_id: 'x' } }, never)).toBeNull();
  });
});

describe('check', () => {
  it('finds the account', async () => {
    const server = await startThirdParty(() => ({ body: { account: { id: 42, name: 'Aunt Em' } } }));
    const account = openTestAccount({ baseUrl: server.origin });
    expect(await account.check(never)).toMatchObject({ identity: '42', name: 'Aunt Em' });
    expect(server.requests[0]?.path).toBe('/me');
  });

  it('fails where the answer names no account', async () => {
    const server = await startThirdParty(() => ({ body: { account: {} } }));
    const account = openTestAccount({ baseUrl: server.origin });
    expect(await failureOf(account.check(never))).toMatchObject({ class: 'refused' });
  });
});

describe('a call', () => {
  it('ends with the reason of its signal', async () => {
    const server = await startThirdParty(() => () => undefined);
    const account = openTestAccount({ baseUrl: server.origin });
    const leaving = new AbortController();
    const call = account.list({ entity: things, params: {} }, leaving.signal);
    await server.arrived(1);
    leaving.abort(new Error('the caller left'));
    await expect(call).rejects.toThrow('the caller left');
  });

  it('is sent again at once where its idle connection had been closed', async () => {
    const server = await startThirdParty((_request, index) =>
      index === 1 ? (response) => response.destroy() : { body: { items: [] } },
    );
    const account = openTestAccount({ baseUrl: server.origin });
    await account.list({ entity: things, params: {} }, never);
    await account.list({ entity: things, params: {} }, never);
    expect(server.requests).toHaveLength(3);
  });

  it('that is no safe POST is not sent again', async () => {
    const server = await startThirdParty(() => (response) => response.destroy());
    const account = openTestAccount({
      baseUrl: server.origin,
      list: listOf(requestOf('/search', {}, { method: 'POST', isSafe: false })),
    });
    const failure = await failureOf(account.list({ entity: things, params: {} }, never));
    expect(failure).toMatchObject({ class: 'unavailable', reason: 'network' });
    expect(server.requests).toHaveLength(1);
  });
});

describe('what an answer says about the next page', () => {
  const entity = {
    pagination: {
      kind: 'pageToken',
      tokenParam: 'cursor',
      sizeParam: null,
      maxSize: null,
      lifetimeMs: 1,
      totalKeys: [],
      flagKeys: ['more'],
      tokenKeys: ['token', 'other'],
    },
  } as const;
  const read = (
    paging: Paging,
    value: JsonValue,
    headers: Readonly<Record<string, string>> = {},
  ): JsonObject => {
    const answer = {
      value,
      status: 200,
      header: (name: string) => headers[name] ?? null,
      url: new URL('https://a.example/v1/items?limit=5&apikey=s3cret'),
      holdsSecret: (text: string) => text.includes('s3cret'),
    };
    return translatePaging(entity, { paging }, {}).readMetadata(answer);
  };
  const body = (path: string): { kind: 'body'; path: string[] } => ({ kind: 'body', path: path.split('.') });
  const cursor: Paging = { kind: 'cursor', token: body('page.next'), more: null };
  const flagged: Paging = { kind: 'cursor', token: body('next'), more: body('more') };
  const nextUrl: Paging = { kind: 'nextUrl', url: ['next'], keep: ['c', 'v'], isAlone: false };
  const any: Paging = { ...nextUrl, keep: { except: ['apikey'] }, isAlone: true };
  const link: Paging = { kind: 'linkHeader', url: [], keep: ['c'], isAlone: false };

  it.each<[string, Paging, JsonValue, JsonObject]>([
    ['a cursor', cursor, { page: { next: 'n' } }, { token: 'n', more: true }],
    ['a number as cursor', cursor, { page: { next: 20 } }, { token: '20', more: true }],
    ['an empty cursor', cursor, { page: { next: '' } }, { token: null, more: false }],
    ['null as cursor', cursor, { page: { next: null } }, { token: null, more: false }],
    ['no cursor', cursor, {}, { token: null, more: false }],
    ['a flag that says there is more', flagged, { next: 'n', more: true }, { token: 'n', more: true }],
    ['a flag that says there is no more', flagged, { next: 'n', more: false }, { token: null, more: false }],
    ['a flag without its cursor', flagged, { next: null, more: true }, { token: null, more: true }],
    ['a cursor without its flag', flagged, { next: 'n' }, { token: 'n', more: true }],
    [
      'an address',
      nextUrl,
      { next: 'https://a.example/v1/items?x=1&c=a%26b&v=2' },
      { token: 'c=a%26b&v=2', more: true },
    ],
    ['a relative address', nextUrl, { next: '/other?c=1#f' }, { token: 'c=1', more: true }],
    ['no address', nextUrl, { next: null }, { token: null, more: false }],
    [
      'any parameter of an address',
      any,
      { next: '/v1/items?limit=5&page_info=place%267-next' },
      { token: '?limit=5&page_info=place%267-next', more: true },
    ],
    [
      'an address that signs the next call, by its name and by what it holds',
      any,
      { next: '/v1/items?APIKEY=other&access_token=s3cret&page_info=place-7-next' },
      { token: '?page_info=place-7-next', more: true },
    ],
    [
      'an address whose path ends in the place',
      any,
      { next: 'https://a.example/v1/items/01g%2F0000000HU6-2000' },
      { token: '/01g%2F0000000HU6-2000', more: true },
    ],
    [
      'a page number, which is no place',
      any,
      { next: '?limit=5&page=2&ref=following' },
      { token: '?limit=5&page=2&ref=following', more: true, pages_are_numbered: true },
    ],
    [
      'a page number in the path',
      any,
      { next: '/v1/items/2?limit=5' },
      { token: '/2?limit=5', more: true, pages_are_numbered: true },
    ],
    [
      'a time, which is no place',
      any,
      { next: '/v1/items?since=2026-05-01T00:00:00Z' },
      { token: '?since=2026-05-01T00%3A00%3A00Z', more: true, pages_are_numbered: true },
    ],
  ])('is read from %s', (_what, paging, value, metadata) => {
    expect(read(paging, value)).toEqual(metadata);
  });

  it.each<[string, Paging, JsonValue]>([
    ['an object as cursor', cursor, { page: { next: {} } }],
    ['an address that is a number', nextUrl, { next: 7 }],
    ['an address without a parameter that is kept', nextUrl, { next: 'https://a.example/v1/items?x=1' }],
    ['an address of another origin without them', nextUrl, { next: 'https://a.example.evil/v1/items?x=1' }],
    ['what is no address', nextUrl, { next: 'https://' }],
    ['an address that has nothing but the key of the call', any, { next: '/v1/items?apikey=s3cret' }],
    ['an address whose path has the key of the call', any, { next: '/v1/items/s3cret-8' }],
    [
      'an address of another origin, any of whose parameters are kept',
      any,
      { next: 'https://b.example/?c=1' },
    ],
    ['more parameters than a service needs', any, { next: `/v1/items?${'a=1&'.repeat(51)}` }],
    ['a value that is too long', any, { next: `/v1/items?c=${'a'.repeat(8_001)}` }],
    ['a name that is too long', any, { next: `/v1/items?${'a'.repeat(201)}=1` }],
  ])('is not read from %s', (_what, paging, value) => {
    expect(() => read(paging, value)).toThrow(expect.objectContaining({ name: 'UpstreamFailure' }));
  });

  it.each([
    ['<https://a.example/i?c=2>; rel="next"', 'c=2'],
    ['<https://a.example/i?c=1>; rel="prev", <https://a.example/i?c=3>; rel="next"', 'c=3'],
    ['<https://a.example/i?c=1,2>; title="a, b; rel=next"; rel="last next"', 'c=1%2C2'],
    ['<https://a.example/i?c=1>;rel=prev,<?c=4>;rel=next', 'c=4'],
  ])('is read from the header Link: %s', (header, token) => {
    expect(read(link, {}, { link: header })).toEqual({ token, more: true });
  });

  it.each([
    '',
    '<x>',
    '<x>; rel="prev"',
    'garbage',
    '<x; rel="next"',
    '<x>; title="rel=next"',
    '<'.repeat(60_000),
    ',;'.repeat(30_000),
  ])('is nothing in a header without a next link', (header) => {
    expect(nextLinkOf(header)).toBeNull();
  });

  it('ends with a link to a page without results', () => {
    expect(nextLinkOf('<https://a.example/i?c=2>; rel="next"; results="false"; cursor="0:100:0"')).toBeNull();
    expect(nextLinkOf('<https://a.example/i?c=2>; rel="next"; results="true"')).toBe(
      'https://a.example/i?c=2',
    );
    expect(nextLinkOf('<https://a.example/i?c=2>; results=false; rel=next')).toBeNull();
  });

  it('comes back as any parameter, alone and behind the path of the listing', () => {
    const { call } = translatePaging(entity, { paging: any }, { cursor: '/p%2F8?c=1&apikey=k&d=2' });
    const base = new URL('https://desk.example/api');
    const request = requestOf('/customers', { limit: query, cursor: { kind: 'paging' } });
    const nothing = openRequest(request, { values: new Map(), secrets: [] });
    const { url } = buildRequest(base, request, { ...call, params: { limit: 5 } }, nothing);
    expect(url.href).toBe('https://desk.example/api/customers/p%2F8?c=1&d=2');
    for (const cursor of ['nothing', '?', '/', `?${'a=1&'.repeat(51)}`]) {
      expect(() => translatePaging(entity, { paging: any }, { cursor })).toThrow('the page token');
    }
    const outside = translatePaging(entity, { paging: any }, { cursor: '/..%2F..%2Faccount' });
    expect(() => buildRequest(base, request, outside.call, nothing)).toThrow('must not be or hold a path');
  });

  it('comes back as exactly the parameters that are kept', () => {
    const call = translatePaging(
      entity,
      { paging: { ...nextUrl, isAlone: true } },
      { cursor: 'c=1&v=2&evil=3&c=4' },
    ).call;
    expect(call).toMatchObject({
      query: [
        ['c', '1'],
        ['c', '4'],
        ['v', '2'],
      ],
      isAlone: true,
    });
    expect(() => translatePaging(entity, { paging: nextUrl }, { cursor: 'evil=3' })).toThrow(
      'the page token is none',
    );
  });
});
