import { once } from 'node:events';
import { connect } from 'node:net';
import { inspect } from 'node:util';
import { describe, expect, it } from 'vitest';
import type { JsonObject } from '../../src/core/json.ts';
import type { Authentication } from '../../src/definitions/upstream/upstream-file.ts';
import { awaitRedirect } from '../../src/upstream/authorization.ts';
import { openCallGate } from '../../src/upstream/call-gate.ts';
import {
  failureOf,
  never,
  openTestAccount,
  shapeOf,
  template,
  things,
} from '../support/third-party/open-test-account.ts';
import {
  startThirdParty,
  type ReceivedRequest,
  type ThirdParty,
} from '../support/third-party/start-third-party.ts';

const list = { entity: things, params: {} };
const empty = { body: { items: [] } };
const token = { kind: 'field', field: 'token' } as const;

describe('the credentials', () => {
  it.each<[string, Authentication, Partial<ReceivedRequest['headers']>, string]>([
    [
      'basic',
      { kind: 'basic', user: { kind: 'text', text: 'serve' }, password: token },
      { authorization: `Basic ${btoa('serve:key-1')}` },
      '',
    ],
    [
      'basic with a suffix',
      { kind: 'basic', user: { kind: 'suffix', field: 'mail', suffix: '/token' }, password: token },
      { authorization: `Basic ${btoa('me@x.example/token:key-1')}` },
      '',
    ],
    ['bearer', { kind: 'bearer', token, scheme: 'OAuth' }, { authorization: 'OAuth key-1' }, ''],
    [
      'header',
      { kind: 'header', name: 'x-access-token', value: token, prefix: 'Key ' },
      { 'x-access-token': 'Key key-1' },
      '',
    ],
    ['query', { kind: 'query', name: 'apikey', value: token }, {}, 'apikey=key-1'],
  ])('go where %s authentication has them', async (_kind, auth, headers, query) => {
    const server = await startThirdParty(() => empty);
    const credentials = { token: ' key-1\n', mail: 'me@x.example' };
    await openTestAccount({
      baseUrl: server.origin,
      auth,
      shape: shapeOf('token', 'mail'),
      credentials,
    }).list(list, never);
    expect(server.requests[0]?.headers).toMatchObject(headers);
    expect(server.requests[0]?.query.toString()).toBe(query);
    expect('authorization' in (server.requests[0]?.headers ?? {})).toBe('authorization' in headers);
  });

  it.each([
    ['a line break inside', { token: 'key\r\nx-evil: 1' }],
    ['a character that no header holds', { token: 'key-ü' }],
    ['nothing', {}],
    ['blanks', { token: '  ' }],
    ['a field that is not declared', { token: 'key', key: 'x' }],
  ])('with %s are refused before anything is sent', async (_what, credentials: JsonObject) => {
    const server = await startThirdParty(() => empty);
    const failure = await failureOf(
      openTestAccount({ baseUrl: server.origin, credentials }).list(list, never),
    );
    expect(failure).toMatchObject({ class: 'unauthorized', reason: 'credentials' });
    expect(failure.text).not.toMatch(/key-ü|evil/);
    expect(server.requests).toHaveLength(0);
  });

  it.each(['basic', 'query'])('are in no failure, account or text of %s authentication', async (kind) => {
    const secret = 'planted-secret-2718281828';
    const auth: Authentication =
      kind === 'basic'
        ? { kind: 'basic', user: { kind: 'text', text: 'u' }, password: token }
        : { kind: 'query', name: 'apikey', value: token };
    const encoded = Buffer.from(`u:${secret}`).toString('base64');
    const detail = `GET /items?apikey=${secret} with Basic ${encoded}, apikey=short, was refused`;
    const server = await startThirdParty(() => ({ status: 403, body: { detail } }));
    const account = openTestAccount({ baseUrl: server.origin, auth, credentials: { token: secret } });
    const failure = await failureOf(account.list(list, never));
    const shown = inspect([failure, account], { depth: 20, showHidden: true });
    for (const hidden of [secret, encoded, 'short,']) expect(shown).not.toContain(hidden);
    expect(failure.text).toContain('was refused');
  });

  it('in the query are hidden by their name, whatever word they are', async () => {
    const server = await startThirdParty(() => ({
      status: 403,
      body: { detail: 'refused: /items?sig=monday&a=1' },
    }));
    const auth = { kind: 'query', name: 'sig', value: token } as const;
    const account = openTestAccount({ baseUrl: server.origin, auth, credentials: { token: 'monday' } });
    expect((await failureOf(account.list(list, never))).text).toBe('refused: /items?[secret]&a=1');
  });
});

interface Renewing {
  readonly server: ThirdParty;
  readonly stored: JsonObject[];
  readonly account: ReturnType<typeof openTestAccount>;
  readonly tokenCalls: () => readonly ReceivedRequest[];
}

function refreshed(origin: string): Extract<Authentication, { kind: 'refresh' }> {
  return {
    kind: 'refresh',
    params: {},
    scheme: 'Bearer',
    accessToken: 'access',
    refreshToken: 'refresh',
    clientId: { kind: 'field', field: 'id' },
    clientSecret: { kind: 'field', field: 'secret' },
    tokenUrl: template(`${origin}/token`),
    style: 'basic',
    format: 'form',
    rotates: true,
    keeps: {},
  };
}

/** A service whose refresh tokens serve once, and that takes the newest access token only. */
async function openRenewing(
  some: Partial<Extract<Authentication, { kind: 'refresh' }>> = {},
  save: ((changed: JsonObject) => Promise<void>) | null = () => Promise.resolve(),
  more: object = {},
): Promise<Renewing> {
  let number = 1;
  const server: ThirdParty = await startThirdParty((request) => {
    if (request.path !== '/token') {
      const isTaken = request.headers.authorization === `Bearer access-${number}`;
      return isTaken ? empty : { status: 401, body: { message: 'ended' } };
    }
    if (!request.body.includes(`refresh-${number}`)) return { status: 400, body: { error: 'invalid_grant' } };
    number += 1;
    return {
      headers: { 'content-type': 'text/plain' },
      body: {
        access_token: `access-${number}`,
        refresh_token: `refresh-${number}`,
        expires_in: 3_600,
        ...more,
      },
    };
  });
  const stored: JsonObject[] = [
    { access: 'access-0', refresh: 'refresh-1', id: 'app', secret: 'app-secret-31415' },
  ];
  const account = openTestAccount({
    baseUrl: server.origin,
    auth: { ...refreshed(server.origin), ...some },
    shape: shapeOf('access', 'refresh', 'id', 'secret', 'instance'),
    credentials: () => Promise.resolve(stored.at(-1) ?? {}),
    ...(save === null
      ? {}
      : {
          saveCredentials: async (changed) => {
            await save(changed);
            stored.push(changed);
          },
        }),
  });
  return {
    server,
    stored,
    account,
    tokenCalls: () => server.requests.filter(({ path }) => path === '/token'),
  };
}

describe('an access token that ended', () => {
  it('is renewed once for all calls, and the new pair is stored before it is used', async () => {
    const order: string[] = [];
    const { server, stored, account, tokenCalls } = await openRenewing({}, () => {
      order.push(
        `stored after ${server.requests.filter(({ headers }) => headers.authorization === 'Bearer access-2').length} uses`,
      );
      return Promise.resolve();
    });
    await Promise.all(Array.from({ length: 5 }, () => account.list(list, never)));
    expect(tokenCalls()).toHaveLength(1);
    expect(order).toEqual(['stored after 0 uses']);
    expect(stored.at(-1)).toEqual({
      access: 'access-2',
      refresh: 'refresh-2',
      id: 'app',
      secret: 'app-secret-31415',
    });
    expect(tokenCalls()[0]).toMatchObject({
      method: 'POST',
      body: 'grant_type=refresh_token&refresh_token=refresh-1',
      headers: {
        authorization: `Basic ${btoa('app:app-secret-31415')}`,
        'content-type': 'application/x-www-form-urlencoded',
      },
    });
  });

  it('is renewed with the client in a JSON body', async () => {
    const { account, tokenCalls } = await openRenewing({ style: 'body', format: 'json' });
    await account.list(list, never);
    expect(JSON.parse(tokenCalls()[0]?.body ?? '')).toEqual({
      grant_type: 'refresh_token',
      refresh_token: 'refresh-1',
      client_id: 'app',
      client_secret: 'app-secret-31415',
    });
    expect(tokenCalls()[0]?.headers.authorization).toBeUndefined();
  });

  it('is renewed before the first call where there is none', async () => {
    const { server, stored, account } = await openRenewing();
    stored[0] = { refresh: 'refresh-1', id: 'app', secret: 's' };
    await account.list(list, never);
    expect(server.requests.map(({ path }) => path)).toEqual(['/token', '/items']);
  });

  it('is renewed although its caller leaves meanwhile, and closing waits until the pair is stored', async () => {
    let save = (): void => undefined;
    const saving = new Promise<void>((resolve) => {
      save = resolve;
    });
    const { server, stored, account } = await openRenewing({}, () => saving);
    const leaving = new AbortController();
    const call = account.list(list, leaving.signal);
    await server.arrived(2);
    leaving.abort(new Error('the caller left'));
    await expect(call).rejects.toThrow('the caller left');
    const closed = account.close();
    save();
    await closed;
    expect(stored).toHaveLength(2);
  });

  it('is not used where the new pair cannot be stored, and storing is tried again', async () => {
    let tries = 0;
    const { account, tokenCalls } = await openRenewing({}, () => {
      tries += 1;
      return tries < 3 ? Promise.reject(new Error('disk full')) : Promise.resolve();
    });
    await account.list(list, never);
    expect(tries).toBe(3);
    expect(tokenCalls()).toHaveLength(1);
  });

  it('is not renewed where a rotated refresh token cannot be stored at all', async () => {
    const { account, tokenCalls } = await openRenewing({}, null);
    expect(await failureOf(account.list(list, never))).toMatchObject({
      class: 'unauthorized',
      reason: 'credentials',
    });
    expect(tokenCalls()).toHaveLength(0);
  });

  it('is kept by the connector where the refresh token stays the same and nothing stores', async () => {
    const { account, tokenCalls } = await openRenewing({ rotates: false }, null);
    await account.list(list, never);
    await account.list(list, never);
    expect(tokenCalls()).toHaveLength(1);
  });

  it('is of no account that is opened afterwards: a check keeps nothing from the connector that it is for', async () => {
    let newest = 0;
    const server = await startThirdParty(({ path, headers }) => {
      if (path === '/token') return { body: { access_token: `access-${(newest += 1)}` } };
      return headers.authorization === `Bearer access-${newest}` ? empty : { status: 401, body: {} };
    });
    const stored: JsonObject[] = [{ refresh: 'refresh-1', id: 'app', secret: 's' }];
    const common = {
      baseUrl: server.origin,
      auth: { ...refreshed(server.origin), rotates: false },
      shape: shapeOf('access', 'refresh', 'id', 'secret'),
      credentials: () => Promise.resolve(stored.at(-1) ?? {}),
      sharedGate: openCallGate(),
    };
    await openTestAccount(common).list(list, never);
    const account = openTestAccount({
      ...common,
      saveCredentials: (changed) => Promise.resolve(void stored.push(changed)),
    });
    await account.list(list, never);
    newest += 1;
    await account.list(list, never);
    expect(stored.at(-1)).toMatchObject({ access: `access-${newest}` });
  });

  it('stays ended where the refresh token has ended too', async () => {
    const { stored, account, tokenCalls } = await openRenewing();
    stored[0] = { access: 'access-0', refresh: 'refresh-0-77aa77aa', id: 'app', secret: 's' };
    const failure = await failureOf(account.list(list, never));
    expect(failure).toMatchObject({ class: 'unauthorized', status: 400 });
    expect(failure.text).toContain('invalid_grant');
    expect(failure.text).not.toContain('77aa77aa');
    expect(tokenCalls()).toHaveLength(1);
  });

  it('is renewed where what comes with it is missing, which is stored and leads to the host', async () => {
    const asked: string[] = [];
    const server = await startThirdParty(() => ({
      body: { access_token: 'new', at: { url: 'https://eu1.service.example' } },
    }));
    const stored: JsonObject[] = [{ access: 'old', refresh: 'refresh-1', id: 'app', secret: 's' }];
    const account = openTestAccount({
      baseUrl: 'https://{instance}/api',
      upstream: {
        host: new Map([
          [
            'instance',
            {
              from: [{ kind: 'field', field: 'instance', isOrigin: true }],
              pattern: '[a-z0-9]+\\.service\\.example',
            },
          ],
        ]),
      },
      auth: { ...refreshed(server.origin), keeps: { instance: ['at', 'url'] } },
      shape: shapeOf('access', 'refresh', 'id', 'secret', 'instance'),
      credentials: () => Promise.resolve(stored.at(-1) ?? {}),
      saveCredentials: (changed) => Promise.resolve(void stored.push(changed)),
      allowHosts: [`127.0.0.1:${server.port}`],
      resolve: (name, done) => {
        asked.push(name);
        done(null, [{ address: '127.0.0.1', family: 4 }]);
      },
    });
    // It leads to an address of this machine, which no answer may name.
    expect(await failureOf(account.list(list, never))).toMatchObject({ reason: 'address' });
    expect(asked).toEqual(['eu1.service.example']);
    expect(stored.at(-1)).toMatchObject({ access: 'new', instance: 'https://eu1.service.example' });
    await failureOf(account.list(list, never));
    expect(server.requests).toHaveLength(1);
  });

  it.each([[{}], [{ at: {} }], [{ at: { url: 'a\nb' } }], [{ at: { url: 'x'.repeat(1_001) } }]])(
    'is not taken where the answer lacks what comes with it: %j',
    async (more: object) => {
      const { account, stored, tokenCalls } = await openRenewing(
        { keeps: { instance: ['at', 'url'] } },
        undefined,
        more,
      );
      expect(await failureOf(account.list(list, never))).toMatchObject({
        class: 'refused',
        reason: 'brokenBody',
      });
      expect(tokenCalls()).toHaveLength(1);
      expect(stored).toHaveLength(1);
    },
  );

  it('without a refresh token is a plain one', async () => {
    const { stored, account, tokenCalls } = await openRenewing();
    stored[0] = { access: 'access-0' };
    expect(await failureOf(account.list(list, never))).toMatchObject({
      class: 'unauthorized',
      status: 401,
      text: 'ended',
    });
    expect(tokenCalls()).toHaveLength(0);
  });
});

it('takes the code of the browser while half-open connections fill the listener', async () => {
  await using waiting = await awaitRedirect(new URL('http://127.0.0.1/callback'));
  const code = waiting.code((query) => query.get('code'), new AbortController().signal);
  const sockets = await Promise.all(
    Array.from({ length: 25 }, async () => {
      const socket = connect(Number(new URL(waiting.redirect).port), '127.0.0.1').on(
        'error',
        () => undefined,
      );
      await once(socket, 'connect');
      socket.write('GET /callback HTTP/1.1\r\n');
      return socket;
    }),
  );
  expect((await fetch(`${waiting.redirect}?code=27182818`)).status).toBe(200);
  expect(await code).toBe('27182818');
  for (const socket of sockets) socket.destroy();
});
