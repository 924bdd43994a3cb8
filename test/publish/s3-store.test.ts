import { execFile, fork } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { stat, unlink, utimes, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import { buffer } from 'node:stream/consumers';
import { inspect, promisify } from 'node:util';
import { describe, expect, it, onTestFinished, vi, afterEach, beforeEach } from 'vitest';
import { SyncError } from '../../src/core/errors.ts';
import { removeOld, type ObjectStore, type Target } from '../../src/publish/target.ts';
import { testProgram } from '../support/ensure-built.ts';
import {
  fakePlace,
  startFakeS3,
  type S3Fault,
  type S3Operation,
  fakeKey,
  copyObjects,
  type FakeS3,
} from '../support/publish/fake-s3.ts';
import { allNamed, openPublishWorld, type PublishWorld } from '../support/publish/publish-world.ts';
import { useOwnTemp, openFakeStore, openStore, realPlace } from '../support/publish/s3-place.ts';
import { seededRandom } from '../support/seeded-random.ts';
import { isLong, hasMoreKills, repeats, startSeed } from '../support/trials.ts';

const real = realPlace();

const minuteMs = 60_000;
const dayMs = 24 * 60 * minuteMs;

describe.each([
  {
    name: 'the fake',
    isSkipped: false,
    open: async () => (await openFakeStore()).store,
  },
  {
    name: 'a real endpoint',
    isSkipped: real === null,
    open: async () => await openStore(real ?? fakePlace((await startFakeS3()).endpoint)),
  },
])('a bucket of $name', ({ open, isSkipped }) => {
  it.skipIf(isSkipped)('keeps what is written under names, and lists them in their order', async () => {
    const store = await open();
    for (const name of ['b/2', 'a', 'b/1', 'b/10', 'c/1']) await store.replace(name, `text of ${name}`);
    await store.replace('a', 'another');
    expect(await namesOf(store, '')).toEqual(['a', 'b/1', 'b/10', 'b/2', 'c/1']);
    expect(await namesOf(store, 'b/')).toEqual(['b/1', 'b/10', 'b/2']);
    expect(await namesOf(store, 'b/', 'b/1')).toEqual(['b/10', 'b/2']);
    const sizes = await store.sizes(['c/1', 'b/2', 'b/10', 'b', 'a', 'd/1']);
    expect(sizes).toEqual(new Map(Object.entries({ a: 7, 'b/10': 12, 'b/2': 11, 'c/1': 11 })));
    expect(String(await store.read('a'))).toBe('another');
    expect(await store.read('b')).toBeNull();
    await store.remove(['a', 'b/1', 'b/1', 'missing', 'b/10', 'b/2', 'c/1']);
    expect(await namesOf(store, '')).toEqual([]);
  });

  it.skipIf(isSkipped)('gives a name to one text only', async () => {
    const store = await open();
    expect(await store.create('1.json', 'mine')).toBe('created');
    expect(await store.create('1.json', 'other')).toBe('exists');
    expect(String(await store.read('1.json'))).toBe('mine');
    await store.remove(['1.json', '_conditions']);
  });

  it.skipIf(isSkipped)('takes files of every length', async () => {
    const store = await open();
    for (const bytes of [0, 1, 5_000_000]) {
      const staged = await stage(store, bytes);
      await store.put(`file-${bytes}`, staged.path, staged);
      expect(hashOf(await buffer(store.stream(`file-${bytes}`)))).toBe(staged.sha256);
      expect(existsSync(staged.path)).toBe(false);
    }
    await store.remove(await namesOf(store, ''));
  });
});

describe('a bucket', () => {
  it('reads lists of many pages', async () => {
    const { fake, store } = await openFakeStore();
    fake.pageSize = 3;
    const names = Array.from({ length: 10 }, (_, index) => `n/${index}`);
    for (const name of names) await store.replace(name, '');
    expect(await namesOf(store, 'n/')).toEqual(names);
    expect(await namesOf(store, 'n/', 'n/4')).toEqual(names.slice(5));
  });

  it('tells the sizes of many objects by one list for each folder', async () => {
    const { fake, store } = await openFakeStore();
    const names = Array.from({ length: 30 }, (_, index) => `${index % 2}/changes/${index}`);
    for (const name of names) await store.replace(name, name);
    const before = fake.requests.length;
    const sizes = await store.sizes(names);
    expect(sizes).toEqual(new Map(names.map((name) => [name, name.length])));
    expect(fake.requests.slice(before).map(({ operation }) => operation)).toEqual(['list', 'list']);
  });

  it.each<[S3Operation, S3Fault]>([
    ['put', 'slow-down'],
    ['put', 'cut-before'],
    ['put', 'cut-after'],
    ['put', 'late'],
    ['list', 'cut-before'],
    ['list', 'cut-within'],
    ['get', 'slow-down'],
    ['get', 'cut-before'],
    ['get', 'cut-within'],
    ['delete', 'cut-after'],
  ])('recovers after a request to %s with the fault %s', async (operation, fault) => {
    const { fake, store } = await openFakeStore();
    const staged = await stage(store, 2500);
    let faults = 0;
    fake.fault = (request) =>
      request.operation === operation && !request.key.endsWith('/_conditions') && faults++ === 0
        ? fault
        : null;
    await store.put('file', staged.path, staged);
    expect(await namesOf(store, '')).toEqual(['_conditions', 'file']);
    expect(hashOf(await buffer(store.stream('file')))).toBe(staged.sha256);
    await store.remove(['file']);
    expect([...fake.objects.keys()]).toEqual(['raw/sync/_conditions']);
    expect(faults).toBeGreaterThan(1);
  });

  // Proves promise 20.2
  it.each<S3Fault>(['cut-after', 'late', 'cut-before', 'slow-down'])(
    'knows its own text after an answer to its creation was lost (%s)',
    async (fault) => {
      const { fake, store } = await openFakeStore();
      let faults = 0;
      fake.fault = ({ key }) => (key.endsWith('1.json') && faults++ === 0 ? fault : null);
      expect(await store.create('1.json', 'mine')).toBe('created');
      expect(await store.create('1.json', 'other')).toBe('exists');
      expect(String(await store.read('1.json'))).toBe('mine');
    },
  );

  it('ends soon when it is aborted, and closes what it began', async () => {
    const ending = new AbortController();
    const { fake, store } = await openFakeStore({ signal: ending.signal });
    const staged = await stage(store, 5000);
    fake.fault = ({ operation }) => {
      if (operation !== 'put') return null;
      setImmediate(() => ending.abort(new Error('stop')));
      return 'silence';
    };
    await expect(store.put('file', staged.path, staged)).rejects.toThrow('stop');
    await store[Symbol.asyncDispose]();
    expect(existsSync(path.dirname(staged.path))).toBe(false);
  });

  it('removes what a killed process has not uploaded, when it is old enough', async () => {
    useOwnTemp();
    const { fake, store } = await openFakeStore();
    const killed = await openStore(fakePlace(fake.endpoint));
    const staged = await stage(killed, 1500);
    fake.fault = ({ operation }) => (operation === 'put' ? { status: 403, code: 'AccessDenied' } : null);
    await expect(killed.put('file', staged.path, staged)).rejects.toThrow('AccessDenied');
    const old = { files: 1, bytes: 1500 };
    const none = { files: 0, bytes: 0 };
    const nowMs = Date.now() + minuteMs;
    const prune = async (isDryRun: boolean) => await removeOld(await store.leftovers(), nowMs, isDryRun);
    expect(await prune(false)).toEqual({ removed: none, waiting: old });
    await utimes(staged.path, 0, (Date.now() - dayMs) / 1000 - 1);
    expect(await prune(true)).toEqual({ removed: old, waiting: none });
    expect(existsSync(staged.path)).toBe(true);
    expect(await prune(false)).toEqual({ removed: old, waiting: none });
    expect(existsSync(staged.path)).toBe(false);
  });

  it('uploads no file that something else has changed or removed', async () => {
    const { fake, store } = await openFakeStore();
    const staged = await stage(store, 1500);
    await writeFile(staged.path, 'short');
    await expectFailed(store.put('file', staged.path, staged), 'retry', /has 5 bytes, and 1500 were written/);
    await unlink(staged.path);
    await expectFailed(store.put('file', staged.path, staged), 'stop', /ENOENT/);
    expect([...fake.objects.keys()]).toEqual(['raw/sync/_conditions']);
  });

  it.runIf(isLong)(
    'reads files that are as long as those of a folder, from which they were copied',
    async () => {
      const { fake, store } = await openFakeStore();
      const body = Buffer.alloc(300 * 1024 * 1024);
      fake.objects.set('raw/sync/file', { body, modifiedAtMs: 0 });
      expect((await store.read('file'))?.length).toBe(body.length);
    },
  );

  it('keeps files that wait for their upload to their owner', async () => {
    const { store } = await openFakeStore();
    const file = await store.stage('a/b');
    expect((await stat(path.dirname(file))).mode & 0o777).toBe(0o700);
  });
});

async function namesOf(store: ObjectStore, prefix: string, after?: string): Promise<string[]> {
  const names: string[] = [];
  for await (const { name } of store.list(prefix, after)) names.push(name);
  return names;
}

async function stage(
  store: ObjectStore,
  bytes: number,
): Promise<{ readonly path: string; readonly bytes: number; readonly sha256: string }> {
  const content = randomBytes(bytes);
  const file = await store.stage('file');
  await writeFile(file, content);
  return { path: file, bytes, sha256: hashOf(content) };
}

async function expectFailed(work: Promise<unknown>, recovery: string, message = /./): Promise<void> {
  const failure = { code: 'TARGET_FAILED', recovery, message: expect.stringMatching(message) as string };
  await expect(work).rejects.toMatchObject(failure);
}

function hashOf(content: Buffer): string {
  return createHash('sha256').update(content).digest('hex');
}

const run = promisify(execFile);

describe('what goes wrong with a bucket', () => {
  it.each<[string, S3Fault, 'stop' | 'retry', RegExp]>([
    ['no bucket', { status: 404, code: 'NoSuchBucket' }, 'stop', /404 .*NoSuchBucket.*Create the bucket/],
    [
      'no right',
      { status: 403, code: 'AccessDenied' },
      'stop',
      /403 .*AccessDenied.* rights .*s3:ListBucket/,
    ],
    ['another key', { status: 403, code: 'SignatureDoesNotMatch' }, 'stop', /Check the access key/],
    ['a wrong clock', { status: 403, code: 'RequestTimeTooSkewed' }, 'stop', /clock of this machine/],
    [
      'another region',
      { status: 301, code: 'PermanentRedirect', headers: { 'x-amz-bucket-region': 'eu-central-1' } },
      'stop',
      /in the region eu-central-1\). Set `region` of the target/,
    ],
    [
      'a region that is not named',
      { status: 301, code: 'PermanentRedirect' },
      'stop',
      /Set `region` of the target/,
    ],
    ['what it cannot do', { status: 501, code: 'NotImplemented' }, 'stop', /501 .*NotImplemented/],
    ['an upload that was cut', { status: 400, code: 'RequestTimeout' }, 'retry', /400 .*RequestTimeout/],
  ])('is reported in words: %s', async (_name, fault, recovery, text) => {
    const { fake, store } = await openFakeStore();
    fake.fault = () => fault;
    const at = /^Could not write s3:\/\/lake\/raw\/sync\/x at 127\.0\.0\.1:\d+: .*/;
    await expectFailed(store.replace('x', 'text'), recovery, new RegExp(at.source + text.source));
  });

  it('is a folder for temporary files that does not exist: reported before anything is written', async () => {
    const { fake, store } = await openFakeStore();
    vi.stubEnv('TMPDIR', '/none');
    onTestFinished(() => void vi.unstubAllEnvs());
    for (const work of [store.stage('x'), store.leftovers()]) {
      await expect(work).rejects.toThrow(
        'a temporary folder that this user can write to, found none (/none)',
      );
    }
    expect(fake.requests).toEqual([]);
  });

  it('is reported after 5 attempts, of a server that always fails', { timeout: 30_000 }, async () => {
    const { fake, store } = await openFakeStore();
    fake.fault = () => 'cut-before';
    await expectFailed(store.read('x'), 'retry', /no answer came in up to 5 attempts \(ECONNRESET\)/);
    expect(fake.requests).toHaveLength(5);
  });

  it('is reported of a server that stops responding', async () => {
    const { fake, store } = await openFakeStore({ idleTimeoutMs: 40 });
    fake.fault = () => 'silence';
    await expectFailed(store.read('x'), 'retry');
  });

  it('is reported of an object that breaks off again and again', async () => {
    const { fake, store } = await openFakeStore();
    await store.replace('x', 'a');
    fake.fault = () => 'cut-within';
    await expectFailed(store.read('x'), 'retry');
    expect(fake.requests.length).toBeLessThan(10);
    // So does the answer that there is none.
    await expectFailed(store.read('absent'), 'retry');
  });

  it('is reported of a server that does not speak S3', async () => {
    const server = createServer((_request, response) => response.end('<html><body>Welcome</body></html>'));
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    onTestFinished(() => void server.close());
    const { port } = server.address() as AddressInfo;
    const store = await openStore(fakePlace(`http://127.0.0.1:${port}`));
    await expect(namesOf(store, '')).rejects.toMatchObject({ code: 'TARGET_INCOMPATIBLE' });
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
    await expect(namesOf(store, '')).rejects.toMatchObject({ code: 'TARGET_INCOMPATIBLE', recovery: 'stop' });
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
    expect(stdout).toMatch(/^PACKAGE_MISSING .*npm install @aws-sdk\/client-s3/);
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

describe('publications in a bucket', () => {
  const program = testProgram('publish/publisher-process.mjs');
  const noSignal = new AbortController().signal;

  let world: PublishWorld;
  let fake: FakeS3;

  beforeEach(async () => {
    world = openPublishWorld();
    fake = await startFakeS3();
  });

  afterEach(async () => {
    await world[Symbol.asyncDispose]();
    await fake[Symbol.asyncDispose]();
  });

  async function openTarget(idleTimeoutMs = 20_000): Promise<Target> {
    const store = await openStore(fakePlace(fake.endpoint), { idleTimeoutMs });
    return world.target(() => store);
  }

  /**
   * What a reader of the newest publication has, from a copy of the bucket. Throws where a file is torn, or a
   * change came twice.
   */
  async function seen(): Promise<{ readonly publication: number; readonly rows: object }> {
    copyObjects(fake, world.lake);
    return world.seen();
  }

  async function expectWhole(): Promise<void> {
    expect((await seen()).rows).toEqual(await world.stored());
    await using target = await openTarget();
    expect((await target.check(noSignal)).problems).toEqual([]);
  }

  let runs = 0;

  /** Some members. */
  async function change(random: () => number): Promise<void> {
    runs += 1;
    const size = 1 + Math.floor(random() * 12);
    await world.run({ upserts: allNamed(size, `Name ${runs}`), deletes: [`${size}`] });
  }

  const faults: readonly S3Fault[] = [
    'slow-down',
    'cut-before',
    'cut-after',
    'cut-within',
    'silence',
    'late',
  ];

  // Proves promise 20.2
  it(
    'are whole whatever happens to requests, and every change is in one of them',
    { timeout: 900_000 },
    async () => {
      const random = seededRandom(startSeed());
      const states: object[] = [];
      for (let round = 0; round < repeats('TRIALS', { share: 2, full: 150 }); round += 1) {
        await change(random);
        const sink = await world.stored();
        states.push(sink);
        // So many at times that all attempts of a request fail.
        const share = isLong && random() < 0.3 ? 0.6 : 0.1;
        fake.fault = () => (random() < share ? (faults[Math.floor(random() * faults.length)] ?? null) : null);
        const end = await world
          .publish({ isSnapshotAsked: random() < 0.2 }, await openTarget(100))
          .catch((error: unknown) => error);
        fake.fault = () => null;
        if (end instanceof Error) expect(end).toMatchObject({ code: 'TARGET_FAILED', recovery: 'retry' });
        else expect((await seen()).rows).toEqual(sink);
        const { publication, rows } = await seen();
        if (publication > 0) expect(states).toContainEqual(rows);
      }
      await world.publish({}, await openTarget());
      await expectWhole();
    },
  );

  // Proves promise 20.2
  it('of two publishers at once follow one another without a gap', { timeout: 900_000 }, async () => {
    const random = seededRandom(startSeed());
    fake.delayMs = () => random() * 3;
    let published = 0;
    for (let round = 0; round < repeats('TRIALS', { share: 2, full: 200 }); round += 1) {
      await change(random);
      const ends = await Promise.all(
        [await openTarget(), await openTarget()].map(async (target) => await world.publish({}, target)),
      );
      published += ends.filter(({ kind }) => kind === 'published').length;
      expect((await seen()).publication).toBe(published);
    }
    await expectWhole();
  });

  // Proves promise 20.2
  it.each(['overwrites', 'refuses the header'])(
    'are refused by a server that %s, before any file is there',
    async (how) => {
      if (how === 'overwrites') {
        fake.keepsConditions = false;
      } else {
        fake.fault = ({ headers }) =>
          headers['if-none-match'] === undefined ? null : { status: 501, code: 'NotImplemented' };
      }
      await change(seededRandom(startSeed()));
      const refused = {
        code: 'TARGET_INCOMPATIBLE',
        message: expect.stringContaining('If-None-Match') as string,
      };
      await expect(world.publish({}, await openTarget())).rejects.toMatchObject(refused);
      await using target = await openTarget();
      await expect(target.probe()).rejects.toMatchObject(refused);
      expect([...fake.objects.keys()].filter((key) => !key.endsWith('/_conditions'))).toEqual([]);
    },
  );

  // Proves promise 20.2
  it.runIf(hasMoreKills)('continue after publishers that were killed', { timeout: 900_000 }, async () => {
    const random = seededRandom(startSeed());
    const path = world.sink.type === 'sqlite' ? world.sink.path : '';
    for (let kill = 0; kill < repeats('KILLS', { share: 0, full: 60 }); kill += 1) {
      await change(random);
      const before = await seen();
      const sink = await world.stored();
      const child = fork(program, [path, fake.endpoint], {
        env: { ...process.env, TMPDIR: world.folder },
      });
      await once(child, 'message');
      const killAt = fake.requests.length + 1 + Math.floor(random() * 14);
      fake.fault = () => {
        if (fake.requests.length === killAt) child.kill('SIGKILL');
        return null;
      };
      const ended = Promise.race([once(child, 'exit'), once(child, 'message')]);
      child.send({ isSnapshotAsked: random() < 0.3 });
      await ended;
      child.kill('SIGKILL');
      fake.fault = () => null;
      const { publication, rows } = await seen();
      expect({ publication, rows }).toEqual(
        publication === before.publication ? before : { publication: before.publication + 1, rows: sink },
      );
    }
    await world.publish({}, await openTarget());
    await expectWhole();
  });
});
