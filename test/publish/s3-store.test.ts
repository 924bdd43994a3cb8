import { createHash, randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { stat, utimes, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { buffer } from 'node:stream/consumers';
import { describe, expect, it } from 'vitest';
import { removeOld, type ObjectStore } from '../../src/publish/object-store.ts';
import { fakePlace, startFakeS3, type S3Fault, type S3Operation } from '../support/publish/fake-s3.ts';
import { useOwnTemp } from '../support/publish/own-temp.ts';
import { openFakeStore, openStore, realPlace } from '../support/publish/s3-place.ts';

const real = realPlace();

/** The shortest part that AWS takes. */
const realPartBytes = 5 * 1024 * 1024;

const minuteMs = 60_000;
const dayMs = 24 * 60 * minuteMs;

describe.each([
  {
    name: 'the fake',
    isSkipped: false,
    partBytes: 1000,
    open: async () => (await openFakeStore({ partBytes: 1000 })).store,
  },
  {
    name: 'a real endpoint',
    isSkipped: real === null,
    partBytes: realPartBytes,
    open: async () =>
      await openStore(real ?? fakePlace((await startFakeS3()).endpoint), { partBytes: realPartBytes }),
  },
])('a bucket of $name', ({ open, partBytes, isSkipped }) => {
  it.skipIf(isSkipped)('keeps what is written under names, and lists them in their order', async () => {
    const store = await open();
    for (const name of ['b/2', 'a', 'b/1', 'b/10', 'c/1']) await store.replace(name, `text of ${name}`);
    await store.replace('a', 'another');
    expect(await namesOf(store, '')).toEqual(['a', 'b/1', 'b/10', 'b/2', 'c/1']);
    expect(await namesOf(store, 'b/')).toEqual(['b/1', 'b/10', 'b/2']);
    expect(await namesOf(store, 'b/', 'b/1')).toEqual(['b/10', 'b/2']);
    expect(await store.sizes(['c/1', 'b/10', 'b', 'a'])).toEqual(
      new Map([
        ['a', 7],
        ['b/10', 12],
        ['c/1', 11],
      ]),
    );
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

  it.skipIf(isSkipped)('takes files of every length, in one piece or in parts', async () => {
    const store = await open();
    for (const bytes of [0, 1, partBytes, partBytes + 1]) {
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

  it('finds the sizes of many files by a few lists, however many others there are', async () => {
    const { fake, store } = await openFakeStore();
    fake.pageSize = 1_000;
    const nameOf = (entity: string, number: number): string =>
      `${entity}/${String(number).padStart(8, '0')}.csv`;
    const modifiedAtMs = Date.now();
    for (const entity of ['a', 'b', 'c']) {
      for (let number = 1; number <= 4_000; number += 1) {
        fake.objects.set(`raw/sync/${nameOf(entity, number)}`, { body: Buffer.alloc(number), modifiedAtMs });
      }
    }
    const wanted = ['a', 'c'].flatMap((entity) =>
      Array.from({ length: 50 }, (_none, index) => nameOf(entity, 2_000 + index)),
    );
    fake.objects.delete(`raw/sync/${nameOf('a', 2_010)}`);
    const sizes = await store.sizes([...wanted, 'd/1']);
    expect(sizes.size).toBe(99);
    expect(sizes.get(nameOf('c', 2_049))).toBe(2_049);
    expect(sizes.has(nameOf('a', 2_010))).toBe(false);
    expect(fake.requests.map(({ operation }) => operation)).toEqual(Array(fake.requests.length).fill('list'));
    expect(fake.requests.length).toBeLessThanOrEqual(5);
  });

  it('takes lists in the order of the bytes of their names, whatever others put there', async () => {
    const { fake, store } = await openFakeStore();
    fake.pageSize = 1;
    for (const name of ['\u{1F600}.txt', '\uFF01 note.txt', 'a']) await store.replace(name, '');
    expect(await namesOf(store, '')).toEqual(['a', '\uFF01 note.txt', '\u{1F600}.txt']);
    expect(await namesOf(store, '', '\uFF01 note.txt')).toEqual(['\u{1F600}.txt']);
  });

  it.each<[S3Operation, S3Fault]>([
    ['put', 'slow-down'],
    ['put', 'cut-before'],
    ['put', 'cut-after'],
    ['begin', 'slow-down'],
    ['part', 'cut-before'],
    ['part', 'cut-after'],
    ['complete', 'slow-down'],
    ['complete', 'cut-after'],
    ['complete', 'late'],
    ['list', 'cut-before'],
    ['list', 'cut-within'],
    ['get', 'slow-down'],
    ['get', 'cut-before'],
    ['get', 'cut-within'],
    ['delete', 'cut-after'],
  ])('recovers after a request to %s with the fault %s', async (operation, fault) => {
    const { fake, store } = await openFakeStore({ partBytes: 1000 });
    const staged = await stage(store, operation === 'put' ? 900 : 2500);
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
    expect(fake.uploads.size).toBe(0);
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

  it('asks once whether the server refuses to overwrite', async () => {
    const { fake, store } = await openFakeStore();
    await store.create('1', 'a');
    await store.create('2', 'b');
    expect(fake.requests.filter(({ key }) => key.endsWith('/_conditions'))).toHaveLength(2);
    const later = await openStore(fakePlace(fake.endpoint));
    await later.create('3', 'c');
    expect(fake.requests.filter(({ key }) => key.endsWith('/_conditions'))).toHaveLength(3);
  });

  it('gives up an upload that fails, and leaves no parts', async () => {
    const { fake, store } = await openFakeStore({ partBytes: 1000 });
    const staged = await stage(store, 5000);
    fake.fault = ({ operation }) =>
      operation === 'part' && fake.uploads.size > 0 && [...fake.uploads.values()][0]?.parts.size === 2
        ? { status: 403, code: 'AccessDenied' }
        : null;
    await expect(store.put('file', staged.path, staged)).rejects.toMatchObject({
      code: 'TARGET_FAILED',
      recovery: 'stop',
    });
    expect(fake.uploads.size).toBe(0);
    expect([...fake.objects.keys()]).toEqual(['raw/sync/_conditions']);
  });

  it('ends soon when it is aborted, and closes what it began', async () => {
    const ending = new AbortController();
    const { fake, store } = await openFakeStore({ partBytes: 1000, signal: ending.signal });
    const staged = await stage(store, 5000);
    fake.fault = ({ operation }) => {
      if (operation !== 'part') return null;
      setImmediate(() => ending.abort(new Error('stop')));
      return 'silence';
    };
    await expect(store.put('file', staged.path, staged)).rejects.toThrow('stop');
    expect(fake.uploads.size).toBe(0);
    await store[Symbol.asyncDispose]();
    expect(existsSync(path.dirname(staged.path))).toBe(false);
  });

  it('does not wait for the next attempt when it is aborted', async () => {
    const ending = new AbortController();
    const { fake, store } = await openFakeStore({ signal: ending.signal });
    fake.fault = () => {
      // The SDK waits now, and looks at no signal.
      setImmediate(() => ending.abort(new Error('stop')));
      return 'slow-down';
    };
    await expect(store.read('x')).rejects.toThrow('stop');
    expect(fake.requests).toHaveLength(1);
  });

  it('removes what a killed process has not ended, when it is old enough', async () => {
    useOwnTemp();
    const { fake, store } = await openFakeStore({ partBytes: 1000 });
    const killed = await openStore(fakePlace(fake.endpoint), { partBytes: 1000 });
    const staged = await stage(killed, 1500);
    fake.fault = ({ operation }) =>
      ['complete', 'abort'].includes(operation) ? { status: 403, code: 'AccessDenied' } : null;
    await expect(killed.put('file', staged.path, staged)).rejects.toThrow('AccessDenied');
    fake.fault = () => null;
    const old = { files: 2, bytes: 1500 };
    const none = { files: 0, bytes: 0 };
    const nowMs = Date.now() + minuteMs;
    expect(await removeOld(await store.leftovers(), ages(nowMs))).toEqual({ removed: none, waiting: old });
    expect(fake.uploads.size).toBe(1);
    await utimes(staged.path, 0, (Date.now() - dayMs) / 1000 - 1);
    const startedMs = nowMs - dayMs - 1;
    for (const [id, upload] of fake.uploads) fake.uploads.set(id, { ...upload, startedMs });
    expect(await removeOld(await store.leftovers(), { ...ages(nowMs), isDryRun: true })).toEqual({
      removed: old,
      waiting: none,
    });
    expect(fake.uploads.size).toBe(1);
    expect(await removeOld(await store.leftovers(), ages(nowMs))).toEqual({ removed: old, waiting: none });
    expect(fake.uploads.size).toBe(0);
    expect(existsSync(staged.path)).toBe(false);
  });

  it('goes by the clock of this machine where staged files of this machine are old', async () => {
    useOwnTemp();
    const { store } = await openFakeStore();
    const staged = await stage(await openFakeStore().then((other) => other.store), 10);
    expect(await removeOld(await store.leftovers(), ages(Date.now() + 2 * dayMs))).toMatchObject({
      removed: { files: 0 },
    });
    expect(existsSync(staged.path)).toBe(true);
  });

  it('continues where another prune removes the same upload', async () => {
    useOwnTemp();
    const { fake, store } = await openFakeStore();
    for (const id of ['1', '2', '3']) {
      fake.uploads.set(id, { key: `raw/sync/${id}`, startedMs: 0, parts: new Map() });
    }
    fake.fault = ({ operation, key }) => {
      if (operation === 'abort' && key.endsWith('1')) fake.uploads.delete('1');
      return null;
    };
    expect((await removeOld(await store.leftovers(), ages(Date.now()))).removed.bytes).toBe(0);
    expect(fake.uploads.size).toBe(0);
  });

  it('keeps files that wait for their upload to their owner', async () => {
    const { store } = await openFakeStore();
    const file = await store.stage('a/b');
    expect((await stat(path.dirname(file))).mode & 0o777).toBe(0o700);
  });
});

/** A day, where the server says that it is `nowMs`. */
function ages(nowMs: number): Parameters<typeof removeOld>[1] {
  return { ageMs: dayMs, now: () => Promise.resolve(nowMs), isDryRun: false };
}

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

function hashOf(content: Buffer): string {
  return createHash('sha256').update(content).digest('hex');
}
