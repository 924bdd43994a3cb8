import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { open } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import type { ObjectStore } from '../../src/publish/object-store.ts';
import type { Target } from '../../src/publish/target.ts';
import { hourMs } from '../contracts/sink/fixture.ts';
import { copyObjects, fakePlace, type FakeS3 } from '../support/publish/fake-s3.ts';
import { useOwnTemp } from '../support/publish/own-temp.ts';
import { openPublishWorld, type PublishWorld } from '../support/publish/publish-world.ts';
import { lakeManifests, unnamedFiles } from '../support/publish/read-lake.ts';
import { openFakeStore, openStore } from '../support/publish/s3-place.ts';

const noSignal = new AbortController().signal;
const dayMs = 24 * hourMs;
const none = { files: 0, bytes: 0 };
const changes = 'news/members/g1/changes';

let world: PublishWorld;

beforeEach(() => {
  world = openPublishWorld();
  // Ages of files are those of this machine.
  world.clock.advance(Date.now() - world.clock.now());
});

afterEach(async () => {
  await world[Symbol.asyncDispose]();
});

function setAge(name: string, ageMs: number): void {
  const at = (Date.now() - ageMs) / 1_000;
  utimesSync(join(world.lake, name), at, at);
}

/** Three bytes, as old as is asked. */
function leave(name: string, ageMs: number): void {
  mkdirSync(dirname(join(world.lake, name)), { recursive: true });
  writeFileSync(join(world.lake, name), '{}\n');
  setAge(name, ageMs);
}

const filesOfLake = (): readonly string[] =>
  readdirSync(world.lake, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(world.lake.length + 1))
    .toSorted();

/** Publishes into `target`, while `beside` is done just before the commit. */
async function publishBeside(
  beside: () => Promise<unknown>,
  open: (store: ObjectStore) => ObjectStore = (store) => store,
): Promise<void> {
  const wrap = (given: ObjectStore): ObjectStore => {
    const store = open(given);
    return {
      ...store,
      create: async (name, text) => {
        await beside();
        return await store.create(name, text);
      },
    };
  };
  await using publisher = world.target('jsonl', wrap);
  await world.publish({}, publisher);
}

async function expectWhole(target: Target, publications: number): Promise<void> {
  expect(await target.check(noSignal)).toMatchObject({ publications, problems: [] });
}

describe('the times that a prune goes by', () => {
  it.each<[string, () => void]>([
    ['a foreign file', () => leave('README.txt', -2 * dayMs)],
    [
      'a file of a publication',
      () => setAge(lakeManifests(world.lake)[0]?.entities[0]?.files[0]?.path ?? '', -2 * dayMs),
    ],
    ['a leftover', () => leave(`${changes}/00000009-0001-0a1b2c3d.jsonl`, -2 * dayMs)],
  ])(
    'are not those of %s whose time is ahead: a publication that is made keeps its files',
    async (_what, spoil) => {
      await world.run({ upserts: [['1', 'Ada']] });
      await world.publish();
      await world.run({ upserts: [['2', 'Bob']] });
      spoil();
      await using pruner = world.target();
      await publishBeside(async () => {
        expect(await pruner.prune(null, false)).toMatchObject({ publications: 0, ...none });
      });
      await expectWhole(pruner, 2);
    },
  );

  it('are those of the bucket, not of objects that others put there', async () => {
    useOwnTemp();
    const { fake, store } = await openFakeStore();
    await using pruner = world.target('jsonl', () => store);
    await world.run({ upserts: [['1', 'Ada']] });
    await world.publish({}, pruner);
    await world.run({ upserts: [['2', 'Bob']] });
    fake.objects.set('raw/sync/README', { body: Buffer.alloc(1), modifiedAtMs: Date.now() + 2 * dayMs });
    const second = await openStore(fakePlace(fake.endpoint));
    await publishBeside(
      async () => {
        expect((await pruner.prune(null, false)).files).toBe(0);
      },
      () => second,
    );
    await expectWhole(pruner, 2);
    expect(unnamedIn(fake)).toEqual(['README', '_conditions']);
  });

  it('are those of a temporary file before the first publication, which is removed afterwards', async () => {
    const [old, young] = [
      `${changes}/00000001-0001-0a1b2c3d.jsonl`,
      `${changes}/00000001-0002-0a1b2c3d.jsonl`,
    ];
    leave(old, 25 * hourMs);
    leave(young, hourMs);
    leave('README.txt', -2 * dayMs);
    await using target = world.target();
    const counts = { publications: 0, files: 1, bytes: 3, waiting: { files: 1, bytes: 3 } };
    expect(await target.prune(null, true)).toEqual(counts);
    expect(await target.prune(null, false)).toEqual(counts);
    expect(filesOfLake()).toEqual(['README.txt', young]);
  });

  it('are not asked for where nothing was left', async () => {
    await using target = world.target();
    expect(await target.prune(null, false)).toEqual({ publications: 0, ...none, waiting: none });
    expect(existsSync(world.lake)).toBe(false);
  });

  it('are asked for without a word of an older publication to those who wait for the newest', async () => {
    await world.run({ upserts: [['1', 'Ada']] });
    await world.publish();
    leave(`${changes}/00000009-0001-0a1b2c3d.jsonl`, 2 * dayMs);
    await world.run({ upserts: [['2', 'Bob']] });
    let isPublished = false;
    const beside = (store: ObjectStore): ObjectStore => ({
      ...store,
      list: async function* (prefix, after) {
        yield* store.list(prefix, after);
        if (prefix !== '' || isPublished) return;
        isPublished = true;
        await world.publish();
      },
    });
    await using target = world.target('jsonl', beside);
    expect((await target.prune(null, false)).files).toBe(1);
    expect(JSON.parse(readFileSync(join(world.lake, '_latest.json'), 'utf8'))).toMatchObject({
      publication: 2,
    });
  });

  it('remove nothing where the list does not show what was just written', async () => {
    await world.run({ upserts: [['1', 'Ada']] });
    await world.publish();
    leave(`${changes}/00000009-0001-0a1b2c3d.jsonl`, 2 * dayMs);
    const blind = (store: ObjectStore): ObjectStore => ({
      ...store,
      list: async function* (prefix, after) {
        for await (const object of store.list(prefix, after)) {
          if (object.name !== '_latest.json') yield object;
        }
      },
    });
    await using target = world.target('jsonl', blind);
    expect(await target.prune(null, false)).toMatchObject({ ...none, waiting: { files: 1, bytes: 3 } });
  });
});

describe('a dry run', () => {
  it('counts what a prune removes, and what waits', async () => {
    for (const name of ['Ada', 'Bob', 'Cy']) {
      await world.run({ upserts: [['1', name]] });
      await world.publish({ isSnapshotAsked: true });
    }
    world.clock.advance(1);
    // Nothing was written for two days.
    for (const name of filesOfLake()) setAge(name, 2 * dayMs);
    leave(`${changes}/00000004-0001-0a1b2c3d.jsonl`, 30 * hourMs);
    leave(`${changes}/.00000004-0001-0a1b2c3d.jsonl.staged.partial`, 30 * hourMs);
    leave(`${changes}/00000004-0001-00000000.jsonl`, hourMs);
    leave(`${changes}/.00000004-0002-00000000.jsonl.staged.partial`, hourMs);
    const before = filesOfLake();
    await using target = world.target();
    const dry = await target.prune(world.clock.now(), true);
    expect(filesOfLake()).toEqual(before);
    expect(dry).toMatchObject({ publications: 2, files: 6 + 2, waiting: { files: 2, bytes: 6 } });
    expect(await target.prune(world.clock.now(), false)).toEqual(dry);
    expect(unnamedFiles(world.lake)).toHaveLength(2);
    await expectWhole(target, 1);
  });
});

describe('a prune of leftovers', () => {
  // Proves promise 10.6
  it('removes at once what killed prunes and attempts left of publications that are made', async () => {
    await world.run({ upserts: [['1', 'Ada']] });
    await world.publish();
    for (const number of [1, 2]) {
      leave(`${changes}/0000000${number}-0001-0a1b2c3d.jsonl`, 0);
      leave(`${changes}/.0000000${number}-0001-0a1b2c3e.jsonl.staged.partial`, 0);
    }
    await using target = world.target();
    expect(await target.prune(world.clock.now(), false)).toMatchObject({
      files: 2,
      waiting: { files: 2, bytes: 6 },
    });
    expect(unnamedFiles(world.lake)).toEqual([
      expect.stringContaining('.00000002'),
      expect.stringContaining('/00000002'),
    ]);
    await expectWhole(target, 1);
  });
});

describe('a prune of a folder', () => {
  it.skipIf(!existsSync('/proc/self/fd'))(
    'has the loss of a manifest on the disk before files of it go',
    async () => {
      for (const name of ['Ada', 'Bob', 'Cy']) {
        await world.run({ upserts: [['1', name]] });
        await world.publish({ isSnapshotAsked: true });
      }
      world.clock.advance(1);
      const files = lakeManifests(world.lake)
        .slice(0, 2)
        .flatMap(({ entities }) => entities.flatMap((one) => one.files.map(({ path }) => path)));
      const synced: string[] = [];
      await onSync((path) => {
        const left = files.filter((name) => existsSync(join(world.lake, name)));
        synced.push(`${path}: ${lakeManifests(world.lake).length} manifests, ${left.length} files`);
      });
      await using target = world.target();
      await target.prune(world.clock.now(), false);
      expect(synced.slice(0, 2)).toEqual([
        '_publications: 2 manifests, 4 files',
        '_publications: 1 manifests, 4 files',
      ]);
      // Each folder once.
      const folders = ['members', 'member_opens'].flatMap((entity) =>
        ['changes', 'snapshot'].map((kind) => `news/${entity}/g1/${kind}`),
      );
      expect(
        synced
          .slice(2)
          .filter((text) => text.startsWith('news/'))
          .toSorted(),
      ).toEqual(folders.map((folder) => `${folder}: 1 manifests, 0 files`).toSorted());
    },
  );
});

/** Calls `note` with the path of each file and folder of the lake when it is synced. */
async function onSync(note: (path: string) => void): Promise<void> {
  await using some = await open(import.meta.filename);
  const prototype = Object.getPrototypeOf(some) as typeof some;
  const sync: () => Promise<void> = Reflect.get(prototype, 'sync');
  const spy = vi.spyOn(prototype, 'sync').mockImplementation(async function (this: typeof some) {
    note(readlinkSync(`/proc/self/fd/${this.fd}`).slice(world.lake.length + 1));
    await sync.call(this);
  });
  onTestFinished(() => {
    spy.mockRestore();
  });
}

/** What a copy of the bucket has that no manifest names. */
function unnamedIn(fake: FakeS3): readonly string[] {
  copyObjects(fake, world.lake);
  expect(readFileSync(join(world.lake, '_latest.json'), 'utf8')).toContain('"publication":2');
  return unnamedFiles(world.lake).toSorted();
}
