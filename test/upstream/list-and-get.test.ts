import { describe, expect, it } from 'vitest';
import { recordsPlace } from '../../src/definitions/upstream/records-file.ts';
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
import type { JsonObject } from '../../src/core/json.ts';
import type { ListRequest } from '../../src/definitions/upstream/upstream.ts';
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

  it('gives fields the names that the definition has, and fills in those that only the call knows', async () => {
    const server = await startThirdParty(() => ({ body: { items: [{ a: 1, b: 2 }, { list_id: 'own' }] } }));
    const account = openTestAccount({
      baseUrl: server.origin,
      list: listOf(requestOf('/lists/{list_id}', { list_id: { kind: 'path' } })),
      rename: new Map([['a', 'x']]),
      inject: new Map([['list_id', 'list_id']]),
    });
    const page = await account.list({ entity: things, params: { list_id: 'l1' } }, never);
    expect(page.records).toEqual([{ x: 1, b: 2, list_id: 'l1' }, { list_id: 'own' }]);
    expect(page.metadata).toBeNull();
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
