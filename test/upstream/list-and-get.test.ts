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
import { startThirdParty } from '../support/third-party/start-third-party.ts';

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
    ['a record that is no object', { items: [{ id: 1 }, 2] }, 'expected objects as records, got a number'],
  ])('takes no answer with %s for a page, and says what came', async (_what, body, text) => {
    const server = await startThirdParty(() => ({ body }));
    const account = openTestAccount({ baseUrl: server.origin });
    const failure = await failureOf(account.list({ entity: things, params: {} }, never));
    const reason =
      Array.isArray(body) || !('items' in body && Array.isArray(body.items)) ? 'noRecords' : 'brokenBody';
    expect(failure).toMatchObject({ class: 'unavailable', reason, status: 200 });
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
    expect(failure).toMatchObject({ class: 'unavailable', reason: 'brokenBody', status: 200 });
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
