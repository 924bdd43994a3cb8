import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  utimesSync,
  writeFileSync,
  readFileSync,
  cpSync,
  readlinkSync,
} from 'node:fs';
import { open } from 'node:fs/promises';
import { join, dirname } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import {
  manifestText,
  readManifest,
  type Manifest,
  type StoredManifest,
} from '../../src/publish/manifest.ts';
import { lostObjects, manifestName } from '../../src/publish/object-target.ts';
import { readTargetState } from '../../src/publish/publication.ts';
import type { ObjectStore, Target } from '../../src/publish/target.ts';
import { hourMs, members } from '../contracts/sink/fixture.ts';
import { copyObjects, fakePlace, type FakeS3 } from '../support/publish/fake-s3.ts';
import { publish, stored as storedState } from '../support/publish/plans.ts';
import { openPublishWorld, type PublishWorld } from '../support/publish/publish-world.ts';
import { useOwnTemp, openFakeStore, openStore } from '../support/publish/s3-place.ts';
import { mountDisk } from '../support/small-disk.ts';
import { isLong } from '../support/trials.ts';

const noSignal = new AbortController().signal;
const dayMs = 24 * hourMs;

let world: PublishWorld;

beforeEach(() => {
  world = openPublishWorld();
  // Ages of files are those of this machine.
  world.clock.advance(Date.now() - world.clock.now());
});

afterEach(async () => {
  if (existsSync(world.lake)) chmodSync(world.lake, 0o700);
  await world[Symbol.asyncDispose]();
});

async function publishRuns(count: number): Promise<void> {
  for (let run = 1; run <= count; run += 1) {
    await world.run({
      upserts: { 1: `Ada ${world.clock.now()}`, [`new ${run}`]: 'Bob' },
      deletes: [`new ${run - 1}`],
    });
    await world.publish();
  }
}

/** Publishes a snapshot for each name. */
async function publishSnapshots(...names: readonly string[]): Promise<void> {
  for (const name of names) {
    await world.run({ upserts: { 1: name } });
    await world.publish({ isSnapshotAsked: true });
  }
}

const manifestOf = (publication: number): string => join(world.lake, manifestName(publication));

/** The first file of the members. */
function fileOf(publication: number): string {
  const entity = world.manifests()[publication - 1]?.entities.find((one) => one.entity === members);
  return join(world.lake, entity?.files[0]?.path ?? '');
}

const none = { files: 0, bytes: 0 };
const changes = 'news/members/g1/changes';

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

/** Every file of the lake, by its path, with its mode. */
function modes(): readonly string[] {
  return readdirSync(world.lake, { recursive: true, encoding: 'utf8' })
    .map((name) => statSync(join(world.lake, name)))
    .map((stats) => (stats.mode & 0o777).toString(8));
}

describe('a check', () => {
  // Proves promise 20.7
  it('counts what is there and finds each kind of damage', async () => {
    await publishRuns(4);
    await using target = world.target();
    expect(await target.check(noSignal)).toMatchObject({
      publications: 4,
      files: 8,
      rows: 19,
      problems: [],
    });
    const [first, second, third, fourth] = [1, 2, 3, 4].map(fileOf);
    const bytes = readFileSync(second ?? '');
    writeFileSync(second ?? '', Buffer.from(bytes.map((byte, at) => (at === 20 ? byte ^ 1 : byte))));
    truncateSync(third ?? '', 10);
    rmSync(fourth ?? '');
    expect(existsSync(first ?? '')).toBe(true);
    expect((await world.problems()).map((text) => text.replace(/news\/.*?jsonl/, 'it'))).toEqual([
      'publication 2: it has another content than was published',
      expect.stringMatching(/^publication 3: it has 10 bytes, expected \d+$/),
      'publication 4: it is missing',
    ]);
  });

  it('finds a manifest that is missing, or was changed after the next one named it', async () => {
    await publishRuns(4);
    const text = readFileSync(manifestOf(2), 'utf8');
    writeFileSync(manifestOf(2), text.replace('"here"', '"there"'));
    expect(await world.problems()).toEqual([
      expect.stringContaining('publication 2 was changed after publication 3 named its hash') as string,
    ]);
    rmSync(manifestOf(3));
    expect(await world.problems()).toEqual(['publication 3 is missing']);
    rmSync(manifestOf(4));
    expect(await world.problems()).toEqual([
      'publications 3 to 4 are missing: _latest.json names 4 as the newest',
    ]);
    // Readers know 3 and 4 already, and would not look at others of these numbers.
    await world.refused(/0004\.json is gone.*remove _latest\.json and publish with --new-gen/);
    expect(world.manifests()).toHaveLength(2);
    rmSync(join(world.lake, '_latest.json'));
    await world.publish({ isNewGenerationAsked: true });
    expect(await world.problems()).toEqual([]);
    writeFileSync(manifestOf(2), text.replace('"format": 1', '"format": 2'));
    await expect(world.problems()).rejects.toMatchObject({ code: 'TARGET_INCOMPATIBLE' });
  });

  it('refuses a manifest that has the name of another publication', async () => {
    await publishRuns(2);
    writeFileSync(manifestOf(2), readFileSync(manifestOf(1)));
    const says = /0002\.json is not a manifest that this version reads: it says that it is publication 1/;
    await expect(world.problems()).rejects.toThrow(says);
    await world.refused(says);
  });

  // Proves promise 1.7
  it('refuses a manifest of another version, and says what is missing in it', async () => {
    await publishRuns(1);
    const { entities, ...rest } = JSON.parse(readFileSync(manifestOf(1), 'utf8')) as {
      entities: { layout?: string }[];
    };
    const older = entities.map(({ layout: _layout, ...entity }) => entity);
    writeFileSync(manifestOf(1), JSON.stringify({ ...rest, entities: older }));
    const before = readFileSync(manifestOf(1), 'utf8');
    await world.refused(
      /0001\.json is not a manifest that this version reads: entities\.0\.layout: Invalid input: expected string.* keep all of it and publish to another place/,
    );
    expect(readFileSync(manifestOf(1), 'utf8')).toBe(before);
  });
});

describe('a prune', () => {
  // Proves promise 20.7
  it('keeps what readers of the kept publications need, and the chain begins with the oldest of these', async () => {
    await publishRuns(3);
    await world.run({ upserts: { x: 'Xena' } });
    await world.publish({ isSnapshotAsked: true });
    await publishRuns(1);
    // Publication 5 was the newest one then, and its readers begin with 4.
    world.clock.advance(1);
    const keepFrom = world.clock.now();
    world.clock.advance(hourMs);
    await publishRuns(1);
    await using target = world.target();
    const before = world.manifests();
    const dry = await target.prune(keepFrom, true);
    expect(world.manifests()).toEqual(before);
    expect(await target.prune(keepFrom, false)).toEqual({ ...dry, publications: 3, files: 6 });
    expect(world.manifests().map(({ publication }) => publication)).toEqual([4, 5, 6]);
    expect(await world.problems()).toEqual([]);
    expect(world.unnamed()).toEqual([]);
    expect(world.seen()).toEqual({ publication: 6, rows: await world.stored() });
    expect(await target.prune(keepFrom, false)).toMatchObject({ publications: 0, files: 0, bytes: 0 });
    await publishRuns(1);
    expect(await world.problems()).toEqual([]);
  });

  it('keeps the publication that was the newest when the kept time begins', async () => {
    await publishRuns(1);
    for (const name of ['Xena', 'Yuri']) {
      await publishSnapshots(name);
      world.clock.advance(hourMs);
    }
    await using target = world.target();
    expect(await target.prune(world.clock.now() - hourMs, false)).toMatchObject({ publications: 1 });
    expect(world.manifests().map(({ publication }) => publication)).toEqual([2, 3]);
    expect(await world.problems()).toEqual([]);
  });

  it('comes with the first publication of a day, and its failure only warns', async () => {
    const settings = world.settings({ snapshotEveryMs: dayMs, keepMs: dayMs });
    for (let day = 0; day < 3; day += 1) {
      await world.run({ upserts: { 1: `Ada ${day}` } });
      await world.publish({ settings });
      world.clock.advance(dayMs);
    }
    expect(world.manifests().map(({ publication }) => publication)).toEqual([2, 3]);
    await world.run({ upserts: { 1: 'Ada' } });
    const target = world.target(() => ({ remove: () => Promise.reject(new Error('no right to remove')) }));
    expect(await world.publish({ settings }, target)).toMatchObject({
      kind: 'published',
      warnings: ['Old publications and leftovers of target lake could not be removed: no right to remove'],
    });
    expect(await world.problems()).toEqual([]);
  });

  // Proves promise 20.7
  it('removes what killed publishers left, with the first publication of a day, also where everything is kept', async () => {
    await publishRuns(3);
    // Of publications that others made then, and of one that is still to come.
    const left = [1, 2, 2, 9].map(
      (number, index) => `${changes}/0000000${number}-000${index + 1}-0a1b2c3d.jsonl`,
    );
    for (const name of left) leave(name, 25 * hourMs);
    const reads: string[] = [];
    await publishRuns(1);
    expect(world.unnamed()).toEqual(left);
    world.clock.advance(dayMs);
    await world.run({ upserts: { 1: 'Eve' } });
    expect(await world.publish()).toMatchObject({ kind: 'published', warnings: [] });
    expect(world.unnamed()).toEqual([]);
    expect(world.manifests().map(({ publication }) => publication)).toEqual([1, 2, 3, 4, 5]);
    expect(await world.problems()).toEqual([]);
    await using target = world.target((store) => ({
      read: async (name) => {
        reads.push(name);
        return await store.read(name);
      },
    }));
    await target.prune(null, true);
    expect(reads).toEqual([]);
  });

  // Proves promise 20.7
  it('removes what killed publishers left after a day, and nothing that others put there', async () => {
    await publishRuns(1);
    const left = ['00000002-0001-0a1b2c3d.jsonl', '.00000002-0001-0a1b2c3d.jsonl.staged.partial'];
    const foreign = ['notes.jsonl', '00000002-0001.jsonl', '.hidden'];
    for (const name of [...left, ...foreign]) leave(`${changes}/${name}`, 0);
    await using target = world.target();
    expect((await target.prune(null, false)).files).toBe(0);
    for (const name of [...left, ...foreign]) setAge(`${changes}/${name}`, 25 * hourMs);
    expect(await target.prune(null, false)).toMatchObject({ publications: 0, files: 2, bytes: 6 });
    expect(world.unnamed()).toEqual(foreign.map((name) => `${changes}/${name}`).toSorted());
  });
});

describe('a commit', () => {
  // Proves promise 20
  it('whose answer was lost, and that is there, is a publication', async () => {
    await world.run({ upserts: { 1: 'Ada' } });
    const again = world.target((store) => ({
      create: async (...given) => {
        await store.create(...given);
        return await store.create(...given);
      },
    }));
    expect((await world.publish({}, again)).kind).toBe('published');
    expect(await world.problems()).toEqual([]);
  });

  // Proves promise 20
  it('whose outcome is unknown removes no file', async () => {
    await world.run({ upserts: { 1: 'Ada' } });
    const lost = world.target((store) => ({
      create: async (...given) => {
        await store.create(...given);
        throw new Error('connection reset');
      },
    }));
    await expect(world.publish({}, lost)).rejects.toThrow('connection reset');
    expect(await world.problems()).toEqual([]);
    expect((await world.publish()).kind).toBe('unchanged');
  });

  it('comes too late after 20 hours: its files may be gone by then', async () => {
    await world.run({ upserts: { 1: 'Ada' } });
    const onProgress = (): void => {
      world.clock.advance(11 * hourMs);
    };
    await expect(world.publish({ onProgress })).rejects.toMatchObject({ code: 'TARGET_FAILED' });
    expect(world.unnamed()).toEqual([]);
  });
});

describe('a folder', () => {
  // Proves promise 20.7
  it("is its owner's alone, whatever the umask", async () => {
    const before = process.umask(0);
    try {
      await publishRuns(1);
    } finally {
      process.umask(before);
    }
    expect(new Set(modes())).toEqual(new Set(['700', '600']));
  });

  it('finds its newest publication also where the note of it is old, or says nothing', async () => {
    await publishRuns(2);
    for (const text of ['{"publication": 1}', 'nonsense', '{"publication": 1e99}']) {
      writeFileSync(join(world.lake, '_latest.json'), text);
      await using target = world.target();
      expect((await target.newest())?.manifest.publication).toBe(2);
    }
  });

  // Proves promise 20.7
  it.each<[what: string, spoil: (lake: string) => void, isLink?: true]>([
    ['is a file', (lake) => writeFileSync(lake, '')],
    ['has a link in place of a folder', (lake) => linkElsewhere(join(lake, 'news')), true],
    ['has a link in place of its manifests', (lake) => linkElsewhere(join(lake, '_publications')), true],
    [
      'has a file in place of a folder',
      (lake) => {
        mkdirSync(lake);
        writeFileSync(join(lake, 'news'), '');
      },
    ],
  ])('that %s is refused, and says what to do', async (_what, spoil, isLink) => {
    await world.run({ upserts: { 1: 'Ada' } });
    spoil(world.lake);
    await world.refused(/expected a folder\. Remove it, or publish to another folder\.$/);
    if (isLink === true) expect(readdirSync(join(world.lake, 'elsewhere'))).toEqual([]);
  });

  function linkElsewhere(path: string): void {
    mkdirSync(join(world.lake, 'elsewhere'), { recursive: true });
    symlinkSync(join(world.lake, 'elsewhere'), path);
  }

  it.skipIf(process.getuid?.() === 0)('that is read-only is refused', async () => {
    await world.run({ upserts: { 1: 'Ada' } });
    mkdirSync(world.lake, { mode: 0o500 });
    await expect(world.publish()).rejects.toMatchObject({ code: 'TARGET_FAILED' });
  });

  it.skipIf(!isLong)(
    'that is on a full disk is refused, and published to when there is room',
    async ({ skip }) => {
      await world.run({ upserts: { 1: 'Ada' } });
      using disk = mountDisk(world.lake, '256m', skip);
      disk.fill();
      await world.refused(/No space is left/, { code: 'TARGET_FAILED' });
      disk.free();
      expect(world.unnamed()).toEqual([]);
      await world.publish();
      expect(await world.problems()).toEqual([]);
    },
  );
});

/** Six publications, of which a prune keeps the last three. */
async function publishSix(): Promise<void> {
  for (let run = 1; run <= 6; run += 1) {
    await world.run({ upserts: { 1: `Ada ${run}` } });
    await world.publish({ isSnapshotAsked: run === 4 });
  }
}

/** Does `beside` before call number `at` that reads something, and before no other; `calls` counts them. */
function interrupted(at: number, beside: () => Promise<unknown>, calls: { count: number }) {
  const step = async (): Promise<void> => {
    calls.count += 1;
    if (calls.count === at) await beside();
  };
  return (store: ObjectStore): Partial<ObjectStore> => ({
    read: async (name) => {
      await step();
      return await store.read(name);
    },
    stream: async function* (name) {
      await step();
      yield* store.stream(name);
    },
  });
}

const filesOf = (publication: string): readonly string[] =>
  readdirSync(world.lake, { recursive: true, encoding: 'utf8' }).filter((name) =>
    name.includes(`/${publication}-`),
  );

describe('a check', () => {
  it('beside a prune finds no damage, whenever that comes', async () => {
    await publishSix();
    const copy = join(world.folder, 'copy');
    cpSync(world.lake, copy, { recursive: true, preserveTimestamps: true });
    const prune = async (): Promise<void> => {
      await using pruner = world.target();
      expect(await pruner.prune(world.clock.now(), false)).toMatchObject({ publications: 3 });
    };
    const calls = { count: Infinity };
    for (let at = 1; at <= calls.count; at += 1) {
      rmSync(world.lake, { recursive: true });
      cpSync(copy, world.lake, { recursive: true, preserveTimestamps: true });
      calls.count = 0;
      await using target = world.target(interrupted(at, prune, calls));
      const check = await target.check(noSignal);
      expect({ at, problems: check.problems }).toEqual({ at, problems: [] });
      expect([3, 6]).toContain(check.publications);
    }
    expect(calls.count).toBeGreaterThan(15);
  });

  it('finds what something else removes while it reads', async () => {
    await publishSix();
    const lost = filesOf('00000002')[0] ?? '';
    const removed = [
      {
        remove: async () => rmSync(join(world.lake, manifestName(3))),
        problems: ['publication 3 is missing'],
      },
      {
        remove: async () => rmSync(join(world.lake, lost)),
        problems: [`publication 2: ${lost} is missing`, 'publication 3 is missing'],
      },
    ];
    for (const { remove, problems } of removed) {
      // The first publication is being read.
      await using target = world.target(interrupted(2, remove, { count: 0 }));
      expect((await target.check(noSignal)).problems).toEqual(problems);
    }
  });

  it('finds what is lost of the publications that a prune leaves while it reads', async () => {
    await publishSix();
    const prune = async (): Promise<void> => {
      await using pruner = world.target();
      await pruner.prune(world.clock.now(), false);
      rmSync(join(world.lake, manifestName(4)));
    };
    // The first publication is being read.
    await using target = world.target(interrupted(2, prune, { count: 0 }));
    const { problems } = await target.check(noSignal);
    expect(problems).toContain(
      'news/members is read from publication 4 on, and 5 is the oldest that remains',
    );
  });

  it('gives up where publications are removed again and again, instead of restarting for ever', async () => {
    await publishSix();
    let reads = 0;
    await using target = world.target((store) => ({
      stream: async function* () {},
      read: async (name) =>
        name.startsWith('_publications/') && reads++ % 2 === 1 ? null : await store.read(name),
    }));
    await expect(target.check(noSignal)).rejects.toMatchObject({
      code: 'TARGET_FAILED',
      recovery: 'retry',
    });
    expect(reads).toBeLessThan(100);
  });
});

const filesOfLake = (): readonly string[] =>
  readdirSync(world.lake, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(world.lake.length + 1))
    .toSorted();

/** Publishes, while `beside` is done just before the commit. */
async function publishBeside(beside: () => Promise<unknown>, other?: ObjectStore): Promise<void> {
  await using publisher = world.target((own) => ({
    ...other,
    create: async (name, text) => {
      await beside();
      return await (other ?? own).create(name, text);
    },
  }));
  await world.publish({}, publisher);
}

async function expectWhole(target: Target, publications: number): Promise<void> {
  expect(await target.check(noSignal)).toMatchObject({ publications, problems: [] });
}

describe('a prune beside a publication', () => {
  it.each<[string, () => void]>([
    ['a foreign file', () => leave('README.txt', -2 * dayMs)],
    ['a file of a publication', () => setAge(fileOf(1).slice(world.lake.length + 1), -2 * dayMs)],
    ['a leftover', () => leave(`${changes}/00000009-0001-0a1b2c3d.jsonl`, -2 * dayMs)],
  ])('leaves its files, also where the time of %s is ahead', async (_what, spoil) => {
    await world.run({ upserts: { 1: 'Ada' } });
    await world.publish();
    await world.run({ upserts: { 2: 'Bob' } });
    spoil();
    await using pruner = world.target();
    await publishBeside(async () => {
      expect(await pruner.prune(null, false)).toMatchObject({ publications: 0, ...none });
    });
    await expectWhole(pruner, 2);
  });

  it('leaves those of a bucket, and objects that others put there', async () => {
    useOwnTemp();
    const { fake, store } = await openFakeStore();
    await using pruner = world.target(() => store);
    await world.run({ upserts: { 1: 'Ada' } });
    await world.publish({}, pruner);
    await world.run({ upserts: { 2: 'Bob' } });
    fake.objects.set('raw/sync/README', { body: Buffer.alloc(1), modifiedAtMs: Date.now() - 2 * dayMs });
    const second = await openStore(fakePlace(fake.endpoint));
    await publishBeside(async () => {
      expect((await pruner.prune(null, false)).files).toBe(0);
    }, second);
    await expectWhole(pruner, 2);
    expect(unnamedIn(fake)).toEqual(['README', '_conditions']);
  });
});

describe('a dry run', () => {
  it('counts what a prune removes, and what waits', async () => {
    await publishSnapshots('Ada', 'Bob', 'Cy');
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
    expect(world.unnamed()).toHaveLength(2);
    await expectWhole(target, 1);
  });
});

describe('a prune of leftovers', () => {
  // Proves promise 10.6
  it('removes at once what killed prunes and attempts left of publications that are made', async () => {
    await world.run({ upserts: { 1: 'Ada' } });
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
    expect(world.unnamed()).toEqual([
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
      await publishSnapshots('Ada', 'Bob', 'Cy');
      world.clock.advance(1);
      const files = world
        .manifests()
        .slice(0, 2)
        .flatMap(({ entities }) => entities.flatMap((one) => one.files.map(({ path }) => path)));
      const synced: string[] = [];
      await onSync((path) => {
        const left = files.filter((name) => existsSync(join(world.lake, name)));
        synced.push(`${path}: ${world.manifests().length} manifests, ${left.length} files`);
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
  return world.unnamed();
}

async function expectReadable(): Promise<void> {
  expect(world.seen().rows).toEqual(await world.stored());
}

describe('a publication that continues what the target has lost', () => {
  // Proves promise 20.1
  it.each<[string, () => void, RegExp]>([
    ['the first manifest', () => rmSync(manifestOf(1)), /publication 1 is missing/],
    ['a manifest in the middle', () => rmSync(manifestOf(2)), /publication 2 is missing/],
    [
      'two manifests',
      () => {
        rmSync(manifestOf(2));
        rmSync(manifestOf(3));
      },
      /publications 2 to 3 are missing/,
    ],
    ['a file', () => rmSync(fileOf(2)), /00000002-\S+ is missing/],
    ['a file of the newest one', () => rmSync(fileOf(4)), /00000004-\S+ is missing/],
    ['the end of a file', () => truncateSync(fileOf(3), 10), /00000003-\S+ has 10 bytes, expected \d+/],
    [
      'the original text of a manifest',
      () => writeFileSync(manifestOf(3), readFileSync(manifestOf(3), 'utf8').replace('"here"', '"there"')),
      /publication 3 was changed after publication 4 named its hash/,
    ],
  ])('is refused without %s, with the command that heals it', async (_what, lose, says) => {
    await publishRuns(4);
    lose();
    const refusal = {
      code: 'TARGET_INCOMPATIBLE',
      message: expect.stringMatching(
        new RegExp(`${says.source}.* connector-sync publish lake --new-generation$`),
      ) as string,
    };
    // Also while nothing has changed, and by a look at the state.
    await expect(world.publish()).rejects.toMatchObject(refusal);
    await world.run({ upserts: { 2: 'Bob' } });
    await expect(world.publish()).rejects.toMatchObject(refusal);
    await using target = world.target();
    const settings = world.settings();
    expect((await readTargetState(target, { settings, clock: world.clock })).refusal).toMatchObject(refusal);
    expect(world.manifests().at(-1)?.publication).toBe(4);
    expect(await world.publish({ isNewGenerationAsked: true })).toMatchObject({ kind: 'published' });
    await expectReadable();
    await publishRuns(1);
    await expectReadable();
  });

  it('is made where only readers of older ones miss what is lost', async () => {
    await publishRuns(3);
    await world.run({ upserts: { 2: 'Bob' } });
    await world.publish({ isSnapshotAsked: true });
    rmSync(fileOf(2));
    rmSync(fileOf(4));
    rmSync(manifestOf(1));
    await publishRuns(2);
    await expectReadable();
  });

  // Proves promise 20.1
  it('is made where another process publishes a snapshot meanwhile, and removes what came before', async () => {
    await publishRuns(3);
    await world.run({ upserts: { 2: 'Bob' } });
    let isBeside = false;
    await using pruner = world.target();
    const target = world.target((store) => ({
      sizes: async (names) => {
        if (!isBeside) {
          isBeside = true;
          await world.publish({ isSnapshotAsked: true });
          await pruner.prune(world.clock.now() + 1, false);
        }
        return await store.sizes(names);
      },
    }));
    await world.publish({}, target);
    expect(isBeside).toBe(true);
    expect(world.manifests().map(({ publication }) => publication)).toEqual([4]);
    await expectReadable();
  });
});

/** A bucket with made-up publications of one entity: what is asked of it is counted. */
function longChain(length: number) {
  const texts = new Map<string, string>();
  const bytes = new Map<string, number>();
  const counts = { reads: 0, sizes: 0 };
  const stored: StoredManifest[] = [];
  const add = (): StoredManifest => {
    const publication = stored.length + 1;
    const path = `news/members/g1/changes/${publication}.jsonl`;
    const previous = stored.at(-1);
    const sha256 = '0'.repeat(64);
    const file = { path, rows: 1, bytes: 7, sha256, firstSeq: publication, lastSeq: publication };
    const made = publish(previous?.manifest ?? null, storedState({ newestSeq: publication }));
    const manifest: Manifest = {
      ...made,
      previous: previous === undefined ? null : { publication: publication - 1, sha256: previous.sha256 },
      entities: made.entities.map((one) => (one.entity === members ? { ...one, files: [file] } : one)),
    };
    const text = manifestText(manifest);
    texts.set(manifestName(publication), text);
    bytes.set(path, 7);
    stored.push(readManifest(text));
    return stored.at(-1) ?? readManifest(text);
  };
  for (let made = 0; made < length; made += 1) add();
  const store = {
    list: async function* (prefix: string, after = '') {
      for (const name of [...texts.keys()].toSorted()) {
        if (name.startsWith(prefix) && name > after) yield { name, bytes: 1, modifiedAtMs: 0 };
      }
    },
    read: (name: string) => {
      counts.reads += 1;
      const text = texts.get(name);
      return Promise.resolve(text === undefined ? null : Buffer.from(text));
    },
    sizes: (names: readonly string[]) => {
      counts.sizes += names.length;
      return Promise.resolve(new Map([...bytes].filter(([name]) => names.includes(name))));
    },
  } as Partial<ObjectStore> as ObjectStore;
  const look = async (newest: StoredManifest): Promise<readonly string[]> =>
    await lostObjects(store, newest, newest.manifest.entities);
  return { add, look, bytes, texts, counts };
}

describe('a chain of many publications', () => {
  // Proves promise 20.1
  it('is checked in parts, each part with one of the next publications', async () => {
    for (const lost of [1, 49, 50, 51, 100, 101, 155]) {
      const chain = longChain(160);
      chain.bytes.delete(`news/members/g1/changes/${lost}.jsonl`);
      const found: string[] = [];
      for (let next = 0; next < 4; next += 1) {
        Object.assign(chain.counts, { reads: 0, sizes: 0 });
        found.push(...(await chain.look(chain.add())));
        expect(chain.counts.reads).toBeLessThanOrEqual(53);
        expect(chain.counts.sizes).toBeLessThanOrEqual(51);
      }
      expect(found, String(lost)).toContain(`news/members/g1/changes/${lost}.jsonl is missing`);
    }
  });

  it('misses a manifest at once, whichever it is', async () => {
    for (const lost of [1, 50, 51, 160]) {
      const chain = longChain(160);
      chain.texts.delete(manifestName(lost));
      const found = await chain.look(chain.add());
      expect(found).toEqual([`publication ${lost} is missing`]);
    }
  });

  it('is whole at every length', async () => {
    const chain = longChain(0);
    for (let length = 1; length <= 120; length += 1) expect(await chain.look(chain.add())).toEqual([]);
  });
});
