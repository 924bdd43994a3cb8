import { inspect } from 'node:util';
import { afterEach, describe, expect, it, vi } from 'vitest';
import type { ConnectorId } from '../../../src/core/names.ts';
import { openApiSource } from '../../../src/source/api/open-api-source.ts';
import { resolveConnector } from '../../../src/source/api/open-api-client.ts';
import { hugeHeaders, resetBeforeHeaders } from '../../support/hostile/broken-replies.ts';
import { startHostileServer } from '../../support/hostile-server.ts';
import { apiError, html, json, redirect, success, text, throttled } from '../../support/hostile/replies.ts';
import type { Reply } from '../../support/hostile/exchange.ts';
import {
  clientSecret,
  connectorId,
  failureOf,
  never,
  openTestClient,
  openTestSource,
  type TestSource,
} from '../../support/source/open-test-source.ts';
import { entityName, testDefinition } from '../../support/source/test-definition.ts';

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
    'https://169.254.169.254',
    'http://169.254.169.254',
    'https://[::ffff:169.254.169.254]',
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
    'http://localhost.:1',
    'http://[::1]:1',
    'http://[::ffff:127.0.0.1]:1',
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
