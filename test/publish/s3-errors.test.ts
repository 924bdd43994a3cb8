import { execFile } from 'node:child_process';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Readable } from 'node:stream';
import { inspect, promisify } from 'node:util';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { SyncError } from '../../src/core/errors.ts';
import type { ObjectStore } from '../../src/publish/object-store.ts';
import { openS3Client, readObject } from '../../src/publish/s3-store.ts';
import { fakeKey, fakePlace, type S3Fault } from '../support/publish/fake-s3.ts';
import { isLong } from '../support/trials.ts';
import { openFakeStore, openStore } from '../support/publish/s3-place.ts';

const run = promisify(execFile);

describe('what goes wrong with a bucket', () => {
  it.each<[string, S3Fault, 'stop' | 'retry', RegExp]>([
    ['no bucket', { status: 404, code: 'NoSuchBucket' }, 'stop', /there is no bucket "lake"/],
    ['no right', { status: 403, code: 'AccessDenied' }, 'stop', /403 AccessDenied.* needs s3:ListBucket/],
    ['another key', { status: 403, code: 'SignatureDoesNotMatch' }, 'stop', /Check the access key/],
    ['a wrong clock', { status: 403, code: 'RequestTimeTooSkewed' }, 'stop', /clock of this machine/],
    [
      'another region',
      { status: 301, code: 'PermanentRedirect', headers: { 'x-amz-bucket-region': 'eu-central-1' } },
      'stop',
      /in the region eu-central-1. Set `region` of the target to eu-central-1/,
    ],
    [
      'a region that is not named',
      { status: 301, code: 'PermanentRedirect' },
      'stop',
      /in another region. Set `region`/,
    ],
    ['what it cannot do', { status: 501, code: 'NotImplemented' }, 'stop', /501 NotImplemented/],
    ['an upload that was cut', { status: 400, code: 'RequestTimeout' }, 'retry', /400 RequestTimeout/],
  ])('is reported in words: %s', async (_name, fault, recovery, text) => {
    const { fake, store } = await openFakeStore();
    fake.fault = () => fault;
    const error = await store.replace('x', 'text').catch((failure: unknown) => failure);
    expect(error).toMatchObject({ code: 'TARGET_FAILED', recovery });
    expect(String(error)).toMatch(text);
    expect(String(error)).toMatch(
      /^SyncError: Could not write s3:\/\/lake\/raw\/sync\/x at 127\.0\.0\.1:\d+: /,
    );
  });

  it('is a folder for temporary files that does not exist: reported before anything is written', async () => {
    const { fake, store } = await openFakeStore();
    vi.stubEnv('TMPDIR', '/none');
    onTestFinished(() => void vi.unstubAllEnvs());
    const text = 'Expected a temporary folder that this user can write to, found none (/none)';
    for (const work of [store.stage('x'), store.leftovers()]) {
      await expect(work).rejects.toMatchObject({
        code: 'TARGET_FAILED',
        message: expect.stringContaining(text) as string,
      });
    }
    expect(fake.requests).toEqual([]);
  });

  it('is reported after 5 attempts, of a server that always fails', { timeout: 30_000 }, async () => {
    const { fake, store } = await openFakeStore();
    fake.fault = () => 'cut-before';
    await expect(store.read('x')).rejects.toMatchObject({
      code: 'TARGET_FAILED',
      recovery: 'retry',
      message: expect.stringMatching(/gave no answer in 5 attempts \(ECONNRESET\)/),
    });
    expect(fake.requests).toHaveLength(5);
  });

  it('is reported of a server that stops responding', async () => {
    const { fake, store } = await openFakeStore({ idleTimeoutMs: 40 });
    fake.fault = () => 'silence';
    await expect(store.read('x')).rejects.toMatchObject({ code: 'TARGET_FAILED', recovery: 'retry' });
  });

  it('is reported of an object that breaks off again and again', async () => {
    const { fake, store } = await openFakeStore();
    await store.replace('x', 'a');
    fake.fault = () => 'cut-within';
    await expect(store.read('x')).rejects.toMatchObject({ code: 'TARGET_FAILED', recovery: 'retry' });
    expect(fake.requests.length).toBeLessThan(10);
    // So does the answer that there is none.
    await expect(store.read('absent')).rejects.toMatchObject({ code: 'TARGET_FAILED', recovery: 'retry' });
  });

  it.each(['', '{"publication":1}\n'])(
    'is reported of a server that does not give the length of an object, asked once (%j)',
    async (text) => {
      const { fake, store } = await openFakeStore();
      await store.replace('x', text);
      fake.requests.length = 0;
      fake.fault = () => 'no-length';
      await expect(store.read('x')).rejects.toMatchObject({
        code: 'TARGET_FAILED',
        message: expect.stringMatching(
          /^Could not read s3:\/\/lake\/raw\/sync\/x: .*Content-Length/,
        ) as string,
      });
      expect(fake.requests).toHaveLength(1);
    },
  );

  it('is reported of an object that ends before its length again and again, however orderly', async () => {
    const signal = new AbortController().signal;
    const s3 = await openS3Client(fakePlace('http://127.0.0.1:1'), { signal, idleTimeoutMs: 1000 });
    onTestFinished(s3.close);
    let requests = 0;
    Reflect.set(s3.client, 'send', async () => {
      requests += 1;
      if (requests > 50) throw new Error('It asks for ever');
      return await Promise.resolve({ Body: Readable.from([]), ContentLength: 5, ETag: '"x"' });
    });
    await expect(readObject(s3, { Bucket: 'lake', Key: 'x' })).rejects.toMatchObject({
      code: 'TARGET_FAILED',
      recovery: 'retry',
      message: expect.stringContaining('s3://lake/x') as string,
    });
    expect(requests).toBe(3);
  });

  it('is reported of a server that does not speak S3', async () => {
    const server = createServer((_request, response) => response.end('<html><body>Welcome</body></html>'));
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    onTestFinished(() => void server.close());
    const { port } = server.address() as AddressInfo;
    const store = await openStore(fakePlace(`http://127.0.0.1:${port}`));
    await expect(namesIn(store, '')).rejects.toMatchObject({ code: 'TARGET_INCOMPATIBLE' });
  });

  it.each([
    ['more than the prefix', (name: string) => name.replace('raw/sync', 'raw/other')],
    ['names in no order', (name: string) => name.replace('/y', '/b')],
  ])('is reported of lists with %s', async (_what, rename) => {
    const { fake, store } = await openFakeStore();
    fake.pageSize = 1;
    await store.replace('x', '');
    await store.replace('y', '');
    fake.listed = rename;
    await expect(namesIn(store, '')).rejects.toMatchObject({ code: 'TARGET_INCOMPATIBLE', recovery: 'stop' });
  });

  it.runIf(isLong)('names the command that adds the SDK where that is missing', async () => {
    const hooks = `export async function resolve(name, context, next) {
      if (name.startsWith('@aws-sdk/')) throw Object.assign(new Error('none'), { code: 'ERR_MODULE_NOT_FOUND' });
      return await next(name, context);
    }`;
    const script = `
      import { register } from 'node:module';
      register('data:text/javascript,' + encodeURIComponent(${JSON.stringify(hooks)}));
      const { openS3Store } = await import('./src/publish/s3-store.ts');
      await openS3Store({}, {}).catch(({ code, message }) => console.log(code, message));`;
    const { stdout } = await run(process.execPath, ['--import', 'tsx', '--input-type=module', '-e', script]);
    expect(stdout).toMatch(/^PACKAGE_MISSING .*`npm install @aws-sdk\/client-s3`/);
  });

  // Proves promise 20.2
  it('holds no secret, and no word of the server', async () => {
    const { fake, store } = await openFakeStore();
    fake.fault = () => ({ status: 403, code: `Denied <${fakeKey.secretAccessKey}>` });
    const error = await store.replace('x', 'text').catch((failure: unknown) => failure);
    expect(error).toBeInstanceOf(SyncError);
    const all = inspect(error, { depth: null, showHidden: true });
    expect(all).not.toContain(fakeKey.secretAccessKey);
    expect(all).not.toContain('AWS4-HMAC');
    expect(all).not.toContain(fakeKey.accessKeyId);
  });
});

async function namesIn(store: ObjectStore, prefix: string): Promise<string[]> {
  const names: string[] = [];
  for await (const { name } of store.list(prefix)) names.push(name);
  return names;
}
