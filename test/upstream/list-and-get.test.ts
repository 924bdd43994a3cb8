import { describe, expect, it } from 'vitest';
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
        records: ['data', 'items'],
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
      textLength: body.length,
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
    ['no array', { items: { id: 1 } }],
    ['nothing', {}],
    ['a record that is no object', { items: [{ id: 1 }, 2] }],
  ])('takes no answer with %s for a page', async (_what, body) => {
    const server = await startThirdParty(() => ({ body }));
    const account = openTestAccount({ baseUrl: server.origin });
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
  it('tells the account', async () => {
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
