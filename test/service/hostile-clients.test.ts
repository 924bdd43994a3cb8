import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { request as httpRequest, type IncomingMessage } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { connect, type Socket } from 'node:net';
import { networkInterfaces, platform } from 'node:os';
import { text } from 'node:stream/consumers';
import { setImmediate } from 'node:timers/promises';
import { describe, expect, it, onTestFinished } from 'vitest';
import type { SampleAccount } from '../../src/sample/sample-account.ts';
import { createSampleAccount } from '../../src/sample/sample-service.ts';
import type { Service, RequestEntry } from '../../src/service/start-service.ts';
import { openPromise } from '../support/open-promise.ts';
import { serveSamples, type ServeOptions } from '../support/serve-samples.ts';
import {
  mailing,
  notes,
  serveHere,
  type ServedApi,
  credentials,
  definitions,
  askForToken,
} from '../support/service/served-api.ts';

const executePath = `/api/v1/integrations/connectors/${mailing}/execute`;

/** Connections that the test's end cuts; a refused one shows as a reset. */
async function socketsTo({ url }: Pick<Service, 'url'>, count: number): Promise<readonly Socket[]> {
  const sockets = Array.from({ length: count }, () => connect(Number(new URL(url).port), '127.0.0.1'));
  for (const socket of sockets) socket.on('error', () => undefined);
  onTestFinished(() => sockets.forEach((socket) => socket.destroy()));
  await Promise.all(sockets.map((socket) => once(socket, 'connect')));
  return sockets;
}

/** What comes over a connection that sends this. */
async function answerTo({ service }: ServedApi, written: string): Promise<string> {
  const [socket] = await socketsTo(service, 1);
  socket?.write(written);
  return socket === undefined ? '' : await text(socket);
}

const tls = {
  cert: readFileSync('test/fixtures/tls/cert.pem', 'utf8'),
  key: readFileSync('test/fixtures/tls/key.pem', 'utf8'),
};

async function serveTls(more: Partial<ServeOptions> = {}): Promise<Service> {
  const service = await serveSamples({ port: 0, ...credentials, definitions, accounts: [], tls, ...more });
  onTestFinished(() => service.close());
  return service;
}

async function secureAnswer({ url }: Service): Promise<{ status: number; body: string }> {
  const outgoing = httpsRequest(`${url}/openapi.json`, { ca: tls.cert, agent: false });
  outgoing.end();
  const [response] = (await once(outgoing, 'response')) as [IncomingMessage];
  return { status: response.statusCode ?? 0, body: await text(response) };
}

describe('security', () => {
  interface RawRequest {
    readonly method?: string;
    readonly path?: string;
    readonly headers: Record<string, string>;
    readonly body?: string;
  }

  /** fetch decides about Host and Content-Type itself; this does not. */
  async function send(
    api: ServedApi,
    raw: RawRequest,
  ): Promise<{ status: number; body: string; headers: object }> {
    const { hostname, port } = new URL(api.service.url);
    const outgoing = httpRequest({
      host: hostname,
      port,
      method: raw.method ?? 'GET',
      path: raw.path ?? '/api/v1/integrations/definitions/sources',
      headers: { authorization: `Bearer ${api.token}`, ...raw.headers },
      agent: false,
    });
    outgoing.end(raw.body);
    const [response] = (await once(outgoing, 'response')) as [IncomingMessage];
    return { status: response.statusCode ?? 0, headers: response.headers, body: await text(response) };
  }

  describe('which requests are answered at all', () => {
    it('answers for loopback names only, with and without a port', async () => {
      const api = await serveHere();
      for (const host of ['127.0.0.1', 'localhost:8080', 'LOCALHOST', '[::1]:1', '127.0.0.1:80']) {
        expect([host, (await send(api, { headers: { host } })).status]).toEqual([host, 200]);
      }
      for (const host of [
        'evil.example',
        'localhost.evil.example',
        'localhost.',
        '127.0.0.1.nip.example',
        '0.0.0.0',
        'localhost:99999',
        'localhost:123456',
      ]) {
        expect([host, (await send(api, { headers: { host } })).status]).toEqual([host, 421]);
      }
    });

    it('refuses a request with two Host headers with 400, whichever of them is right', async () => {
      const api = await serveHere();
      for (const names of [
        ['127.0.0.1', 'evil.example'],
        ['evil.example', '127.0.0.1'],
        ['127.0.0.1', '127.0.0.1'],
      ]) {
        const hosts = names.map((name) => `Host: ${name}\r\n`).join('');
        const answer = await answerTo(api, `GET / HTTP/1.1\r\n${hosts}Connection: close\r\n\r\n`);
        expect([names, answer.slice(0, 12)]).toEqual([names, 'HTTP/1.1 400']);
        expect(answer).toContain('Expected one Host header, got 2.');
      }
    });

    it('answers for other names that are configured', async () => {
      const api = await serveHere({ allowedHosts: ['sample-api'] });
      expect((await send(api, { headers: { host: 'sample-api:8080' } })).status).toBe(200);
    });

    // Proves specification 4.3
    it.each([
      'text/plain',
      'application/x-www-form-urlencoded',
      'multipart/form-data; boundary=x',
      'application/jsonx',
      '',
    ])('refuses a POST of type "%s" with 415, the token endpoint included', async (type) => {
      const api = await serveHere();
      for (const path of [executePath, '/api/v1/account/applications/token']) {
        const headers: Record<string, string> = type === '' ? {} : { 'content-type': type };
        const { status } = await send(api, {
          method: 'POST',
          path,
          headers,
          body: '{"entity":"lists","action":"list"}',
        });
        expect(status).toBe(415);
      }
    });

    it('asks for no media type where there is no body, and takes no other one than JSON', async () => {
      const api = await serveHere();
      const path = '/api/v1/integrations/connectors/no-such-connector';
      const statusOf = async (headers: Record<string, string>): Promise<number> =>
        (await send(api, { method: 'DELETE', path, headers })).status;
      expect(await statusOf({})).toBe(404);
      expect(await statusOf({ 'content-length': '0' })).toBe(404);
      expect(await statusOf({ 'content-type': 'text/plain' })).toBe(415);
      expect(await statusOf({ 'transfer-encoding': 'chunked' })).toBe(415);
    });

    it('refuses headers over its limit with 431 and what is no HTTP with 400, in the documented shape', async () => {
      const api = await serveHere();
      for (const [written, status] of [
        [`GET / HTTP/1.1\r\nHost: localhost\r\nX-Long: ${'a'.repeat(20_000)}\r\n\r\n`, '431'],
        [
          'GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n',
          '400',
        ],
        ['this is no HTTP\r\n\r\n', '400'],
      ] as const) {
        const answer = await answerTo(api, written);
        expect(answer.slice(9, 12)).toBe(status);
        const body = JSON.parse(answer.slice(answer.indexOf('\r\n\r\n'))) as object;
        expect(Object.keys(body).sort()).toEqual(['errors', 'message']);
      }
      expect((await send(api, { headers: {} })).status).toBe(200);
    });

    it('sends no CORS headers and answers no preflight', async () => {
      const api = await serveHere();
      const headers = { origin: 'https://evil.example', 'access-control-request-method': 'POST' };
      const plain = await send(api, { headers });
      expect(plain.status).toBe(200);
      expect(Object.keys(plain.headers).filter((name) => name.startsWith('access-control'))).toEqual([]);
      const preflight = await send(api, { method: 'OPTIONS', path: executePath, headers });
      expect(preflight.status).toBeGreaterThanOrEqual(400);
    });

    // Proves specification 4.2
    it('listens on 127.0.0.1 by default', async () => {
      const api = await serveHere();
      const { hostname, port } = new URL(api.service.url);
      expect(hostname).toBe('127.0.0.1');
      const external = Object.values(networkInterfaces()).flatMap((found) => found ?? []);
      const others = external.filter(({ family, internal }) => family === 'IPv4' && !internal);
      // All of 127.0.0.0/8 is this machine on Linux: there is another address to try even without a network.
      const addresses = [
        ...others.map(({ address }) => address),
        ...(platform() === 'linux' ? ['127.0.0.2'] : []),
      ];
      for (const host of addresses) {
        const socket = connect({ host, port: Number(port) });
        await expect(once(socket, 'connect')).rejects.toMatchObject({ code: 'ECONNREFUSED' });
      }
    });
  });

  describe('hostile bodies', () => {
    const post = (api: ServedApi, body: string): ReturnType<typeof send> =>
      send(api, { method: 'POST', path: executePath, headers: { 'content-type': 'application/json' }, body });

    // Proves specification 8.7
    it('refuses a body over 1 MiB with 413 and takes one just below', async () => {
      const api = await serveHere();
      const bodyOf = (bytes: number): string => {
        const start = '{"entity":"lists","action":"list","params":{"x":"';
        return `${start}${'a'.repeat(bytes - start.length - 3)}"}}`;
      };
      expect((await post(api, bodyOf(1024 * 1024))).status).toBe(200);
      expect((await post(api, bodyOf(1024 * 1024 + 1))).status).toBe(413);
    });

    it.each([
      ['no JSON', 400, '{"entity":'],
      ['nothing', 422, ''],
      ['a prototype', 400, '{"entity":"lists","action":"list","__proto__":{"polluted":true}}'],
    ])('answers %s with %i in the documented shape', async (_name, status, body) => {
      const api = await serveHere();
      const answer = await post(api, body);
      expect([answer.status, Object.keys(JSON.parse(answer.body) as object).sort()]).toEqual([
        status,
        ['errors', 'message'],
      ]);
      expect(Reflect.get({}, 'polluted')).toBeUndefined();
    });

    it('refuses brackets nested as deep as a body allows with 400, wherever they are', async () => {
      const failures: unknown[] = [];
      const api = await serveHere({ onFailure: (error) => failures.push(error) });
      const deep = '['.repeat(400_000) + ']'.repeat(400_000);
      for (const params of [
        `{"filter":${deep}}`,
        `{"page_size":${deep}}`,
        `{"filter":{"property":"object","value":"page","x":${deep}}}`,
      ]) {
        const answer = await post(api, `{"entity":"pages","action":"list","params":${params}}`);
        expect([answer.status, answer.body]).toEqual([400, expect.stringContaining('too_deep')]);
      }
      const brackets = JSON.stringify(`"\\${'['.repeat(1000)}`);
      expect((await post(api, `{"entity":"lists","action":"list","params":{"x":${brackets}}}`)).status).toBe(
        200,
      );
      expect(failures).toEqual([]);
    });

    it('answers a path that cannot be decoded with 400 in the documented shape', async () => {
      const api = await serveHere();
      const answer = await send(api, { path: '/api/v1/%zz', headers: {} });
      expect([answer.status, Object.keys(JSON.parse(answer.body) as object).sort()]).toEqual([
        400,
        ['errors', 'message'],
      ]);
    });

    it('says nothing of the inside when an account fails', async () => {
      const failing = () => {
        throw new Error('the secret of the inside');
      };
      const api = await serveHere({
        accounts: [
          {
            connectorId: mailing,
            workspace: 'default',
            definitionName: 'email-marketing',
            seed: 1,
            size: 'tiny',
            wrap: () => ({ list: failing, get: failing }),
          },
        ],
      });
      const answer = await post(api, '{"entity":"lists","action":"list"}');
      expect(answer.status).toBe(500);
      expect(answer.body).not.toContain('inside');
    });
  });

  describe('slow and many clients', () => {
    it('cuts a client off that does not finish its headers, and serves others meanwhile', async () => {
      const api = await serveHere({ limits: { headersTimeoutMs: 150, timeoutCheckMs: 50 } });
      const ends = Array.from({ length: 20 }, () =>
        answerTo(api, 'GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: '),
      );
      expect((await send(api, { headers: {} })).status).toBe(200);
      for (const answer of await Promise.all(ends)) expect(answer).toMatch(/^HTTP\/1\.1 408 /);
    }, 5_000);

    it('cuts a client off whose body comes drop by drop without end', async () => {
      const api = await serveHere({ limits: { requestTimeoutMs: 200, timeoutCheckMs: 50 } });
      const [socket] = await socketsTo(api.service, 1);
      if (socket === undefined) throw new Error('no socket');
      const answered = text(socket);
      socket.write(
        `POST ${executePath} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${api.token}\r\n` +
          'Content-Type: application/json\r\nContent-Length: 1000000\r\n\r\n{',
      );
      const drops = setInterval(() => socket.writable && socket.write(' '), 10);
      try {
        expect(await answered).toMatch(/^HTTP\/1\.1 408 [\s\S]*"errors":/);
      } finally {
        clearInterval(drops);
      }
    }, 5_000);

    it('cuts a client off that says nothing at all', async () => {
      const api = await serveHere({ limits: { headersTimeoutMs: 150, timeoutCheckMs: 50 } });
      const silent = await socketsTo(api.service, 5);
      for (const socket of silent) socket.resume();
      await Promise.all(silent.map((socket) => once(socket, 'close')));
      expect((await send(api, { headers: {} })).status).toBe(200);
    }, 5_000);

    it('closes a connection that is idle for too long, although its client waits for an answer', async () => {
      const api = await serveHere({ latencyMs: 60_000, limits: { idleTimeoutMs: 200 } });
      await expect(api.execute(notes, { entity: 'users', action: 'list' })).rejects.toThrow();
      expect((await send(api, { headers: {} })).status).toBe(200);
    }, 5_000);

    it('takes no more than its share of requests from a connection', async () => {
      const api = await serveHere({ limits: { maxRequestsPerSocket: 2 } });
      const [socket] = await socketsTo(api.service, 1);
      if (socket === undefined) throw new Error('no socket');
      const ask = 'GET /api/v1/workspaces HTTP/1.1\r\nHost: localhost\r\n\r\n';
      const answers: string[] = [];
      for (let asked = 0; asked < 3; asked += 1) {
        socket.write(ask);
        const [chunk] = (await once(socket, 'data')) as [Buffer];
        answers.push(chunk.toString());
      }
      expect(answers.map((answer) => answer.slice(9, 12))).toEqual(['401', '401', '503']);
      expect(answers[0]).toMatch(/connection: keep-alive/i);
      expect(answers[1]).toMatch(/connection: close/i);
    });
  });
});

describe('limit connections', () => {
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
      const api = await serveHere({ limits: { maxConnections: 20, maxConnectionsPerClient: 15 } });
      for (const socket of await socketsTo(api.service, 40)) socket.write(half(api.token));
      for (let request = 0; request < 20; request += 1) {
        expect(await statusOf(api)).toBe(200);
      }
    });

    // Proves promise 17.4
    it('cuts no connection that is busy with a request', async () => {
      const api = await serveHere({
        latencyMs: 300,
        limits: { maxConnections: 4, maxConnectionsPerClient: 4 },
      });
      const busy = Array.from({ length: 3 }, () => statusOf(api, '{"entity":"lists","action":"list"}'));
      await socketsTo(api.service, 20);
      expect(await Promise.all(busy)).toEqual([200, 200, 200]);
    });

    it('serve others over HTTPS, where clients say nothing', async () => {
      const service = await serveTls({ limits: { maxConnections: 5, maxConnectionsPerClient: 5 } });
      await socketsTo(service, 15);
      expect((await secureAnswer(service)).status).toBe(200);
    });
  });
});

describe('open calls', () => {
  const library = {
    connectorId: 'library',
    workspace: 'default',
    definitionName: 'document-library',
    seed: 1,
    size: 'tiny',
  } as const;

  /** Resolves with the reason for which a call's signal was aborted; the call waits until then. */
  function heldAnswer(): {
    begun: Promise<void>;
    aborted: Promise<unknown>;
    hold: (signal?: AbortSignal) => Promise<never>;
  } {
    const begun = openPromise();
    const aborted = openPromise<unknown>();
    return {
      begun: begun.promise,
      aborted: aborted.promise,
      hold: (signal) =>
        new Promise((_resolve, reject) => {
          signal?.addEventListener('abort', () => {
            aborted.resolve(signal.reason);
            reject(signal.reason as Error);
          });
          begun.resolve();
        }),
    };
  }

  describe('a client that goes away', () => {
    it('ends the wait for its answer', async () => {
      const held = heldAnswer();
      const failures: unknown[] = [];
      const api = await serveHere({
        latencyMs: 60_000,
        clock: { now: () => Date.now(), sleep: (_ms, signal) => held.hold(signal) },
        onFailure: (error) => failures.push(error),
      });
      const leaving = new AbortController();
      const answer = api.send(mailing, { entity: 'lists', action: 'list' }, { signal: leaving.signal });
      await held.begun;
      leaving.abort();
      await expect(answer).rejects.toThrow();
      expect(await held.aborted).toMatchObject({ message: 'The client has disconnected.' });
      await api.service.close();
      expect(failures).toEqual([]);
    });

    it('ends the reading of the file that it was sent', async () => {
      const held = heldAnswer();
      const account = createSampleAccount(library);
      const slow: SampleAccount = {
        list: (entity, params) => account.list(entity, params),
        get: (entity, params) => account.get(entity, params),
        file: () => ({
          name: 'endless',
          contentType: 'text/plain',
          size: 1_000_000,
          async *read(signal) {
            yield new Uint8Array(1000);
            yield new Uint8Array(1000);
            await held.hold(signal);
          },
        }),
      };
      const api = await serveHere({ accounts: [{ ...library, account: slow }] });
      const leaving = new AbortController();
      const asked = { entity: 'attachments', action: 'download', params: { attachment_id: 'x' } };
      const response = await api.send('library', asked, { signal: leaving.signal });
      expect(response.status).toBe(200);
      await held.begun;
      leaving.abort();
      await held.aborted;
      await response.body?.cancel().catch(() => {
        // Aborted: there is nothing left to cancel.
      });
    });
  });

  describe('a service that closes', () => {
    it('calls it no failure that what was still worked on finds everything closed', async () => {
      const failures: unknown[] = [];
      const api = await serveHere({ onFailure: (error) => failures.push(error) });
      const dropping = openPromise();
      const dropped = openPromise();
      const drop = (): Promise<void> => {
        dropping.resolve();
        return dropped.promise;
      };
      Object.assign(api.service.stores, { drop });
      const answer = api.call(`/api/v1/integrations/connectors/${mailing}`, { method: 'DELETE' });
      const refused = expect(answer).rejects.toThrow();
      await dropping.promise;
      await api.service.close();
      await refused;
      dropped.resolve();
      await setImmediate();
      expect(failures).toEqual([]);
    });

    it('ends what is under way, and can be started again on its port', async () => {
      const held = heldAnswer();
      const failures: unknown[] = [];
      const api = await serveHere({
        latencyMs: 1,
        clock: { now: () => Date.now(), sleep: (_ms, signal) => held.hold(signal) },
        onFailure: (error) => failures.push(error),
      });
      const answer = api.execute(mailing, { entity: 'lists', action: 'list' });
      const refused = expect(answer).rejects.toThrow();
      await held.begun;
      await api.service.close();
      await refused;
      await held.aborted;
      expect(failures).toEqual([]);
      const again = await serveHere({ port: Number(new URL(api.service.url).port) });
      expect(again.service.url).toBe(api.service.url);
    });
  });
});

describe('https and log', () => {
  describe('the service over HTTPS', () => {
    // Proves specification 4.2
    it('answers a client that trusts its certificate, and names itself with https', async () => {
      const service = await serveTls();
      expect(service.url).toMatch(/^https:/);
      const { status, body } = await secureAnswer(service);
      expect([status, body]).toEqual([200, expect.stringContaining('"openapi"')]);
      await expect(fetch(service.url)).rejects.toThrow();
    });
  });

  describe('a browser', () => {
    it('finds the OpenAPI document at the address of the service, without a token', async () => {
      const api = await serveHere();
      const answer = await fetch(api.service.url);
      expect([answer.status, answer.headers.get('content-type')]).toEqual([200, 'text/html; charset=utf-8']);
      expect(await answer.text()).toContain('href="/openapi.json"');
    });
  });

  describe('the log of requests', () => {
    const entries: RequestEntry[] = [];
    /** Logged once the answer is out, so later than the client has it. */
    const logged = async (
      api: ServedApi,
      work: () => Promise<Response>,
    ): Promise<[RequestEntry, Response]> => {
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
      const api = await serveHere({ onRequest: (entry) => entries.push(entry) });
      const [executed, response] = await logged(api, () =>
        fetch(`${api.service.url}${executePath}?x=planted-query`, {
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
});
