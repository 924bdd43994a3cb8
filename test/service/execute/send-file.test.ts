import { Agent, request as httpRequest, type IncomingMessage } from 'node:http';
import { connect, type AddressInfo, type Socket } from 'node:net';
import { once } from 'node:events';
import { setImmediate } from 'node:timers/promises';
import fastify, { type FastifyInstance } from 'fastify';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { trackCalls } from '../../../src/service/routes/api-endpoints.ts';
import { answerErrors, ApiError } from '../../../src/service/api-error.ts';
import { sendFile } from '../../../src/service/execution.ts';
import type { ProviderFile } from '../../../src/service/provider.ts';

const chunkSize = 65_536;

let server: FastifyInstance;
let port: number;
let file: ProviderFile;
let outer: AbortController;
let stalledMs: number;
let clientPorts: Set<number | undefined>;

beforeEach(async () => {
  outer = new AbortController();
  stalledMs = 60_000;
  server = fastify({ forceCloseConnections: true });
  answerErrors(server);
  clientPorts = new Set();
  server.get('/file', (request, reply) => {
    clientPorts.add(request.socket.remotePort);
    const signal = AbortSignal.any([outer.signal, trackCalls().open(reply)]);
    return sendFile(reply, file, signal, stalledMs);
  });
  await server.listen({ port: 0, host: '127.0.0.1' });
  port = (server.server.address() as AddressInfo).port;
});
afterEach(() => server.close());

function fileOf(read: ProviderFile['read'], described: Partial<ProviderFile> = {}): ProviderFile {
  return { name: 'file.bin', contentType: 'application/octet-stream', size: null, ...described, read };
}

function chunks(...texts: readonly string[]): ProviderFile['read'] {
  return async function* read() {
    for (const text of texts) yield Buffer.from(text);
  };
}

interface Got {
  readonly status: number;
  readonly headers: IncomingMessage['headers'];
  readonly names: readonly string[];
  readonly body: Buffer;
  /** The body ended as its headers declared. */
  readonly isWhole: boolean;
}

async function get(agent?: Agent): Promise<Got> {
  const sent = httpRequest({
    port,
    host: '127.0.0.1',
    path: '/file',
    ...(agent === undefined ? {} : { agent }),
  });
  sent.end();
  const [response] = (await once(sent, 'response')) as [IncomingMessage];
  const received: Buffer[] = [];
  // What is cut off is an error of the response; `complete` tells it.
  response.on('error', () => undefined);
  response.on('data', (chunk: Buffer) => received.push(chunk));
  if (!response.closed) await new Promise((resolve) => response.once('close', resolve));
  return {
    status: response.statusCode ?? 0,
    headers: response.headers,
    names: response.rawHeaders.filter((_, index) => index % 2 === 0).map((name) => name.toLowerCase()),
    body: Buffer.concat(received),
    isWhole: response.complete,
  };
}

interface Deferred<Value> {
  readonly promise: Promise<Value>;
  readonly resolve: (value: Value) => void;
}

function deferred<Value>(): Deferred<Value> {
  let resolve: (value: Value) => void = () => undefined;
  const promise = new Promise<Value>((settle) => {
    resolve = settle;
  });
  return { promise, resolve };
}

/** A client that has asked and reads nothing. */
async function ask(): Promise<Socket> {
  const socket = connect(port, '127.0.0.1');
  socket.on('error', () => undefined);
  await once(socket, 'connect');
  socket.write('GET /file HTTP/1.1\r\nHost: localhost\r\n\r\n');
  return socket;
}

describe('a file that is sent', () => {
  it('comes with its length, type and name, and nothing that a browser may run', async () => {
    file = fileOf(chunks('hello, ', '', 'world'), {
      name: 'a.txt',
      contentType: 'text/plain; charset=utf-8',
      size: 12,
    });
    const { status, headers, names, body, isWhole } = await get();
    expect({ status, isWhole, text: body.toString() }).toEqual({
      status: 200,
      isWhole: true,
      text: 'hello, world',
    });
    expect(headers).toMatchObject({
      'content-type': 'text/plain; charset=utf-8',
      'content-length': '12',
      'content-disposition': 'attachment; filename="a.txt"',
      'x-content-type-options': 'nosniff',
    });
    expect(names).not.toContain('transfer-encoding');
  });

  it.each([null, -1, 1.5, Number.NaN])('of unknown size (%s) comes in chunks with an end', async (size) => {
    file = fileOf(chunks('one', 'two', 'three'), { size });
    const { headers, body, isWhole } = await get();
    expect([headers['transfer-encoding'], headers['content-length']]).toEqual(['chunked', undefined]);
    expect([body.toString(), isWhole]).toEqual(['onetwothree', true]);
  });

  it.each([0, null])('may be empty, its size being %s', async (size) => {
    file = fileOf(chunks(), { size });
    expect(await get()).toMatchObject({ status: 200, body: Buffer.alloc(0), isWhole: true });
    file = fileOf(chunks(''), { size });
    expect(await get()).toMatchObject({ status: 200, body: Buffer.alloc(0), isWhole: true });
  });

  it('leaves the connection to the next request', async () => {
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    for (const text of ['first', 'second', 'third']) {
      file = fileOf(chunks(text), { size: text.length });
      expect((await get(agent)).body.toString()).toBe(text);
    }
    expect(clientPorts.size).toBe(1);
    agent.destroy();
  });

  it.each([
    ['text/csv', 'text/csv'],
    ['application/vnd.ms-excel', 'application/vnd.ms-excel'],
    ['text/plain;charset=utf-8', 'text/plain;charset=utf-8'],
    ['', 'application/octet-stream'],
    ['text', 'application/octet-stream'],
    ['text/html\r\nSet-Cookie: a=b', 'application/octet-stream'],
    ['text/plain; charset="a\r\nb"', 'application/octet-stream'],
    ['text/plain, text/html', 'application/octet-stream'],
    [`text/${'x'.repeat(300)}`, 'application/octet-stream'],
    ['тext/plain', 'application/octet-stream'],
  ])('of type %j is sent as %s', async (contentType, expected) => {
    file = fileOf(chunks('x'), { contentType });
    const { status, headers, names } = await get();
    expect([status, headers['content-type']]).toEqual([200, expected]);
    expect(names).not.toContain('set-cookie');
  });
});

describe('a client that does not keep up', () => {
  it('stops the provider, and gets everything when it resumes', async () => {
    const total = 1_000;
    let pulled = 0;
    file = fileOf(
      async function* read() {
        for (; pulled < total; pulled += 1) yield Buffer.alloc(chunkSize, pulled % 251);
      },
      { size: total * chunkSize },
    );
    const socket = await ask();
    await once(socket, 'readable');
    // Every turn is one in which a provider without backpressure would give a chunk.
    for (let turn = 0; turn < 3 * total; turn += 1) await setImmediate();
    // The system's own buffers hold a few megabytes of one connection.
    expect(pulled).toBeLessThan(total / 4);
    let received = 0;
    socket.on('data', (chunk: Buffer) => {
      received += chunk.length;
      if (received > total * chunkSize) socket.end();
    });
    await once(socket, 'close');
    expect(pulled).toBe(total);
  });

  it('is cut off when it takes nothing for too long', async () => {
    stalledMs = 40;
    const ended = deferred<unknown>();
    file = fileOf(async function* read(signal) {
      signal.addEventListener('abort', () => ended.resolve(signal.reason));
      for (;;) yield Buffer.alloc(chunkSize);
    });
    const socket = await ask();
    expect(await ended.promise).toMatchObject({ status: 499 });
    socket.destroy();
  });
});

describe('a client that leaves', () => {
  it.each(['before the first byte', 'midway'])('aborts the signal %s', async (when) => {
    const waiting = deferred<void>();
    const ended = deferred<unknown>();
    let isReturned = false;
    file = fileOf(async function* read(signal) {
      try {
        if (when === 'midway') for (let count = 0; count < 3; count += 1) yield Buffer.alloc(10);
        waiting.resolve();
        await once(signal, 'abort');
        ended.resolve(signal.reason);
        signal.throwIfAborted();
      } finally {
        isReturned = true;
      }
    });
    const socket = await ask();
    await waiting.promise;
    socket.destroy();
    expect(await ended.promise).toMatchObject({ status: 499 });
    await setImmediate();
    expect(isReturned).toBe(true);
  });
});

describe('a client that has left before', () => {
  it('has nothing read for it, and no failure is left unheard', async () => {
    const unheard: unknown[] = [];
    const hear = (reason: unknown): void => void unheard.push(reason);
    process.on('unhandledRejection', hear);
    try {
      let isRead = false;
      outer.abort(new ApiError(499, 'The client has gone away.'));
      file = fileOf(async function* read(signal) {
        isRead = true;
        signal.throwIfAborted();
        yield Buffer.alloc(1);
      });
      expect((await get()).status).toBe(499);
      await setImmediate();
      expect([isRead, unheard]).toEqual([false, []]);
    } finally {
      process.off('unhandledRejection', hear);
    }
  });
});

describe('a provider that fails', () => {
  const failure = new ApiError(503, 'The third party is away.');

  it.each([
    ['at once', []],
    ['with one chunk given', ['first']],
  ])('%s is answered as any failure, whatever the file would have been called', async (_, texts) => {
    file = fileOf(
      async function* read(signal) {
        yield* chunks(...texts)(signal);
        throw failure;
      },
      { size: 1_000 },
    );
    const { status, headers, body, isWhole } = await get();
    expect({ status, isWhole, body: JSON.parse(body.toString()) }).toEqual({
      status: 503,
      isWhole: true,
      body: { message: failure.message, errors: [] },
    });
    expect(headers['content-disposition']).toBeUndefined();
  });

  it.each([null, 4 * chunkSize])('midway cuts the body short (size %s)', async (size) => {
    file = fileOf(
      async function* read() {
        for (let count = 0; count < 3; count += 1) yield Buffer.alloc(chunkSize);
        throw failure;
      },
      { size },
    );
    const { status, body, isWhole } = await get();
    expect([status, isWhole]).toEqual([200, false]);
    expect(body.length).toBeLessThan(3 * chunkSize);
  });

  it.each([
    ['fewer', 5 * chunkSize],
    ['more', 3 * chunkSize],
  ])('gives %s bytes than it declared cuts the body short, the last byte never coming', async (_, size) => {
    file = fileOf(
      async function* read() {
        for (let count = 0; count < 4; count += 1) yield Buffer.alloc(chunkSize);
      },
      { size },
    );
    const { isWhole, body } = await get();
    expect(isWhole).toBe(false);
    expect(body.length).toBeLessThan(size);
  });

  it('gives nothing of a file that has a size is answered with 502', async () => {
    file = fileOf(chunks(), { size: 10 });
    const { status, body } = await get();
    expect(status).toBe(502);
    expect(JSON.parse(body.toString())).toMatchObject({ errors: [{ error_code: 'file_invalid' }] });
  });
});

describe('a service that closes', () => {
  it.each(['before the first byte', 'midway'])(
    'does not wait for a provider that does not listen, %s',
    async (when) => {
      const waiting = deferred<void>();
      file = fileOf(async function* read() {
        if (when === 'midway') for (let count = 0; count < 3; count += 1) yield Buffer.alloc(chunkSize);
        waiting.resolve();
        await new Promise(() => undefined);
      });
      const answer = get().catch(() => null);
      await waiting.promise;
      outer.abort(new ApiError(503, 'The local service is closing.'));
      const got = await answer;
      expect(got === null || got.status === 503 || !got.isWhole).toBe(true);
    },
  );
});
