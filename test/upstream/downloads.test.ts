import { gzipSync } from 'node:zlib';
import { buffer } from 'node:stream/consumers';
import { describe, expect, it } from 'vitest';
import type { UpstreamFile, UpstreamAccount } from '../../src/upstream/open-upstream.ts';
import {
  failureOf,
  never,
  openTestAccount,
  requestOf,
  things,
} from '../support/third-party/open-test-account.ts';
import { startThirdParty } from '../support/third-party/start-third-party.ts';

const call = { entity: things, params: { note_id: 'n1' } };
const path = requestOf('/items/{note_id}/file', { note_id: { kind: 'path' } });
const direct = { ...path, url: null };
const told = { ...path, url: ['file', 'url'] };

async function download(account: UpstreamAccount): Promise<UpstreamFile> {
  const file = await account.download(call, never);
  if (file === null) throw new Error('expected a file');
  return file;
}

async function textOf(file: UpstreamFile): Promise<string> {
  return (await buffer(file.read(never))).toString('utf8');
}

describe('a download', () => {
  it('is streamed with what its headers say', async () => {
    const server = await startThirdParty(() => ({
      headers: {
        'content-type': 'text/csv',
        'content-disposition': 'attachment; filename="a.csv"',
        'content-length': '3',
      },
      body: 'a,b',
    }));
    const file = await download(openTestAccount({ baseUrl: server.origin, download: direct }));
    expect(file).toMatchObject({ name: 'a.csv', contentType: 'text/csv', size: 3 });
    expect(await textOf(file)).toBe('a,b');
    expect(server.requests[0]).toMatchObject({
      path: '/items/n1/file',
      headers: { 'accept-encoding': 'identity' },
    });
  });

  it.each(['redirects', 'the address in the answer'])('follows %s without credentials', async (way) => {
    const server = await startThirdParty(({ path: asked }) => {
      if (asked === '/file') return { body: 'bytes' };
      if (asked === '/hop') return { status: 302, headers: { location: '/file?signature=s' } };
      return way === 'redirects'
        ? { status: 302, headers: { location: '/hop' } }
        : { body: { file: { url: `${server.origin}/hop` } } };
    });
    const account = openTestAccount({
      baseUrl: server.origin,
      download: way === 'redirects' ? direct : told,
    });
    expect(await textOf(await download(account))).toBe('bytes');
    const [first, ...followed] = server.requests;
    expect(first?.headers.authorization).toBeDefined();
    expect(followed.map(({ path: one }) => one)).toEqual(['/hop', '/file']);
    for (const { headers } of followed) {
      expect(Object.keys(headers).toSorted()).toEqual([
        'accept',
        'accept-encoding',
        'connection',
        'host',
        'user-agent',
      ]);
    }
  });

  // Proves promise 17.2
  it.each([
    ['an address of this machine', 'http://localhost:{port}/file'],
    ['another port of the allowed host', 'http://127.0.0.1:{port}/file'],
    ['another port of the allowed host by https', 'https://127.0.0.1:{port}/file'],
    ['the allowed host by https', 'https://127.0.0.1/file'],
    ['a port that is allowed to the definition', 'http://127.0.0.1:{listed}/file'],
    ['cloud credentials', 'http://169.254.169.254/latest/meta-data'],
    ['a private address', 'https://10.0.0.1/file'],
    ['a user name', 'http://me:secret@127.0.0.1:{port}/file'],
    ['another scheme', 'file:///etc/passwd'],
    ['another scheme of the allowed host', 'gopher://127.0.0.1:{own}/file'],
    ['an address within another one', 'blob:http://127.0.0.1:{own}/file'],
  ])('does not follow to %s, by a redirect or the address in an answer', async (_what, location) => {
    const storage = await startThirdParty(() => ({ body: 'bytes' }));
    const listed = await startThirdParty(() => ({ body: 'bytes' }));
    const server = await startThirdParty(({ path: asked }) => {
      const address = location
        .replace('{port}', String(storage.port))
        .replace('{listed}', String(listed.port))
        .replace('{own}', String(server.port));
      return asked.endsWith('/file')
        ? { status: 302, headers: { location: address } }
        : { body: { file: { url: address } } };
    });
    const allowHosts = ['127.0.0.1', `127.0.0.1:${listed.port}`];
    const link = { ...requestOf('/items/{note_id}/link', { note_id: { kind: 'path' } }), url: told.url };
    for (const by of [direct, link]) {
      const account = openTestAccount({ baseUrl: server.origin, download: by, allowHosts });
      const failure = await failureOf(account.download(call, never));
      expect(failure).toMatchObject({ class: 'refused', reason: 'otherOrigin' });
      expect(failure.text).not.toContain('secret');
    }
    expect([storage.connections(), listed.connections(), server.requests.length]).toEqual([0, 0, 2]);
  });

  it('takes no credentials in the query along either', async () => {
    const server = await startThirdParty(({ path: asked }) =>
      asked === '/file' ? { body: 'bytes' } : { status: 307, headers: { location: '/file' } },
    );
    const auth = { kind: 'query', name: 'key', value: { kind: 'field', field: 'token' } } as const;
    await textOf(await download(openTestAccount({ baseUrl: server.origin, download: direct, auth })));
    expect(server.requests.map(({ query }) => query.has('key'))).toEqual([true, false]);
  });

  it('does not follow to a name that leads to a private address', async () => {
    const server = await startThirdParty(() => ({
      status: 302,
      headers: { location: 'https://files.example/f' },
    }));
    const account = openTestAccount({
      baseUrl: server.origin,
      download: direct,
      allowHosts: ['127.0.0.1', 'files.example'],
      resolve: (_name, done) => done(null, [{ address: '127.0.0.1', family: 4 }]),
    });
    expect(await failureOf(account.download(call, never))).toMatchObject({ reason: 'otherOrigin' });
  });

  it('follows to a public address by https, whichever host it has', async () => {
    const server = await startThirdParty(() => ({
      status: 302,
      headers: { location: 'https://files.example/f' },
    }));
    const asked: string[] = [];
    const account = openTestAccount({
      baseUrl: server.origin,
      download: direct,
      resolve: (name, done) => {
        asked.push(name);
        done(Object.assign(new Error('no name server here'), { code: 'ENOTFOUND' }), []);
      },
    });
    expect(await failureOf(account.download(call, never))).toMatchObject({ reason: 'name' });
    expect(asked).toEqual(['files.example']);
  });

  it('gives up a circle of redirects', async () => {
    const server = await startThirdParty((_request, index) => ({
      status: 302,
      headers: { location: `/hop${index}` },
    }));
    const failure = await failureOf(
      openTestAccount({ baseUrl: server.origin, download: direct }).download(call, never),
    );
    expect(failure).toMatchObject({ class: 'refused', reason: 'redirect' });
    expect(server.requests).toHaveLength(6);
  });

  it('is null where the service has no such file, and a failure where it refuses', async () => {
    const server = await startThirdParty((_request, index) => ({
      status: index === 0 ? 404 : 403,
      body: { detail: 'no' },
    }));
    const account = openTestAccount({ baseUrl: server.origin, download: direct });
    expect(await account.download(call, never)).toBeNull();
    expect(await failureOf(account.download(call, never))).toMatchObject({ class: 'forbidden', text: 'no' });
  });

  it('shows nothing that a storage says about a signed address', async () => {
    const server = await startThirdParty(({ path: asked }) =>
      asked === '/f'
        ? { status: 403, body: { message: 'signature=abc expired', detail: 'x' } }
        : { status: 302, headers: { location: '/f?signature=abc' } },
    );
    const failure = await failureOf(
      openTestAccount({ baseUrl: server.origin, download: direct }).download(call, never),
    );
    expect(failure.text).toBe(`${new URL(server.origin).host} answered with HTTP 403`);
  });

  it('is decompressed where it was compressed unasked', async () => {
    const server = await startThirdParty(() => ({
      headers: { 'content-encoding': 'gzip' },
      body: gzipSync('bytes'),
    }));
    const file = await download(openTestAccount({ baseUrl: server.origin, download: direct }));
    expect(file.size).toBeNull();
    expect(await textOf(file)).toBe('bytes');
  });

  it.each([
    ['cut', { 'content-length': '10' }, 'abc'],
    [
      'cut within its compression',
      { 'content-encoding': 'gzip' },
      gzipSync('bytes and more bytes').subarray(0, 15),
    ],
  ])('that is %s fails while it is read', async (_what, headers, bytes) => {
    const server = await startThirdParty(() => (response) => {
      response.writeHead(200, headers);
      response.write(bytes, () => response.destroy());
    });
    const file = await download(openTestAccount({ baseUrl: server.origin, download: direct }));
    expect((await failureOf(textOf(file))).class).toBe('unavailable');
  });

  it('that falls silent fails while it is read', async () => {
    const server = await startThirdParty(() => (response) => {
      response.writeHead(200);
      response.write('abc');
    });
    const account = openTestAccount({ baseUrl: server.origin, download: direct, bodyTimeoutMs: 300 });
    expect(await failureOf(textOf(await download(account)))).toMatchObject({
      class: 'unavailable',
      reason: 'timeout',
    });
  });

  it('holds its place among the calls until it is read or closed', async () => {
    const server = await startThirdParty((request) =>
      request.path.endsWith('/file') ? { body: 'bytes' } : { body: { items: [] } },
    );
    const limits = { concurrency: 1, requestsPerSecond: 1_000 };
    const account = openTestAccount({
      baseUrl: server.origin,
      download: direct,
      upstream: { limits },
      gate: { maxWaitMs: 100 },
    });
    const list = { entity: things, params: {} };
    const file = await download(account);
    expect(await failureOf(account.list(list, never))).toMatchObject({ reason: 'gate' });
    await textOf(file);
    await account.list(list, never);
    (await download(account)).close();
    await account.list(list, never);
  });

  it('ends with the reason of its signal', async () => {
    const server = await startThirdParty(() => (response) => {
      response.writeHead(200);
      response.write('abc');
    });
    const file = await download(openTestAccount({ baseUrl: server.origin, download: direct }));
    const leaving = new AbortController();
    const reading = (async () => {
      for await (const chunk of file.read(leaving.signal)) {
        expect(Buffer.from(chunk).toString()).toBe('abc');
        leaving.abort(new Error('the caller left'));
      }
    })();
    await expect(reading).rejects.toThrow('the caller left');
  });
});
