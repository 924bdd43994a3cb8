import { afterEach, describe, expect, it } from 'vitest';
import { askForToken, credentials, serveApi, type ServedApi, text } from '../support/service/served-api.ts';

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
  // Proves specification 4.1.1, 4.1.2, 5.1, 5.6
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

  // Proves specification 4.1.1, 7.4
  it('answers a body of another shape with 422 that names the field', async () => {
    const api = await serve();
    const { status, body } = await askForToken(api.service.url, { client_id: 'client-1' });
    expect(status).toBe(422);
    expect(body['errors']).toEqual([
      expect.objectContaining({ field: 'body.client_secret', error_code: 'invalid_type' }),
    ]);
  });

  // Proves specification 5.6
  it('refuses a token after expires_in seconds and not before', async () => {
    const clock = manualClock();
    const api = await serve({ clock, tokenTtlSeconds: 900 });
    clock.pass(899_999);
    expect((await api.call(definitionsPath)).status).toBe(200);
    clock.pass(1);
    expect((await api.call(definitionsPath)).status).toBe(401);
  });

  // Proves specification 5.4
  it('lets a scoped token live 20 minutes', async () => {
    const clock = manualClock();
    const api = await serve({ clock });
    const { body } = await api.call('/api/v1/account/applications/scoped-token', {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ workspace_name: 'default' }),
    });
    const headers = { authorization: `Bearer ${text(body['token'])}` };
    clock.pass(20 * 60_000 - 1);
    expect((await api.call(definitionsPath, { headers })).status).toBe(200);
    clock.pass(1);
    expect((await api.call(definitionsPath, { headers })).status).toBe(401);
  });

  it('keeps no more tokens of an application than its bound, the newest ones', async () => {
    const api = await serve({ limits: { maxTokens: 3 } });
    const issued = [api.token];
    for (let asked = 0; asked < 4; asked += 1) {
      issued.push(text((await askForToken(api.service.url, good)).body['access_token']));
    }
    const statuses = await Promise.all(
      issued.map(async (token) => {
        const headers = { authorization: `Bearer ${token}` };
        return (await api.call(definitionsPath, { headers })).status;
      }),
    );
    expect(statuses).toEqual([401, 401, 200, 200, 200]);
  });

  it('takes a token no more whose application was deleted or has got another secret', async () => {
    const api = await serve();
    const { applications } = api.service.state;
    const changed = { ...credentials, clientSecret: 'changed' };
    applications.put({ organizationName: 'default', ...changed });
    expect((await api.call(definitionsPath)).status).toBe(401);
    expect((await askForToken(api.service.url, good)).status).toBe(401);
    const { body } = await askForToken(api.service.url, { ...good, client_secret: 'changed' });
    const headers = { authorization: `Bearer ${text(body['access_token'])}` };
    expect((await api.call(definitionsPath, { headers })).status).toBe(200);
    applications.delete(credentials.clientId);
    expect((await api.call(definitionsPath, { headers })).status).toBe(401);
  });

  it('is of the organization that has its client id, and of no other', async () => {
    const { applications } = (await serve()).service.state;
    expect(() => applications.put({ organizationName: 'others', ...credentials })).toThrow(
      /belongs to another organization/,
    );
  });
});

describe('authorization', () => {
  // Proves specification 7.5
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

  // Proves specification 1.8, 5.3
  it('accepts the header of its organization and refuses that of another with 403', async () => {
    const api = await serve();
    const send = (organization: string) =>
      api.call(definitionsPath, { headers: { 'x-organization-id': organization } });
    expect((await send(api.service.organizationId)).status).toBe(200);
    expect((await send(api.service.organizationId.toUpperCase())).status).toBe(200);
    expect((await send('6e00b415-b02e-4160-bf02-58176a0ae687')).status).toBe(403);
  });
});

describe('the rate of requests', () => {
  const ask = async (api: ServedApi, times: number, headers: Record<string, string> = {}) => {
    const answers = [];
    for (let asked = 0; asked < times; asked += 1) answers.push(await api.call(definitionsPath, { headers }));
    return answers;
  };

  // Proves specification 8.6
  it('of one token is held to its limit with 429 and a whole number of seconds to wait', async () => {
    const clock = manualClock();
    const api = await serve({ clock, limits: { requestsPerSecond: 5 } });
    const answers = await ask(api, 7);
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200, 200, 429, 429]);
    expect(answers[5]?.headers.get('retry-after')).toBe('1');
    expect(answers[5]?.body).toEqual({
      message: 'Too many requests a second. Wait as long as Retry-After says.',
      errors: [expect.objectContaining({ error_code: 'too_many_requests' })],
    });
    clock.pass(200);
    expect((await ask(api, 2)).map(({ status }) => status)).toEqual([200, 429]);
    clock.pass(600_000);
    expect((await ask(api, 6)).map(({ status }) => status)).toEqual([200, 200, 200, 200, 200, 429]);
    clock.pass(-600_000);
    expect((await ask(api, 1)).map(({ status }) => status)).toEqual([429]);
    clock.pass(1000);
    expect((await ask(api, 1)).map(({ status }) => status)).toEqual([200]);
  });

  // Proves specification 8.6
  it('of one token is 1,000 a second by default', async () => {
    const api = await serve({ clock: manualClock() });
    const answers = (await Promise.all(Array.from({ length: 11 }, () => ask(api, 92)))).flat();
    const counts = [200, 429].map((wanted) => answers.filter(({ status }) => status === wanted).length);
    expect(counts).toEqual([1_000, 12]);
  });

  it('is counted for each token by itself', async () => {
    const api = await serve({ clock: manualClock(), limits: { requestsPerSecond: 3 } });
    const { body } = await askForToken(api.service.url, good);
    expect((await ask(api, 4)).map(({ status }) => status)).toEqual([200, 200, 200, 429]);
    const authorization = `Bearer ${text(body['access_token'])}`;
    expect((await ask(api, 4, { authorization })).map(({ status }) => status)).toEqual([200, 200, 200, 429]);
  });

  it('is limited for those without a known token too, all of an address together', async () => {
    const clock = manualClock();
    const api = await serve({ clock, limits: { requestsPerSecond: 4 } });
    const guesses = [1, 2, 3].map((guess) => ask(api, 1, { authorization: `Bearer guess-${guess}` }));
    // The token of the test was the first of the four.
    expect((await Promise.all(guesses)).flat().map(({ status }) => status)).toEqual([401, 401, 401]);
    expect((await askForToken(api.service.url, good)).status).toBe(429);
    expect((await ask(api, 1))[0]?.status).toBe(200);
    clock.pass(1000);
    expect((await askForToken(api.service.url, good)).status).toBe(200);
  });
});
