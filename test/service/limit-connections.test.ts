import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { request as httpRequest, type IncomingMessage } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { connect, type Socket } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import type { Service } from '../../src/service/start-service.ts';
import { serveSamples } from '../support/serve-samples.ts';
import {
  credentials,
  definitions,
  mailing,
  serveApi,
  type ServedApi,
} from '../support/service/served-api.ts';

const executePath = `/api/v1/integrations/connectors/${mailing}/execute`;
const opened: AsyncDisposable[] = [];
const sockets: Socket[] = [];
afterEach(async () => {
  for (const socket of sockets.splice(0)) socket.destroy();
  for (const thing of opened.splice(0)) await thing[Symbol.asyncDispose]();
});

async function serve(options: Parameters<typeof serveApi>[0]): Promise<ServedApi> {
  const api = await serveApi(options);
  opened.push(api);
  return api;
}

async function socketsTo(service: Pick<Service, 'url'>, count: number): Promise<readonly Socket[]> {
  const made = Array.from({ length: count }, () => connect(Number(new URL(service.url).port), '127.0.0.1'));
  // A connection that is cut shows as a reset.
  for (const socket of made) socket.on('error', () => undefined);
  sockets.push(...made);
  await Promise.all(made.map((socket) => once(socket, 'connect')));
  return made;
}

/** Over a connection of its own. */
async function statusOf(api: ServedApi, body: string | null = null): Promise<number> {
  const outgoing = httpRequest(`${api.service.url}${body === null ? '/api/v1/workspaces' : executePath}`, {
    method: body === null ? 'GET' : 'POST',
    headers: {
      authorization: `Bearer ${api.token}`,
      ...(body === null ? {} : { 'content-type': 'application/json' }),
    },
    agent: false,
  });
  outgoing.end(body ?? undefined);
  const [response] = (await once(outgoing, 'response')) as [IncomingMessage];
  response.resume();
  return response.statusCode ?? 0;
}

describe('more connections than the service allows', () => {
  // Proves promise 17.4
  it.each([
    ['half a request head', () => 'GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: '],
    ['nothing', () => ''],
    [
      'half a body',
      (token: string) =>
        `POST ${executePath} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${token}\r\n` +
        'Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{',
    ],
  ])('serves others while more clients than it has room for send %s', async (_what, half) => {
    const api = await serve({ limits: { maxConnections: 20, maxConnectionsPerClient: 15 } });
    for (const socket of await socketsTo(api.service, 40)) socket.write(half(api.token));
    for (let request = 0; request < 20; request += 1) {
      expect(await statusOf(api)).toBe(200);
    }
  });

  // Proves promise 17.4
  it('cuts no connection that is busy with a request', async () => {
    const api = await serve({ latencyMs: 300, limits: { maxConnections: 4, maxConnectionsPerClient: 4 } });
    const busy = Array.from({ length: 3 }, () => statusOf(api, '{"entity":"lists","action":"list"}'));
    await socketsTo(api.service, 20);
    expect(await Promise.all(busy)).toEqual([200, 200, 200]);
  });

  it('serve others over HTTPS, where clients say nothing', async () => {
    const tls = {
      cert: readFileSync('test/fixtures/tls/cert.pem', 'utf8'),
      key: readFileSync('test/fixtures/tls/key.pem', 'utf8'),
    };
    const limits = { maxConnections: 5, maxConnectionsPerClient: 5 };
    const service = await serveSamples({ port: 0, ...credentials, definitions, accounts: [], tls, limits });
    opened.push(service);
    await socketsTo(service, 15);
    const outgoing = httpsRequest(`${service.url}/openapi.json`, { ca: tls.cert, agent: false });
    outgoing.end();
    const [response] = (await once(outgoing, 'response')) as [IncomingMessage];
    expect(response.statusCode).toBe(200);
    response.resume();
  });
});
