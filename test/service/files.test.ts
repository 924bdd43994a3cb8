import { createHash } from 'node:crypto';
import { once } from 'node:events';
import type { Agent } from 'node:http';
import { request as httpRequest, type IncomingMessage } from 'node:http';
import { connect, type AddressInfo, type Socket } from 'node:net';
import { setImmediate } from 'node:timers/promises';
import fastify, { type FastifyInstance } from 'fastify';
import { afterAll, beforeAll, describe, expect, it, afterEach, beforeEach } from 'vitest';
import type { JsonObject } from '../../src/core/json.ts';
import { createSampleAccount } from '../../src/sample/sample-service.ts';
import { answerErrors, ApiError } from '../../src/service/api-error.ts';
import { sendFile, contentDisposition } from '../../src/service/execution.ts';
import type { ProviderFile } from '../../src/service/provider.ts';
import { trackCalls } from '../../src/service/routes/api-endpoints.ts';
import { safeBase } from '../../src/sinks/files/safe-file-name.ts';
import { openPromise } from '../support/open-promise.ts';
import { sampleTruth } from '../support/sample-truth.ts';
import { serveApi, text, type ServedApi } from '../support/service/served-api.ts';

describe('served files', () => {
  const library = 'library-1';
  const account = { definitionName: 'document-library', seed: 7, size: 'small' } as const;

  let api: ServedApi;
  beforeAll(async () => {
    api = await serveApi({ accounts: [{ connectorId: library, workspace: 'default', ...account }] });
  });
  afterAll(() => api.service.close());

  const attachments = [...sampleTruth(createSampleAccount(account), 'attachments')].map(
    ({ record }) => record,
  );

  const download = (params: JsonObject): Promise<Response> =>
    api.send(library, { entity: 'attachments', action: 'download', params });

  /** The name as RFC 6266 has it: the extended one where there is one. */
  function nameIn(disposition: string | null): string {
    const [, extended] = /; filename\*=UTF-8''([^;]+)$/.exec(disposition ?? '') ?? [];
    const [, plain = ''] = /; filename="([^"]*)"/.exec(disposition ?? '') ?? [];
    return extended === undefined ? plain : decodeURIComponent(extended);
  }

  describe('a download from the served library', () => {
    // Proves specification 1.3, 4.4.7, 4.4.10
    it('brings the bytes, the name, the type and the size that the record gives, whatever the name is', async () => {
      const oneOfEachName = new Map(attachments.map((record) => [record['file_name'], record]));
      expect(oneOfEachName.size).toBeGreaterThan(20);
      for (const [name, record] of oneOfEachName) {
        const response = await download({ attachment_id: record['id'] ?? null });
        const bytes = Buffer.from(await response.arrayBuffer());
        expect({
          status: response.status,
          type: response.headers.get('content-type'),
          length: response.headers.get('content-length'),
          size: bytes.length,
          checksum: createHash('sha256').update(bytes).digest('hex'),
        }).toEqual({
          status: 200,
          type: record['content_type'],
          length: text(record['size']),
          size: record['size'],
          checksum: record['checksum'],
        });
        const long = text(name).length > 255;
        if (!long) expect(nameIn(response.headers.get('content-disposition'))).toBe(safeBase(text(name)));
        expect([...response.headers.keys()].filter((header) => header.startsWith('x-'))).toEqual([
          'x-content-type-options',
          'x-request-id',
        ]);
      }
    });

    // Proves specification 4.4.7
    it('of many megabytes comes in pieces', async () => {
      const big = attachments.find(({ size }) => Number(size) > 8_000_000) ?? {};
      const response = await download({ attachment_id: big['id'] ?? null });
      const hash = createHash('sha256');
      let pieces = 0;
      for await (const piece of response.body ?? []) {
        hash.update(piece);
        pieces += 1;
      }
      expect(hash.digest('hex')).toBe(big['checksum']);
      expect(pieces).toBeGreaterThan(20);
    });

    // Proves specification 4.4.11
    it('of a file that is not there brings no bytes', async () => {
      const response = await download({ attachment_id: 'att_none' });
      expect([
        response.status,
        response.headers.get('content-length'),
        (await response.arrayBuffer()).byteLength,
      ]).toEqual([200, '0', 0]);
    });

    // Proves specification 4.4.9
    it('that does not say of what is refused', async () => {
      const response = await download({});
      expect(response.status).toBe(400);
      expect(await response.json()).toMatchObject({ errors: [{ field: 'params.attachment_id' }] });
    });
  });

  describe('lists of the served library', () => {
    // Proves specification 4.4.9
    it('give the ids, names, types and sizes of attachments, by which a download brings them', async () => {
      let downloads = 0;
      for (const { id: folder_id = null } of (await api.list(library, 'folders', {})).records.slice(0, 8)) {
        for (const document of (await api.list(library, 'documents', { folder_id, limit: 20 })).records) {
          const { id: document_id = null } = document;
          const { records } = await api.list(library, 'attachments', { document_id });
          const metadata = records.map(({ id, file_name, content_type, size }) => ({
            id,
            file_name,
            content_type,
            size,
          }));
          expect(document['attachments']).toEqual(metadata);
          for (const { id = null, content_type, size } of metadata.slice(0, 2)) {
            const response = await download({ attachment_id: id });
            expect([response.status, response.headers.get('content-type')]).toEqual([200, content_type]);
            expect((await response.arrayBuffer()).byteLength).toBe(size);
            downloads += 1;
          }
        }
      }
      expect(downloads).toBeGreaterThan(5);
    });
  });
});

describe('send file', () => {
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
      const ended = openPromise<unknown>();
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
      const waiting = openPromise();
      const ended = openPromise<unknown>();
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
        const waiting = openPromise();
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
});

/** As a client reads it: the extended name where there is one. */
function namesIn(header: string): { readonly plain: string; readonly exact: string } {
  const [, plain = '', extended] =
    /^attachment; filename="([^"\\]*)"(?:; filename\*=UTF-8''([A-Za-z0-9!#$&+\-.^_`|~%]*))?$/.exec(header) ??
    [];
  return { plain, exact: extended === undefined ? plain : decodeURIComponent(extended) };
}

describe('the name of a file in a header', () => {
  it.each([
    ['report.pdf', 'report.pdf', 'report.pdf'],
    ['two words (final) [2].txt', 'two words (final) [2].txt', 'two words (final) [2].txt'],
    ['Überblick März.csv', 'Überblick März.csv', '_berblick M_rz.csv'],
    ['週報 📝.txt', '週報 📝.txt', '__ _.txt'],
    [
      'notes "draft", 100% done; really.txt',
      'notes _draft_, 100% done; really.txt',
      'notes _draft_, 100_ done; really.txt',
    ],
    ['back\\slash.txt', 'slash.txt', 'slash.txt'],
    ['../../etc/passwd', 'passwd', 'passwd'],
    ['..\\..\\hosts', 'hosts', 'hosts'],
    ['C:\\Users\\ada.csv', 'ada.csv', 'ada.csv'],
    ['..', 'file', 'file'],
    ['.hidden', 'hidden', 'hidden'],
    ['CON', '_CON', '_CON'],
    ["it's *here*'.txt", "it's _here_'.txt", "it's _here_'.txt"],
    [
      'two\r\nX-Injected: yes\u0000\u001b[31m.txt',
      'twoX-Injected_ yes[31m.txt',
      'twoX-Injected_ yes[31m.txt',
    ],
    ['invoice\u202Efdp.txt', 'invoicefdp.txt', 'invoicefdp.txt'],
    ['%2e%2e%2f', '%2e%2e%2f', '_2e_2e_2f'],
    ['\u007f', 'file', 'file'],
  ])('%j is made harmless as %j, and as %j for clients that know ASCII alone', (name, exact, plain) => {
    const header = contentDisposition(name);
    expect(header).toMatch(/^[ -~]+$/);
    expect(namesIn(header)).toEqual({ plain, exact });
  });

  it('is left out where there is none', () => {
    expect(contentDisposition('')).toBe('attachment');
  });

  it('with a lone surrogate gets U+FFFD in its place', () => {
    expect(namesIn(contentDisposition('half\ud83d.txt')).exact).toBe('half\ufffd.txt');
  });

  it('is cut between two signs where it is longer than names can be, before its extension', () => {
    for (const name of [`${'a'.repeat(300)}.pdf`, `${'ж'.repeat(300)}.pdf`, `${'📝'.repeat(1_000)}.pdf`]) {
      const { exact } = namesIn(contentDisposition(name));
      expect(Buffer.byteLength(exact)).toBeLessThanOrEqual(150);
      expect(Buffer.byteLength(exact)).toBeGreaterThan(145);
      expect(exact.endsWith('.pdf')).toBe(true);
      expect(name.startsWith(exact.slice(0, -4))).toBe(true);
    }
    const { exact } = namesIn(contentDisposition(`a.${'b'.repeat(100_000)}`));
    expect(exact).toBe(`a.${'b'.repeat(148)}`);
  });
});
