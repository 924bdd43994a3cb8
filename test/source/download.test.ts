import { describe, expect, it } from 'vitest';
import type { ErrorCode, Recovery } from '../../src/core/errors.ts';
import type { EntityName } from '../../src/core/names.ts';
import type { DownloadRequest, IncomingFile } from '../../src/source/source.ts';
import { fileReply, library } from '../support/file-world.ts';
import {
  closeBeforeHeaders,
  cutByClose,
  cutByLength,
  cutInChunks,
  endless,
  resetAfterHeaders,
  stallBeforeHeaders,
  stallInBody,
} from '../support/hostile/broken-replies.ts';
import type { Reply } from '../support/hostile/exchange.ts';
import {
  apiError,
  envelope,
  gzipped,
  html,
  json,
  redirect,
  success,
  text,
} from '../support/hostile/replies.ts';
import {
  failureOf,
  never,
  openTestSource,
  type TestSource,
  type TestSourceOptions,
} from '../support/source/open-test-source.ts';

const start = (options: TestSourceOptions): Promise<TestSource> =>
  openTestSource({ definition: library, ...options });

const request: DownloadRequest = {
  entity: 'attachments' as EntityName,
  params: { attachment_id: 'a1' },
  size: null,
  maxBytes: 1_000_000,
};

interface Read {
  readonly name: string | null;
  readonly contentType: string | null;
  readonly size: number | null;
  readonly text: string;
}

const read = async ({ name, contentType, size, bytes }: IncomingFile): Promise<Read> => {
  const chunks: Uint8Array[] = [];
  for await (const chunk of bytes) chunks.push(chunk);
  return { name, contentType, size, text: Buffer.concat(chunks).toString() };
};

describe('a download', () => {
  // Proves specification 4.4.8
  it('brings the bytes with the name, the type and the length that the answer says', async () => {
    const { source, server } = await start({ respond: () => fileReply(Buffer.from('bytes'), 'Größe.txt') });
    expect(await source.download({ ...request, size: 5 }, read, never)).toEqual({
      name: 'Größe.txt',
      contentType: 'text/plain',
      size: 5,
      text: 'bytes',
    });
    expect(server.calls[0]).toMatchObject({
      body: { entity: 'attachments', action: 'download', params: { attachment_id: 'a1' } },
      headers: { accept: '*/*', 'accept-encoding': 'identity' },
    });
  });

  it('without a name, a type or a length is a file all the same, and so is JSON', async () => {
    const { source } = await start({
      respond: ({ index }) =>
        index === 0
          ? ({ response }) => {
              response.writeHead(200, { 'content-type': 'nonsense' });
              response.write('by');
              response.end('tes');
            }
          : json(
              200,
              { status: 'draft', message: 'Hello' },
              index === 1 ? {} : { 'content-disposition': 'attachment; filename=a.json' },
            ),
    });
    expect(await source.download(request, read, never)).toEqual({
      name: null,
      contentType: null,
      size: null,
      text: 'bytes',
    });
    const letter = JSON.stringify({ status: 'draft', message: 'Hello' });
    expect((await source.download(request, read, never)).text).toBe(letter);
    expect(await source.download(request, read, never)).toMatchObject({ name: 'a.json', text: letter });
  });

  /** What each failure means for the file, and how many attempts it costs. */
  const outcomes: Partial<Record<ErrorCode, readonly [Recovery, number]>> = {
    FILE_INVALID: ['retry', 3],
    NETWORK: ['retry', 4],
    TIMEOUT: ['retry', 4],
    UPSTREAM: ['retry', 4],
    BODY_TOO_LARGE: ['skip-partition', 1],
    NOT_FOUND: ['skip-partition', 1],
    FORBIDDEN: ['skip-partition', 1],
    REDIRECTED: ['stop', 1],
  };
  // Proves specification 4.4.8, 7.3
  it.each<[string, Reply, ErrorCode, number?]>([
    ['no bytes', text(200, ''), 'FILE_INVALID'],
    ['no bytes, as its record says', text(200, ''), 'FILE_INVALID', 0],
    ['fewer bytes than the record says', text(200, 'abc'), 'FILE_INVALID', 10],
    ['more bytes than the record says', text(200, 'abc'), 'FILE_INVALID', 2],
    ['the end of the connection instead of the end', cutByClose, 'FILE_INVALID', 10_000],
    ['fewer bytes than it announces', cutByLength, 'NETWORK'],
    ['no last chunk', cutInChunks, 'NETWORK'],
    ['a reset within the body', resetAfterHeaders, 'NETWORK'],
    ['no headers', closeBeforeHeaders, 'NETWORK'],
    ['silence', stallBeforeHeaders, 'TIMEOUT'],
    ['silence within the body', stallInBody, 'TIMEOUT'],
    ['an envelope', success({ id: 'a1' }), 'FILE_INVALID'],
    ['an envelope of an error', json(200, { ...envelope('c1', null), status: 'error' }), 'FILE_INVALID'],
    ['an error with HTTP 200', json(200, { status: 'error', message: 'no' }), 'FILE_INVALID'],
    ['a part of a file', text(206, 'abc'), 'FILE_INVALID'],
    ['word that it is not ready', text(202, 'preparing'), 'FILE_INVALID'],
    ['a body in gzip', gzipped([]), 'FILE_INVALID'],
    ['more than is allowed', endless, 'BODY_TOO_LARGE'],
    ['more than is allowed, announced', text(200, 'x', { 'content-length': '1000001' }), 'BODY_TOO_LARGE'],
    ['404', apiError(404, 'no such attachment'), 'NOT_FOUND'],
    ['403', apiError(403, 'not yours'), 'FORBIDDEN'],
    ['a redirect', redirect(302, 'http://127.0.0.1:1/elsewhere'), 'REDIRECTED'],
    ['503', html(503), 'UPSTREAM'],
  ])('refuses %s', async (_, reply, code, size) => {
    const { source, server } = await start({
      respond: () => reply,
      limits: { headersTimeoutMs: 300, bodyTimeoutMs: 300, attemptTimeoutMs: 2_000, retries: 3 },
    });
    const failure = await failureOf(source.download({ ...request, size: size ?? null }, read, never));
    expect([failure.code, failure.recovery, server.calls.length]).toEqual([code, ...(outcomes[code] ?? [])]);
  });

  // Proves promise 15
  it('is received from the start by each attempt, and whole by the last one', async () => {
    const { source, events } = await start({
      respond: ({ index }) => (index < 2 ? cutByLength : fileReply(Buffer.from('whole'), 'x')),
    });
    const begun: (string | null)[] = [];
    const file = await source.download(
      request,
      (incoming) => {
        begun.push(incoming.name);
        return read(incoming);
      },
      never,
    );
    expect(file.text).toBe('whole');
    expect(begun).toEqual([null, null, 'x']);
    expect(events.filter(({ kind }) => kind === 'call-retried')).toHaveLength(2);
    expect(source.stats()).toMatchObject({ calls: 3, retries: 2 });
  });

  it('takes as long as it takes, as long as something comes', async () => {
    const { source } = await start({
      respond:
        () =>
        async ({ response }) => {
          response.writeHead(200, { 'content-type': 'text/plain' });
          for (let chunk = 0; chunk < 10; chunk += 1) {
            response.write('x');
            await new Promise((resolve) => setTimeout(resolve, 60));
          }
          response.end();
        },
      limits: { attemptTimeoutMs: 200, maxCallMs: 200, retries: 0 },
    });
    expect((await source.download(request, read, never)).text).toBe('x'.repeat(10));
  });

  it('is given up when hardly anything arrives, however long it lasts', async () => {
    const { source, server } = await start({
      respond:
        () =>
        async ({ response }) => {
          response.writeHead(200, { 'content-type': 'text/plain' });
          while (!response.destroyed) {
            response.write('x');
            await new Promise((resolve) => setTimeout(resolve, 20));
          }
        },
      limits: { bodyTimeoutMs: 200, retries: 1 },
    });
    expect(await failureOf(source.download(request, read, never))).toMatchObject({ code: 'TIMEOUT' });
    expect(server.calls).toHaveLength(2);
  });

  it('is not hurried by a slow reader', async () => {
    const { source } = await start({
      respond: () => fileReply(Buffer.alloc(1_000_000), 'x'),
      limits: { bodyTimeoutMs: 100, leastFileBytes: 900_000, retries: 0 },
    });
    let length = 0;
    const slowly = async ({ bytes }: IncomingFile): Promise<void> => {
      for await (const chunk of bytes) {
        length += chunk.byteLength;
        if (length < 500_000) await new Promise((resolve) => setTimeout(resolve, 30));
      }
    };
    await source.download(request, slowly, never);
    expect(length).toBe(1_000_000);
  });

  it('ends with what its reader throws, at once, whatever that looks like', async () => {
    const { source, server } = await start({ respond: () => fileReply(Buffer.from('bytes'), 'x') });
    const full = Object.assign(new Error('ENOSPC'), { code: 'ENOSPC', syscall: 'write' });
    const failure = await failureOf(source.download(request, () => Promise.reject(full), never));
    expect(failure).toMatchObject({ code: 'INTERNAL', recovery: 'stop' });
    expect(server.calls).toHaveLength(1);
  });

  it('ends with its signal, in the middle of the bytes', async () => {
    const { source, server } = await start({ respond: () => stallInBody });
    const ending = new AbortController();
    const call = source.download(request, read, ending.signal);
    await server.arrived(1);
    const reason = new Error('enough');
    ending.abort(reason);
    await expect(call).rejects.toBe(reason);
  });

  it('gets another token when the one it had has expired', async () => {
    const { source, server } = await start({ respond: () => fileReply(Buffer.from('bytes'), 'x') });
    await source.download(request, read, never);
    server.expireTokens();
    expect((await source.download(request, read, never)).text).toBe('bytes');
    expect(server.tokensIssued()).toBe(2);
  });

  it('is refused for an entity that has none, and without its parameter', async () => {
    const { source, server } = await start({});
    const folders = { ...request, entity: 'folders' as EntityName };
    expect(await failureOf(source.download(folders, read, never))).toMatchObject({ code: 'USAGE' });
    const nothing = { ...request, params: {} };
    expect(await failureOf(source.download(nothing, read, never))).toMatchObject({ code: 'USAGE' });
    expect(server.calls).toEqual([]);
  });
});
