import { describe, expect, it, afterAll, beforeAll } from 'vitest';
import { apiEndpoints } from '../../src/service/routes/api-endpoints.ts';
import type { Access, Endpoint } from '../../src/service/routes/endpoint.ts';
import { manualClock } from '../support/service/open-test-state.ts';
import {
  askForToken,
  credentials,
  serveApi,
  serveHere,
  type ServedApi,
  text,
  tokenFor,
  textIn,
  apiClient,
  jsonRequest,
  mailing,
  objects,
  type Answer,
} from '../support/service/served-api.ts';

const good = { client_id: credentials.clientId, client_secret: credentials.clientSecret };

describe('access', () => {
  const definitionsPath = '/api/v1/integrations/definitions/sources';

  describe('tokens', () => {
    // Proves specification 4.1.1, 4.1.2, 5.1, 5.6
    it('answers the right credentials with a bearer token that works', async () => {
      const api = await serveHere();
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

    it.each([
      { client_id: credentials.clientId, client_secret: 'guess-of-a-secret' },
      { client_id: 'somebody', client_secret: credentials.clientSecret },
    ])('answers wrong credentials with 401 and repeats none of them', async (wrong) => {
      const api = await serveHere();
      const { status, body } = await askForToken(api.service.url, wrong);
      expect(status).toBe(401);
      expect(JSON.stringify(body)).not.toContain(credentials.clientSecret);
      expect(JSON.stringify(body)).not.toContain('guess-of-a-secret');
    });

    // Proves specification 4.1.1, 7.4
    it('answers a body of another shape with 422 that names the field', async () => {
      const api = await serveHere();
      const { status, body } = await askForToken(api.service.url, { client_id: 'client-1' });
      expect(status).toBe(422);
      expect(body['errors']).toEqual([
        expect.objectContaining({ field: 'body.client_secret', error_code: 'invalid_type' }),
      ]);
    });

    // Proves specification 5.4, 5.6
    it('refuses a token after expires_in seconds and not before, and a scoped one after 20 minutes', async () => {
      const clock = manualClock();
      const { service, token } = await serveHere({ clock, tokenTtlSeconds: 900 });
      const scoped = await tokenFor(service.url, credentials, 'default');
      for (const [one, ms] of [
        [token, 900_000],
        [scoped, 300_000],
      ] as const) {
        const { get } = apiClient(service.url, one);
        clock.pass(ms - 1);
        expect((await get(definitionsPath)).status).toBe(200);
        clock.pass(1);
        expect((await get(definitionsPath)).status).toBe(401);
      }
    });

    it('takes a token no more whose application was deleted or has got another secret', async () => {
      const api = await serveHere();
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
      const { applications } = (await serveHere()).service.state;
      expect(() => applications.put({ organizationName: 'others', ...credentials })).toThrow(
        /belongs to another organization/,
      );
    });
  });

  describe('authorization', () => {
    // Proves specification 1.8, 5.3
    it('accepts the header of its organization and refuses that of another with 403', async () => {
      const api = await serveHere();
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
      for (let asked = 0; asked < times; asked += 1) {
        answers.push(await api.call(definitionsPath, { headers }));
      }
      return answers;
    };

    // Proves specification 8.6
    it('of one token is held to its limit with 429 and a whole number of seconds to wait', async () => {
      const clock = manualClock();
      const api = await serveHere({ clock, limits: { requestsPerSecond: 5 } });
      const answers = await ask(api, 7);
      expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200, 200, 429, 429]);
      expect(answers[5]?.headers.get('retry-after')).toBe('1');
      expect(answers[5]?.body).toEqual({
        message: 'Too many requests per second. Retry after the seconds in Retry-After.',
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
      const api = await serveHere({ clock: manualClock() });
      const answers = (await Promise.all(Array.from({ length: 11 }, () => ask(api, 92)))).flat();
      const counts = [200, 429].map((wanted) => answers.filter(({ status }) => status === wanted).length);
      expect(counts).toEqual([1_000, 12]);
    });

    it('is limited for those without a known token too, all of an address together', async () => {
      const clock = manualClock();
      const api = await serveHere({ clock, limits: { requestsPerSecond: 4 } });
      const guesses = [1, 2, 3].map((guess) => ask(api, 1, { authorization: `Bearer guess-${guess}` }));
      // The token of the test was the first of the four.
      expect((await Promise.all(guesses)).flat().map(({ status }) => status)).toEqual([401, 401, 401]);
      expect((await askForToken(api.service.url, good)).status).toBe(429);
      expect((await ask(api, 1))[0]?.status).toBe(200);
      clock.pass(1000);
      expect((await askForToken(api.service.url, good)).status).toBe(200);
    });
  });
});

describe('endpoint access', () => {
  const strangers = { clientId: 'client-2', clientSecret: 'a-secret-of-the-strangers' };

  let time = Date.UTC(2024, 0, 1);
  let api: ServedApi;
  /** Ids that exist, in the workspace `default` of the organization `default`. */
  let known: { readonly connector: string; readonly workspace: string };

  beforeAll(async () => {
    api = await serveApi({
      limits: { tokensPerSecond: 1_000 },
      clock: { now: () => time, sleep: () => Promise.resolve() },
    });
    api.service.state.applications.put({ organizationName: 'strangers', ...strangers });
    const { body } = await api.call('/api/v1/workspaces');
    known = { connector: mailing, workspace: textIn(objects(body['data'])[0] ?? {}, 'id') };
  });
  afterAll(() => api.service.close());

  /** A request that the endpoint would answer, with ids that exist. */
  async function ask(endpoint: Endpoint, token: string | null): Promise<Answer> {
    const isWorkspace = endpoint.path.startsWith('/api/v1/workspaces');
    const id = endpoint.path.includes('/definitions/')
      ? 'b03a9f3e-22a5-11eb-adc1-0242ac120002'
      : isWorkspace
        ? known.workspace
        : known.connector;
    const query = new URLSearchParams(endpoint.example.query).toString();
    const path = `${endpoint.path.replace('{id}', id)}${query === '' ? '' : `?${query}`}`;
    const { method, example } = endpoint;
    return await apiClient(api.service.url, token).call(path, jsonRequest(method, token, example.body));
  }

  const guarded = apiEndpoints.filter(({ access }) => access !== 'public');
  const named = (endpoints: readonly Endpoint[]): readonly (readonly [string, Endpoint])[] =>
    endpoints.map((endpoint) => [`${endpoint.method} ${endpoint.path}`, endpoint]);

  const withAccess = (access: Access): readonly Endpoint[] =>
    apiEndpoints.filter((endpoint) => endpoint.access === access);
  const withOwnedId = guarded.filter(({ path }) => path.includes('{id}') && !path.includes('/definitions/'));

  describe('every guarded endpoint', () => {
    // Proves promise 17; specification 4.4, 5.1, 7.5
    it.each(named(guarded))(
      '%s answers 401 without a token, with an unknown and with an expired one',
      async (_name, endpoint) => {
        const tokens = [null, 'unknown', await tokenFor(api.service.url, credentials)];
        if (endpoint.access !== 'application') {
          tokens.push(await tokenFor(api.service.url, credentials, 'default'));
        }
        time += 1_200_000;
        for (const token of tokens) {
          const { status, body, headers } = await ask(endpoint, token);
          expect([status, headers.get('www-authenticate')]).toEqual([401, 'Bearer']);
          expect(Object.keys(body)).toEqual(['message', 'errors']);
        }
      },
    );

    it.each(named(withAccess('application')))(
      '%s refuses a token of one workspace with 403',
      async (_name, endpoint) => {
        const { status, body } = await ask(endpoint, await tokenFor(api.service.url, credentials, 'default'));
        expect([status, objects(body['errors'])[0]?.['error_code']]).toEqual([
          403,
          'application_token_required',
        ]);
      },
    );

    // Proves specification 5.2
    it.each(named(withOwnedId))(
      '%s finds nothing of another organization or workspace, in the words that an unknown id gets',
      async (_name, endpoint) => {
        const { path } = endpoint;
        const unknown = await ask(
          { ...endpoint, path: path.replace('{id}', '6e00b415-b02e-4160-bf02-58176a0ae687') },
          await tokenFor(api.service.url, credentials),
        );
        expect(unknown.status).toBe(404);
        const stranger = await ask(endpoint, await tokenFor(api.service.url, strangers));
        expect([stranger.status, stranger.body]).toEqual([404, unknown.body]);
        if (endpoint.access === 'workspace') {
          const elsewhere = await ask(endpoint, await tokenFor(api.service.url, credentials, 'elsewhere'));
          expect([elsewhere.status, elsewhere.body]).toEqual([404, unknown.body]);
        }
      },
    );

    it('has left everything as it was after each refusal', async () => {
      const client = apiClient(api.service.url, await tokenFor(api.service.url, credentials));
      expect((await client.get(`/api/v1/integrations/connectors/${known.connector}`)).body).toMatchObject({
        name: 'Email marketing (default)',
      });
      expect(objects((await client.get('/api/v1/workspaces')).body['data'])).toContainEqual(
        expect.objectContaining({ id: known.workspace, name: 'default' }),
      );
    });
  });

  describe('every public endpoint', () => {
    // Proves specification 4.4
    it('asks for a token, or is the OpenAPI document', () => {
      expect(
        named(withAccess('public'))
          .map(([name]) => name)
          .toSorted(),
      ).toEqual(['GET /openapi.json', 'POST /api/v1/account/applications/token']);
    });

    it.each(named(withAccess('public')))(
      '%s asks for no token and takes no notice of a bad one',
      async (_name, endpoint) => {
        const body = endpoint.method === 'POST' ? good : undefined;
        for (const token of [null, 'unknown']) {
          const path = `${api.service.url}${endpoint.path}`;
          const response = await fetch(path, jsonRequest(endpoint.method, token, body));
          expect([endpoint.path, response.status]).toEqual([endpoint.path, 200]);
          await response.arrayBuffer();
        }
      },
    );
  });

  describe('what a token sees of lists', () => {
    // Proves promise 17; specification 1.8, 5.2
    it('shows another organization none of these workspaces and connectors', async () => {
      const { get } = apiClient(api.service.url, await tokenFor(api.service.url, strangers));
      expect((await get('/api/v1/workspaces')).body).toEqual({ data: [], next: null });
      expect((await get('/api/v1/integrations/connectors?workspace_name=default')).status).toBe(404);
    });

    it('gives two organizations a workspace of one name each', async () => {
      const { get, post } = apiClient(api.service.url, await tokenFor(api.service.url, strangers));
      await post('/api/v1/account/applications/scoped-token', { workspace_name: 'default' });
      const { body } = await get('/api/v1/integrations/connectors?workspace_name=default');
      expect(body).toEqual({ data: [] });
    });

    // Proves specification 5.4
    it('shows a scoped token its own workspace by default, and no other one', async () => {
      const { get, post } = apiClient(
        api.service.url,
        await tokenFor(api.service.url, credentials, 'default'),
      );
      const own = await get('/api/v1/integrations/connectors');
      expect(objects(own.body['data']).map(({ id }) => id)).toContain(known.connector);
      await tokenFor(api.service.url, credentials, 'elsewhere');
      const elsewhere = await get('/api/v1/integrations/connectors?workspace_name=elsewhere');
      const nowhere = await get('/api/v1/integrations/connectors?workspace_name=nowhere');
      expect([elsewhere.status, elsewhere.body]).toEqual([404, nowhere.body]);
      const connector = { connector_type: 'email-marketing', credentials: { api_key: 'k' } };
      for (const workspace_name of ['elsewhere', 'nowhere']) {
        const made = await post('/api/v1/integrations/connectors', { ...connector, workspace_name });
        expect(made.status).toBe(404);
      }
    });
  });
});

describe('http methods', () => {
  let api: ServedApi;
  beforeAll(async () => {
    api = await serveApi();
  });
  afterAll(() => api.service.close());

  const workspaces = '/api/v1/workspaces';
  const scopedToken = '/api/v1/account/applications/scoped-token';
  const send = (path: string, method = 'GET'): Promise<Response> =>
    fetch(`${api.service.url}${path}`, { method, headers: { authorization: `Bearer ${api.token}` } });

  describe('HEAD', () => {
    const paths = apiEndpoints
      .filter(({ method, path }) => method === 'GET' && !path.includes('{'))
      .map(({ path, example }) => `${path}?${new URLSearchParams(example.query).toString()}`);

    it.each(paths)('answers %s as GET does, without the body', async (path) => {
      const [get, head] = [await send(path), await send(path, 'HEAD')];
      const body = await get.arrayBuffer();
      expect([head.status, (await head.arrayBuffer()).byteLength]).toEqual([get.status, 0]);
      expect(head.headers.get('content-type')).toBe(get.headers.get('content-type'));
      expect(head.headers.get('content-length')).toBe(String(body.byteLength));
    });

    it('wants a token where GET does', async () => {
      expect((await fetch(`${api.service.url}${workspaces}`, { method: 'HEAD' })).status).toBe(401);
      expect((await fetch(`${api.service.url}/openapi.json`, { method: 'HEAD' })).status).toBe(200);
    });
  });

  it('is 404 where a path does not have it, and 401 without a token', async () => {
    expect((await send(workspaces, 'PATCH')).status).toBe(404);
    expect((await fetch(`${api.service.url}${workspaces}`, { method: 'PATCH' })).status).toBe(401);
  });

  describe('a check of a connector', () => {
    it.each<[string, RequestInit]>([
      ['no body', {}],
      ['no body, but its type', { headers: { 'content-type': 'application/json' } }],
      ['an empty object', { headers: { 'content-type': 'application/json' }, body: '{}' }],
    ])('takes %s for its own credentials', async (_, init) => {
      const answer = await api.call('/api/v1/integrations/connectors/mail-1/check', {
        method: 'POST',
        ...init,
      });
      expect([answer.status, answer.body['status']]).toEqual([200, 'succeeded']);
    });
  });

  describe('the limit of a name', () => {
    const named = async (name: string): Promise<number> =>
      (await api.client.post(scopedToken, { workspace_name: name })).status;

    it('counts characters, of which an emoji is one', async () => {
      expect([await named('😀'.repeat(255)), await named('😀'.repeat(256))]).toEqual([200, 422]);
      expect([await named('n'.repeat(255)), await named('n'.repeat(256))]).toEqual([200, 422]);
    });
  });
});
