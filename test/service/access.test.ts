import { afterEach, describe, expect, it } from 'vitest';
import { createAccessTokens } from '../../src/service/access-tokens.ts';
import { askForToken, credentials, serveApi, type ServedApi, text } from './served-api.ts';

const opened: ServedApi[] = [];
const serve = async (options: Parameters<typeof serveApi>[0] = {}): Promise<ServedApi> => {
  const api = await serveApi(options);
  opened.push(api);
  return api;
};
afterEach(async () => {
  for (const api of opened.splice(0)) await api.service.close();
});

const definitionsPath = '/api/v1/integrations/definitions/sources';
const good = { client_id: credentials.clientId, client_secret: credentials.clientSecret };

function manualClock(): { now: () => number; sleep: () => Promise<void>; pass: (ms: number) => void } {
  let time = Date.UTC(2024, 0, 1);
  return {
    now: () => time,
    sleep: () => Promise.resolve(),
    pass: (ms) => {
      time += ms;
    },
  };
}

describe('tokens', () => {
  it('answers the right credentials with a bearer token that works', async () => {
    const api = await serve();
    const { status, body, headers } = await askForToken(api.service.url, good);
    expect(status).toBe(200);
    expect(body).toEqual({
      access_token: expect.stringMatching(/^[\w-]{40,}$/),
      token_type: 'bearer',
      expires_in: 900,
      organization_id: api.service.organizationId,
    });
    expect(headers.get('cache-control')).toBe('no-store');
    const authorization = `Bearer ${text(body['access_token'])}`;
    expect((await api.call(definitionsPath, { headers: { authorization } })).status).toBe(200);
  });

  it('gives a different token every time', async () => {
    const api = await serve();
    const first = await askForToken(api.service.url, good);
    const second = await askForToken(api.service.url, good);
    expect(first.body['access_token']).not.toBe(second.body['access_token']);
  });

  it.each([
    { client_id: credentials.clientId, client_secret: 'guess-of-a-secret' },
    { client_id: 'somebody', client_secret: credentials.clientSecret },
  ])('answers wrong credentials with 401 and repeats none of them', async (wrong) => {
    const api = await serve();
    const { status, body } = await askForToken(api.service.url, wrong);
    expect(status).toBe(401);
    expect(JSON.stringify(body)).not.toContain(credentials.clientSecret);
    expect(JSON.stringify(body)).not.toContain('guess-of-a-secret');
  });

  it('answers a body of another shape with 422 that names the field', async () => {
    const api = await serve();
    const { status, body } = await askForToken(api.service.url, { client_id: 'client-1' });
    expect(status).toBe(422);
    expect(body['errors']).toEqual([
      expect.objectContaining({ field: 'body.client_secret', error_code: 'invalid_type' }),
    ]);
  });

  it('refuses a token after expires_in seconds and not before', async () => {
    const clock = manualClock();
    const api = await serve({ clock, tokenTtlSeconds: 900 });
    clock.pass(899_999);
    expect((await api.call(definitionsPath)).status).toBe(200);
    clock.pass(1);
    expect((await api.call(definitionsPath)).status).toBe(401);
  });

  it('keeps no more tokens than its bound, the newest ones', () => {
    const clock = manualClock();
    const tokens = createAccessTokens({ ...credentials, ttlSeconds: 900, maxTokens: 3, clock });
    const issue = (): string => tokens.issue(credentials.clientId, credentials.clientSecret) ?? '';
    const issued = Array.from({ length: 50 }, issue);
    expect(tokens.count()).toBe(3);
    expect(issued.filter((token) => tokens.isValid(token))).toEqual(issued.slice(-3));
    clock.pass(900_000);
    issue();
    expect(tokens.count()).toBe(1);
  });
});

describe('authorization', () => {
  it.each([
    ['no header', undefined],
    ['another scheme', 'Basic Y2xpZW50OnNlY3JldA=='],
    ['an empty token', 'Bearer '],
    ['an unknown token', 'Bearer not-a-token-of-this-service'],
  ])('refuses %s with 401 on every endpoint, unknown ones included', async (_name, authorization) => {
    const api = await serve();
    const headers = {
      'content-type': 'application/json',
      ...(authorization === undefined ? {} : { authorization }),
    };
    for (const [method, path] of [
      ['GET', definitionsPath],
      ['GET', '/api/v1/integrations/connectors?workspace_name=default'],
      ['GET', '/api/v1/integrations/connectors/mail-1'],
      ['POST', '/api/v1/integrations/connectors/mail-1/execute'],
      ['GET', '/nothing/here'],
    ] as const) {
      const response = await fetch(`${api.service.url}${path}`, {
        method,
        headers,
        ...(method === 'POST' ? { body: '{}' } : {}),
      });
      expect([path, response.status]).toEqual([path, 401]);
      expect(response.headers.get('www-authenticate')).toBe('Bearer');
      expect(await response.text()).not.toContain('not-a-token-of-this-service');
    }
  });

  it('takes the header of its own organization and refuses that of another with 403', async () => {
    const api = await serve();
    const send = (organization: string) =>
      api.call(definitionsPath, { headers: { 'x-organization-id': organization } });
    expect((await send(api.service.organizationId)).status).toBe(200);
    expect((await send('6e00b415-b02e-4160-bf02-58176a0ae687')).status).toBe(403);
  });
});
