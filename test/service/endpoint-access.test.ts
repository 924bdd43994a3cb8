import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { apiEndpoints } from '../../src/service/routes/api-endpoints.ts';
import type { Access, Endpoint } from '../../src/service/routes/endpoint.ts';
import { tokenFor, textIn, apiClient } from '../support/service/api-client.ts';
import { expectDeclared } from '../support/service/declared-answers.ts';
import {
  answerOf,
  credentials,
  mailing,
  objects,
  serveApi,
  type Answer,
  type ServedApi,
} from '../support/service/served-api.ts';

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
  const answer = await answerOf(
    await fetch(`${api.service.url}${path}`, {
      method: endpoint.method,
      headers: {
        ...(token === null ? {} : { authorization: `Bearer ${token}` }),
        ...(endpoint.request.body === undefined ? {} : { 'content-type': 'application/json' }),
      },
      ...(endpoint.request.body === undefined ? {} : { body: JSON.stringify(endpoint.example.body) }),
    }),
  );
  expectDeclared(endpoint.method, path, answer.status, answer.body);
  return answer;
}

const guarded = apiEndpoints.filter(({ access }) => access !== 'public');
const named = (endpoints: readonly Endpoint[]): readonly (readonly [string, Endpoint])[] =>
  endpoints.map((endpoint) => [`${endpoint.method} ${endpoint.path}`, endpoint]);

const withAccess = (access: Access): readonly Endpoint[] =>
  apiEndpoints.filter((endpoint) => endpoint.access === access);
const withOwnedId = guarded.filter(({ path }) => path.includes('{id}') && !path.includes('/definitions/'));

describe('every guarded endpoint', () => {
  // Proves promise 17; specification 4.4, 5.1
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

  it.each(named(withAccess('application')))('%s refuses a scoped token with 403', async (_name, endpoint) => {
    const { status, body } = await ask(endpoint, await tokenFor(api.service.url, credentials, 'default'));
    expect([status, objects(body['errors'])[0]?.['error_code']]).toEqual([403, 'application_token_required']);
  });

  it.each(named(withAccess('scoped')))(
    '%s refuses an application token with 403',
    async (_name, endpoint) => {
      const { status, body } = await ask(endpoint, await tokenFor(api.service.url, credentials));
      expect([status, objects(body['errors'])[0]?.['error_code']]).toEqual([403, 'scoped_token_required']);
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
    expect((await client.get(`/api/v1/workspaces/${known.workspace}`)).body).toMatchObject({
      name: 'default',
      cache_enabled: true,
    });
  });
});

describe('every public endpoint', () => {
  // Proves specification 4.4
  it('asks for a token, or leads to the OpenAPI document', () => {
    expect(
      named(withAccess('public'))
        .map(([name]) => name)
        .toSorted(),
    ).toEqual(['GET /', 'GET /openapi.json', 'POST /api/v1/account/applications/token']);
  });

  it.each(named(withAccess('public')))(
    '%s asks for no token and takes no notice of a bad one',
    async (_name, endpoint) => {
      const path = `${api.service.url}${endpoint.path}`;
      const body = JSON.stringify({
        client_id: credentials.clientId,
        client_secret: credentials.clientSecret,
      });
      for (const authorization of [undefined, 'Bearer unknown']) {
        const headers = authorization === undefined ? undefined : { authorization };
        const response = await fetch(path, {
          method: endpoint.method,
          headers: {
            ...headers,
            ...(endpoint.method === 'POST' ? { 'content-type': 'application/json' } : {}),
          },
          ...(endpoint.method === 'POST' ? { body } : {}),
        });
        expect([endpoint.path, response.status]).toEqual([endpoint.path, 200]);
        await response.arrayBuffer();
      }
    },
  );
});

describe('what a token sees of lists', () => {
  // Proves promise 17; specification 1.8, 5.2
  it('shows another organization none of these workspaces, connectors and counts', async () => {
    const { get } = apiClient(api.service.url, await tokenFor(api.service.url, strangers));
    expect((await get('/api/v1/workspaces')).body).toEqual({ data: [], next: null });
    expect((await get('/api/v1/workspaces/stats')).body).toMatchObject({ total_count: 0 });
    expect((await get('/api/v1/integrations/connectors?workspace_name=default')).status).toBe(404);
    expect((await get(`/api/v1/integrations/connectors?workspace_id=${known.workspace}`)).status).toBe(404);
  });

  it('gives two organizations a workspace of one name each', async () => {
    const { get, post } = apiClient(api.service.url, await tokenFor(api.service.url, strangers));
    await post('/api/v1/account/applications/scoped-token', { workspace_name: 'default' });
    const { body } = await get('/api/v1/integrations/connectors?workspace_name=default');
    expect(body).toEqual({ data: [] });
  });

  // Proves specification 5.4
  it('shows a scoped token its own workspace by default, and no other one', async () => {
    const { get, post } = apiClient(api.service.url, await tokenFor(api.service.url, credentials, 'default'));
    const own = await get('/api/v1/integrations/connectors');
    expect(objects(own.body['data']).map(({ id }) => id)).toContain(known.connector);
    await tokenFor(api.service.url, credentials, 'elsewhere');
    const elsewhere = await get('/api/v1/integrations/connectors?workspace_name=elsewhere');
    const nowhere = await get('/api/v1/integrations/connectors?workspace_name=nowhere');
    expect([elsewhere.status, elsewhere.body]).toEqual([404, nowhere.body]);
    const connector = { connector_type: 'email-marketing', credentials: { api_key: 'k' } };
    for (const path of ['/api/v1/integrations/connectors', '/api/v1/integrations/connectors/check']) {
      for (const name of ['elsewhere', 'nowhere']) {
        expect((await post(path, { ...connector, workspace_name: name })).status).toBe(404);
      }
    }
  });

  it('says what a scoped token is for', async () => {
    const { get } = apiClient(api.service.url, await tokenFor(api.service.url, credentials, 'default'));
    expect((await get('/api/v1/account/applications/scoped-token/info')).body).toEqual({
      organization_id: api.service.organizationId,
      workspace_id: known.workspace,
      workspace_name: 'default',
    });
  });
});
