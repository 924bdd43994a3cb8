import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { isJsonObject, type JsonObject, type JsonValue } from '../../src/core/json.ts';
import { textIn } from '../support/service/api-client.ts';
import {
  credentials,
  definitions,
  mailing,
  object,
  objects,
  sampleAccounts,
  serveApi,
  type ServedApi,
} from '../support/service/served-api.ts';

/** The headers, requests and readings of a public client of the API, as they were seen on the wire. */
const clientHeaders = {
  accept: '*/*',
  'user-agent': 'python-httpx/0.28.1',
  'x-adp-agent-sdk': 'airbyte-agent-sdk',
};
const clientCachesTokenMs = 14 * 60_000;

let time = Date.UTC(2024, 0, 1);
let api: ServedApi;
beforeAll(async () => {
  api = await serveApi({
    clock: { now: () => time, sleep: () => Promise.resolve() },
    accounts: [
      ...sampleAccounts('tiny'),
      { connectorId: 'twin-1', workspace: 'twins', definitionName: 'email-marketing', seed: 1, size: 'tiny' },
      { connectorId: 'twin-2', workspace: 'twins', definitionName: 'email-marketing', seed: 2, size: 'tiny' },
    ],
    limits: { requestsPerSecond: 30 },
  });
});
afterAll(() => api.service.close());

async function send(
  method: string,
  path: string,
  token: string | null,
  body?: JsonObject,
): Promise<Response> {
  return await fetch(`${api.service.url}${path}`, {
    method,
    headers: {
      ...clientHeaders,
      ...(token === null ? {} : { authorization: `Bearer ${token}` }),
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
}

async function json(response: Response): Promise<JsonObject> {
  return object((await response.json()) as JsonValue);
}

async function token(): Promise<string> {
  const body = { client_id: credentials.clientId, client_secret: credentials.clientSecret };
  const response = await send('POST', '/api/v1/account/applications/token', null, body);
  return textIn(await json(response), 'access_token');
}

const definitionId = definitions.get('email-marketing')?.id ?? '';

/** Connectors are addressed by workspace and definition: the client wants exactly one hit, before every call. */
async function found(bearer: string, workspace: string): Promise<readonly string[]> {
  const query = new URLSearchParams({ workspace_name: workspace, definition_id: definitionId });
  const response = await send('GET', `/api/v1/integrations/connectors?${query.toString()}`, bearer);
  return objects((await json(response))['data']).map((one) => textIn(one, 'id'));
}

async function executed(bearer: string, body: JsonObject): Promise<JsonObject> {
  const [id] = await found(bearer, 'default');
  const response = await send('POST', `/api/v1/integrations/connectors/${id ?? ''}/execute`, bearer, body);
  expect(response.status).toBe(200);
  const answer = await json(response);
  // It reads `result` and nothing else; the rest may be anything.
  expect('result' in answer).toBe(true);
  return answer;
}

describe('a public client', () => {
  it('goes through its own health check: token, look-up, one campaign with a limit that is not declared', async () => {
    const bearer = await token();
    expect(await found(bearer, 'default')).toEqual([mailing]);
    const answer = await executed(bearer, {
      entity: 'campaigns',
      action: 'list',
      params: { limit: 1 },
    });
    expect(answer['status']).toBe('success');
    expect(Array.isArray(answer['result'])).toBe(true);
  });

  it('sends null where there are no parameters', async () => {
    const answer = await executed(await token(), { entity: 'lists', action: 'list', params: null });
    expect(objects(answer['result']).length).toBeGreaterThan(0);
    expect(answer['execution_metadata']).toEqual({
      connector_instance_id: `source_id:${mailing}`,
      execution_time_ms: expect.any(Number),
    });
  });

  it('keeps its one token for 14 minutes, regardless of the lifetime in the answer, and is served all the time', async () => {
    const bearer = await token();
    time += clientCachesTokenMs - 1;
    await executed(bearer, { entity: 'lists', action: 'list', params: null });
  });

  it('reads one record by get, with connector_metadata null', async () => {
    const bearer = await token();
    const { result } = await executed(bearer, { entity: 'lists', action: 'list', params: { count: 1 } });
    const [list] = objects(result);
    const answer = await executed(bearer, {
      entity: 'lists',
      action: 'get',
      params: { list_id: list?.['id'] ?? null },
    });
    expect([answer['connector_metadata'], isJsonObject(answer['result'])]).toEqual([null, true]);
  });

  it('gets both connectors of a type, and 404 for an unknown workspace', async () => {
    const bearer = await token();
    expect(await found(bearer, 'twins')).toEqual(['twin-1', 'twin-2']);
    const nowhere = await send('GET', `/api/v1/integrations/connectors?workspace_name=nowhere`, bearer);
    expect(nowhere.status).toBe(404);
  });

  // Proves specification 2.2.1, 7.4
  it('finds a status it knows and a JSON object in everything that goes wrong', async () => {
    const bearer = await token();
    const path = `/api/v1/integrations/connectors/${mailing}/execute`;
    const wrong: readonly [number, JsonObject][] = [
      [400, { entity: 'campaigns', action: 'list', params: { status: 'nope' } }],
      [400, { entity: 'nope', action: 'list', params: null }],
      [400, { entity: 'tags', action: 'get', params: null }],
      [404, { entity: 'campaigns', action: 'get', params: { campaign_id: 'nope' } }],
      [422, { entity: 'campaigns', params: null }],
    ];
    for (const [status, body] of wrong) {
      const response = await send('POST', path, bearer, body);
      expect([body, response.status]).toEqual([body, status]);
      expect(await json(response)).toEqual({ message: expect.any(String), errors: expect.any(Array) });
    }
    expect((await send('POST', path, 'stale', { entity: 'lists', action: 'list' })).status).toBe(401);
  });

  it('gets a whole number of seconds to wait when it asks too often', async () => {
    const bearer = await token();
    let limited: Response | null = null;
    for (let asked = 0; asked < 40 && limited === null; asked += 1) {
      const response = await send('GET', '/api/v1/integrations/definitions/sources', bearer);
      if (response.status === 429) limited = response;
      await response.arrayBuffer();
    }
    expect(limited?.headers.get('retry-after')).toMatch(/^[1-9]\d*$/);
    time += Number(limited?.headers.get('retry-after')) * 1000;
    expect((await send('GET', '/api/v1/integrations/definitions/sources', bearer)).status).toBe(200);
  });
});
