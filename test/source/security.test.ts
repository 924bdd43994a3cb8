import type { LookupAddress } from 'node:dns';
import { inspect } from 'node:util';
import { afterEach, describe, expect, it, vi } from 'vitest';
import type { ConnectorId } from '../../src/core/names.ts';
import { guardedLookup } from '../../src/http/guard-address.ts';
import { guardAddress } from '../../src/source/api/api-caller.ts';
import { resolveConnector } from '../../src/source/api/open-api-client.ts';
import { openApiSource } from '../../src/source/api/open-api-source.ts';
import { startHostileServer } from '../support/hostile-server.ts';
import {
  hugeHeaders,
  resetBeforeHeaders,
  type Reply,
  apiError,
  html,
  json,
  redirect,
  success,
  text,
  throttled,
  held,
} from '../support/hostile/replies.ts';
import { instantClock } from '../support/instant-clock.ts';
import { openPromise } from '../support/open-promise.ts';
import {
  clientSecret,
  connectorId,
  failureOf,
  never,
  openTestClient,
  openTestSource,
  type TestSource,
  type TestSourceOptions,
} from '../support/source/open-test-source.ts';
import { entityName, testDefinition } from '../support/source/test-definition.ts';

describe('security', () => {
  let open: TestSource;
  afterEach(() => {
    vi.unstubAllEnvs();
  });
  const request = { entity: entityName('members'), params: {}, isRoot: true };

  describe('a redirect', () => {
    it.each([301, 302, 303, 307, 308])('%s is never followed', async (status) => {
      await using second = await startHostileServer();
      open = await openTestSource({ respond: () => redirect(status, `${second.baseUrl}/api/v1/steal`) });
      expect(await failureOf(open.source.list(request, never))).toMatchObject({
        code: 'REDIRECTED',
        recovery: 'stop',
      });
      expect(second.requests).toEqual([]);
      expect(open.server.calls).toHaveLength(1);
    });

    it('of the token endpoint is not followed either', async () => {
      await using second = await startHostileServer();
      open = await openTestSource({ respondToken: () => redirect(307, second.baseUrl) });
      expect(await failureOf(open.source.list(request, never))).toMatchObject({
        code: 'REDIRECTED',
        recovery: 'stop',
      });
      expect(second.requests).toEqual([]);
    });
  });

  describe('a connector id', () => {
    it.each([
      '..',
      '.',
      '%2e%2e',
      'a/b',
      '',
      'a\0b',
      'a?b',
      'a#b',
      'a\\b',
      'é',
      'x'.repeat(129),
      '../..',
      'a b',
    ])('that is no id never reaches the wire: %j', async (text) => {
      open = await openTestSource();
      // As it would come from an unchecked config file.
      const id = text as ConnectorId;
      const resolving = resolveConnector(open.client, testDefinition(), { kind: 'id', id }, never);
      expect(await failureOf(resolving)).toMatchObject({ code: 'CONFIG_INVALID', recovery: 'stop' });
      expect(await failureOf(open.client.connector(id, never))).toMatchObject({ code: 'CONFIG_INVALID' });
      expect(open.server.requests).toEqual([]);
    });

    it('that the service itself hands out is judged too', async () => {
      open = await openTestSource({ respondGet: () => json(200, { data: [{ id: '../evil', name: 'x' }] }) });
      expect(await failureOf(open.client.findConnectors({ workspace: 'w' }, never))).toMatchObject({
        code: 'BODY_INVALID',
      });
    });
  });

  describe('the base URL', () => {
    // Proves specification 4.1
    it.each([
      'http://example.com',
      'http://10.0.0.1',
      'http://0.0.0.0',
      'http://localhost.evil.example',
      'http://localhost.:1',
      'https://169.254.169.254',
      'http://169.254.169.254',
      'https://[::ffff:169.254.169.254]',
      'http://[::ffff:127.0.0.1]:1',
      'https://[fe80::1]',
      'https://user:pass@example.com',
      'https://example.com/?x=1',
      'https://example.com/#x',
      'https://example.com/?',
      'ftp://example.com',
      'file:///etc/passwd',
      'not a url',
      '',
    ])('%j is refused before anything is sent', (baseUrl) => {
      expect(() => openTestClient(baseUrl)).toThrow(expect.objectContaining({ code: 'CONFIG_INVALID' }));
    });

    it.each([
      'https://api.example.com',
      'https://api.example.com/prefix/',
      'http://127.0.0.1:1',
      'http://127.1',
      'http://localhost:1',
      'http://[::1]:1',
    ])('%j is accepted', async (baseUrl) => {
      await using client = openTestClient(baseUrl);
      expect(client).toBeDefined();
    });

    // Proves specification 1.7
    it('may have a path, and the name localhost', async () => {
      open = await openTestSource();
      const { port } = new URL(open.server.baseUrl);
      await using client = openTestClient(`http://localhost:${port}/behind/proxy/`);
      expect(await client.definitions('x', never)).toHaveLength(1);
      expect(open.server.requests.at(-1)).toBe('GET /behind/proxy/api/v1/integrations/definitions/sources');
    });
  });

  it('refuses to run with certificate checks switched off', () => {
    vi.stubEnv('NODE_TLS_REJECT_UNAUTHORIZED', '0');
    expect(() => openTestClient('https://api.example.com')).toThrow(
      expect.objectContaining({ code: 'CONFIG_INVALID' }),
    );
  });

  describe('the organization', () => {
    it('travels only when it is set', async () => {
      open = await openTestSource();
      await open.source.list(request, never);
      expect(open.server.calls[0]?.headers['x-organization-id']).toBeUndefined();
      await using client = openTestClient(open.server.baseUrl, { organizationId: 'org-1' });
      const source = openApiSource(client, {
        definition: testDefinition(),
        connectorId: connectorId('c1'),
        address: 'https://api.example.com',
        concurrency: 1,
        requestsPerSecond: 1000,
      });
      await source.list(request, never);
      expect(open.server.calls[1]?.headers['x-organization-id']).toBe('org-1');
    });

    it('with a line break is refused', () => {
      expect(() => openTestClient('https://api.example.com', { organizationId: 'a\r\nb: c' })).toThrow(
        expect.objectContaining({ code: 'CONFIG_INVALID' }),
      );
    });
  });

  describe('secrets', () => {
    // The service echoes all it knows, in every way of failing.
    const echo = (token: string): string =>
      `bad request: client_secret=${clientSecret} authorization: Bearer ${token} raw ${token} mail a.b@example.com ` +
      `key 0123456789abcdef0123456789abcdef \u001b[31m\u202e`;

    // Proves promise 10
    it('are in no error and no event, whatever the service answers', async () => {
      let reply: (token: string) => Reply = () => success([]);
      open = await openTestSource({
        respond: ({ token }) => reply(token),
        respondGet: () => apiError(404, echo('?')),
        limits: { retries: 1 },
      });
      const replies: ((token: string) => Reply)[] = [
        ...[400, 401, 402, 403, 404, 409, 422, 429, 500, 503, 504].flatMap((status) => [
          (token: string) => apiError(status, echo(token)),
          (token: string) => text(status, echo(token)),
          (token: string) => json(status, { detail: [{ msg: echo(token) }] }),
        ]),
        (token) => redirect(302, `http://127.0.0.1:1/?token=${token}`),
        (token) => text(200, echo(token)),
        (token) => json(200, { status: echo(token), result: [] }),
        (token) => success({ id: echo(token) }),
        () => html(403),
        () => throttled({ seconds: 90 }),
        () => resetBeforeHeaders,
        () => hugeHeaders(40_000),
      ];
      const texts: string[] = [];
      for (const next of replies) {
        reply = next;
        const error = await failureOf(open.source.list(request, never));
        expect(error.message.length).toBeLessThan(700);
        texts.push(JSON.stringify(error), error.stack ?? '', inspect(error, { depth: 20, showHidden: true }));
      }
      texts.push(JSON.stringify(open.events), inspect(open.events, { depth: 20 }));
      const all = texts.join('\n');
      const tokens = new Set(open.server.calls.map(({ token }) => token));
      for (const secret of [
        clientSecret,
        ...tokens,
        'a.b@example.com',
        '0123456789abcdef0123456789abcdef',
        '\u202e',
      ]) {
        expect(all.includes(secret), secret).toBe(false);
      }
      expect(all).toContain('bad request');
    });

    it('of the token request are in no error', async () => {
      open = await openTestSource({ respondToken: () => apiError(401, echo('none')) });
      const error = await failureOf(open.source.list(request, never));
      expect(inspect(error, { depth: 20, showHidden: true })).not.toContain(clientSecret);
      expect(inspect(open.client, { depth: 20, showHidden: true })).not.toContain(clientSecret);
    });
  });
});

function lookUp(addresses: readonly string[], isPlainHttp: boolean, all: boolean): Promise<unknown> {
  const found: LookupAddress[] = addresses.map((address) => ({
    address,
    family: address.includes(':') ? 6 : 4,
  }));
  const lookup = guardedLookup(
    (address) => guardAddress(address, isPlainHttp),
    (_hostname, done) => done(null, found),
  );
  return new Promise((resolve, reject) => {
    lookup('api.example.com', { all }, (error, address) =>
      error === null ? resolve(address) : reject(error),
    );
  });
}

describe('an address a host name leads to', () => {
  it.each([
    '169.254.169.254',
    '169.254.0.1',
    '::ffff:169.254.169.254',
    '::ffff:a9fe:a9fe',
    '64:ff9b::a9fe:a9fe',
    'fe80::1',
    'fd00:ec2::254',
  ])('%s is refused, with https and http', async (address) => {
    expect(() => guardAddress(address, false)).toThrow('link-local');
    await expect(lookUp([address], false, false)).rejects.toMatchObject({ code: 'ERR_ADDRESS_REFUSED' });
    await expect(lookUp(['93.184.216.34', address], false, true)).rejects.toMatchObject({
      code: 'ERR_ADDRESS_REFUSED',
    });
  });

  it.each(['10.0.0.1', '192.168.1.1', '93.184.216.34', '::ffff:10.0.0.1', '2001:db8::1', '0.0.0.0'])(
    '%s is refused for http, and allowed for https',
    async (address) => {
      await expect(lookUp([address], true, true)).rejects.toMatchObject({ code: 'ERR_ADDRESS_REFUSED' });
      expect(await lookUp([address], false, false)).toBe(address);
    },
  );

  it.each(['127.0.0.1', '127.8.8.8', '::1', '::ffff:127.0.0.1'])('%s is this machine', async (address) => {
    expect(await lookUp([address], true, false)).toBe(address);
    expect(await lookUp([address], true, true)).toEqual([expect.objectContaining({ address })]);
  });

  it('must exist', async () => {
    await expect(lookUp([], false, true)).rejects.toMatchObject({ code: 'ERR_ADDRESS_REFUSED' });
  });

  it('is not looked for after an error of the name service', async () => {
    const failure = Object.assign(new Error('no such name'), { code: 'ENOTFOUND' });
    const lookup = guardedLookup(
      (address) => guardAddress(address, false),
      (_hostname, done) => done(failure, []),
    );
    const seen = await new Promise((resolve) => {
      lookup('x.example', { all: true }, (error) => resolve(error));
    });
    expect(seen).toBe(failure);
  });
});

const start = (options: TestSourceOptions = {}): Promise<TestSource> =>
  openTestSource({ scopedToWorkspace: 'acme & sons', ...options });
const request = { entity: entityName('members'), params: {}, isRoot: false };
const minutes = 60_000;

describe('a client that is scoped to a workspace', () => {
  // Proves specification 5.5
  it('sends a token of the workspace with every call, and the account token for that token alone', async () => {
    const { source, server, client } = await start();
    await Promise.all(Array.from({ length: 20 }, () => source.list(request, never)));
    await client.definitions(null, never);
    expect(server.scopedTo).toEqual(['acme & sons']);
    expect(server.tokensIssued()).toBe(1);
    expect(new Set(server.calls.map(({ token }) => token.slice(0, 9)))).toEqual(new Set(['scoped-1-']));
  });

  it('asks for a new one before the 20 minutes are over', async () => {
    const clock = instantClock();
    const { source, server } = await start({ clock, tokenLifetime: 3_600 });
    await source.list(request, never);
    clock.advance(13 * minutes);
    await source.list(request, never);
    expect(server.scopedTo).toHaveLength(1);
    clock.advance(2 * minutes);
    await source.list(request, never);
    expect(server.scopedTo).toHaveLength(2);
    expect(server.tokensIssued()).toBe(1);
  });

  it('asks once for all callers when the service refuses it, and repeats their calls', async () => {
    const { source, server } = await start();
    await source.list(request, never);
    server.expireTokens('scoped');
    const pages = await Promise.all(Array.from({ length: 20 }, () => source.list(request, never)));
    expect(pages).toHaveLength(20);
    expect(server.scopedTo).toHaveLength(2);
    expect(server.tokensIssued()).toBe(1);
  });

  it('gets a new account token where that one has expired as well', async () => {
    const { source, server } = await start();
    await source.list(request, never);
    server.expireTokens();
    await source.list(request, never);
    expect(server.scopedTo).toHaveLength(2);
    expect(server.tokensIssued()).toBe(2);
  });

  it('stops with AUTH_FAILED where every token is refused, without asking again and again', async () => {
    const { source, server } = await start();
    await source.list(request, never);
    server.refuseAllTokens();
    const errors = await Promise.all(
      Array.from({ length: 10 }, () => failureOf(source.list(request, never))),
    );
    for (const error of errors) expect(error).toMatchObject({ code: 'AUTH_FAILED', recovery: 'stop' });
    expect(server.tokensIssued()).toBeLessThanOrEqual(3);
  });

  // Proves promise 17
  it('keeps both tokens out of messages', async () => {
    const { source } = await start({
      respond:
        ({ token }) =>
        ({ response }) => {
          response.writeHead(400, { 'content-type': 'application/json' });
          response.end(JSON.stringify({ message: `token ${token} is not good` }));
        },
    });
    const { message } = await failureOf(source.list(request, never));
    expect(message).toContain('is not good');
    expect(message).not.toContain('scoped-1');
  });
});

const twenty = (source: TestSource['source']) =>
  Array.from({ length: 20 }, () => source.list(request, never));

describe('the application token', () => {
  it('is asked for once, however many callers wait for it', async () => {
    const slow = openPromise();
    const { source, server } = await openTestSource({
      respondToken: () => held(slow.promise, json(200, { access_token: 'slow-token', expires_in: 900 })),
      respond: () => success([]),
    });
    const calls = twenty(source).map((call) => failureOf(call));
    slow.resolve();
    // The server does not know this token, so the calls fail after the one renewal.
    for (const error of await Promise.all(calls)) expect(error).toMatchObject({ code: 'AUTH_FAILED' });
    expect(server.requests.filter((line) => line.endsWith('/token'))).toHaveLength(2);
  });

  // Proves specification 4.1.3
  it('is renewed 60 s before it ends', async () => {
    const clock = instantClock();
    const { source, server } = await openTestSource({ clock, tokenLifetime: 900 });
    await source.list(request, never);
    clock.advance(839_000);
    await source.list(request, never);
    expect(server.tokensIssued()).toBe(1);
    clock.advance(2_000);
    await source.list(request, never);
    expect(server.tokensIssued()).toBe(2);
  });

  it('is renewed once for all callers when it expires under them', async () => {
    const { source, server } = await openTestSource({});
    await source.list(request, never);
    server.expireTokens();
    const pages = await Promise.all(twenty(source));
    expect(pages).toHaveLength(20);
    expect(server.tokensIssued()).toBe(2);
    expect(server.calls).toHaveLength(41);
    server.expireTokens();
    await Promise.all(twenty(source));
    expect(server.tokensIssued()).toBe(3);
  });

  it('ends in AUTH_FAILED when every token is refused, after one renewal for all', async () => {
    const { source, server } = await openTestSource({});
    await source.list(request, never);
    server.refuseAllTokens();
    const errors = await Promise.all(twenty(source).map((call) => failureOf(call)));
    for (const error of errors) expect(error).toMatchObject({ code: 'AUTH_FAILED', recovery: 'stop' });
    expect(server.tokensIssued()).toBe(2);
    expect(server.calls.length).toBeLessThanOrEqual(41);
  });

  it('is not asked for again and again by later calls once it was refused for good', async () => {
    const { source, server } = await openTestSource({});
    server.refuseAllTokens();
    for (let call = 0; call < 5; call += 1) await failureOf(source.list(request, never));
    expect(server.tokensIssued()).toBe(2);
  });

  it.each<[string, Reply, string, number]>([
    ['401', apiError(401, 'Invalid client'), 'AUTH_FAILED', 1],
    ['400', apiError(400, 'invalid_client'), 'AUTH_FAILED', 1],
    ['403', apiError(403, 'No'), 'AUTH_FAILED', 1],
    ['422', json(422, { detail: [] }), 'AUTH_FAILED', 1],
    ['403 in HTML', html(403), 'AUTH_FAILED', 3],
    ['404', json(404, { detail: 'Not Found' }), 'CONFIG_INVALID', 1],
  ])('stops everything when its endpoint answers %s', async (_title, reply, code, requests) => {
    const { source, server } = await openTestSource({ respondToken: () => reply });
    expect(await failureOf(source.list(request, never))).toMatchObject({ code, recovery: 'stop' });
    expect(server.requests).toHaveLength(requests);
  });

  it('is retried on its own, not once more by each caller', async () => {
    const { source, server } = await openTestSource({ respondToken: () => apiError(503, 'down') });
    const errors = await Promise.all(twenty(source).map((call) => failureOf(call)));
    for (const error of errors) expect(error).toMatchObject({ code: 'UPSTREAM', recovery: 'retry' });
    expect(server.requests).toHaveLength(6);
  });

  it.each<[string, unknown]>([
    ['a line break', { access_token: 'abc\r\nx-injected: 1', expires_in: 900 }],
    ['a space', { access_token: 'abc def', expires_in: 900 }],
    ['nothing in it', { access_token: '', expires_in: 900 }],
    ['another name', { token: 'abc' }],
  ])('is refused when it has %s', async (_title, body) => {
    const { source, server } = await openTestSource({
      respondToken: () => json(200, body),
      limits: { retries: 1 },
    });
    expect(await failureOf(source.list(request, never))).toMatchObject({ code: 'BODY_INVALID' });
    expect(server.calls).toHaveLength(0);
  });

  it('is not waited for after an abort, and still serves the others', async () => {
    const slow = openPromise();
    const { source } = await openTestSource({
      respondToken: (index) => (index === 0 ? held(slow.promise, apiError(500, 'oops')) : null),
    });
    const controller = new AbortController();
    const left = source.list(request, controller.signal);
    const stays = source.list(request, never);
    const reason = new Error('stopped by test');
    controller.abort(reason);
    await expect(left).rejects.toBe(reason);
    slow.resolve();
    expect((await stays).records.length).toBe(0);
  });
});
