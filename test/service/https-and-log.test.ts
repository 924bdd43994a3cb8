import { readFileSync } from 'node:fs';
import { request } from 'node:https';
import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { text } from 'node:stream/consumers';
import { afterEach, describe, expect, it } from 'vitest';
import type { RequestEntry } from '../../src/service/start-service.ts';
import { serveSamples } from '../support/serve-samples.ts';
import {
  askForToken,
  credentials,
  definitions,
  mailing,
  serveApi,
  type ServedApi,
} from '../support/service/served-api.ts';

const tls = {
  cert: readFileSync('test/fixtures/tls/cert.pem', 'utf8'),
  key: readFileSync('test/fixtures/tls/key.pem', 'utf8'),
};
const opened: AsyncDisposable[] = [];
afterEach(async () => {
  for (const thing of opened.splice(0)) await thing[Symbol.asyncDispose]();
});

describe('the service over HTTPS', () => {
  // Proves specification 4.2
  it('answers a client that trusts its certificate, and names itself with https', async () => {
    const service = await serveSamples({ port: 0, ...credentials, definitions, accounts: [], tls });
    opened.push(service);
    expect(service.url).toMatch(/^https:/);
    const outgoing = request(`${service.url}/openapi.json`, { ca: tls.cert, agent: false });
    outgoing.end();
    const [response] = (await once(outgoing, 'response')) as [IncomingMessage];
    expect(response.statusCode).toBe(200);
    expect(await text(response)).toContain('"openapi"');
    await expect(fetch(service.url)).rejects.toThrow();
  });
});

describe('a browser', () => {
  it('finds the OpenAPI document at the address of the service, without a token', async () => {
    const api = await serveApi();
    opened.push(api);
    const answer = await fetch(api.service.url);
    expect([answer.status, answer.headers.get('content-type')]).toEqual([200, 'text/html; charset=utf-8']);
    expect(await answer.text()).toContain('href="/openapi.json"');
  });
});

describe('the log of requests', () => {
  const entries: RequestEntry[] = [];
  /** Logged once the answer is out, so later than the client has it. */
  const logged = async (api: ServedApi, work: () => Promise<Response>): Promise<[RequestEntry, Response]> => {
    entries.length = 0;
    const response = await work();
    await response.arrayBuffer();
    await expect.poll(() => entries).toHaveLength(1);
    const [entry] = entries;
    if (entry === undefined) throw new Error(`expected a line for ${api.service.url}`);
    return [entry, response];
  };

  // Proves promise 17.4
  it('names each request by an id that the client sees too, and holds no secret', async () => {
    const api = await serveApi({ onRequest: (entry) => entries.push(entry) });
    opened.push(api);
    const [executed, response] = await logged(api, () =>
      fetch(`${api.service.url}/api/v1/integrations/connectors/${mailing}/execute?x=planted-query`, {
        method: 'POST',
        headers: {
          authorization: `Bearer ${api.token}`,
          'content-type': 'application/json',
          'x-request-id': 'planted-id',
        },
        body: '{"entity":"lists","action":"list","params":{"email":"planted-body"}}',
      }),
    );
    expect(executed).toMatchObject({
      requestId: response.headers.get('x-request-id'),
      method: 'POST',
      route: '/api/v1/integrations/connectors/:id/execute',
      connectorId: mailing,
      status: 200,
      client: '127.0.0.1',
      clientId: credentials.clientId,
      token: expect.stringMatching(/^[0-9a-f]{12}$/) as string,
    });
    const [refused] = await logged(api, () =>
      fetch(`${api.service.url}/planted-path`, { headers: { authorization: 'Bearer planted-token' } }),
    );
    expect(refused).toMatchObject({
      route: null,
      connectorId: null,
      status: 401,
      clientId: null,
      token: null,
    });
    entries.length = 0;
    await askForToken(api.service.url, { client_id: 'planted-client', client_secret: 'planted-secret' });
    await expect.poll(() => entries).toHaveLength(1);
    const all = JSON.stringify([executed, refused, ...entries]);
    expect(all).not.toContain('planted');
    expect(all).not.toContain(api.token);
  });
});
