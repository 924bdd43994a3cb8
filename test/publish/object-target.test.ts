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
} from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { ObjectStore } from '../../src/publish/object-store.ts';
import { hourMs, members } from '../contracts/sink/fixture.ts';
import { openSmallDisk } from '../support/small-disk.ts';
import { connectorOf, openPublishWorld, type PublishWorld } from '../support/publish/publish-world.ts';
import { lakeManifests, readLake, seqsOf, unnamedFiles } from '../support/publish/read-lake.ts';
import { isLong } from '../support/trials.ts';

const noSignal = new AbortController().signal;
const dayMs = 24 * hourMs;

let world: PublishWorld;

beforeEach(() => {
  world = openPublishWorld();
});

afterEach(async () => {
  if (existsSync(world.lake)) chmodSync(world.lake, 0o700);
  await world[Symbol.asyncDispose]();
});

async function publishRuns(count: number): Promise<void> {
  for (let run = 1; run <= count; run += 1) {
    await world.run({
      upserts: [
        ['1', `Ada ${run}`],
        [`new ${run}`, 'Bob'],
      ],
      deletes: [`new ${run - 1}`],
    });
    await world.publish();
  }
}

async function problems(): Promise<readonly string[]> {
  await using target = world.target();
  return (await target.check(noSignal)).problems;
}

function fileOf(publication: number): string {
  const entity = lakeManifests(world.lake)[publication - 1]?.entities.find((one) => one.entity === members);
  return join(world.lake, entity?.files[0]?.path ?? '');
}

const manifestOf = (publication: number): string =>
  join(world.lake, '_publications', `${String(publication).padStart(20, '0')}.json`);

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
    expect(await target.check(noSignal)).toMatchObject({ publications: 4, files: 8, rows: 19, problems: [] });
    const [first, second, third, fourth] = [1, 2, 3, 4].map(fileOf);
    const bytes = readFileSync(second ?? '');
    writeFileSync(second ?? '', Buffer.from(bytes.map((byte, at) => (at === 20 ? byte ^ 1 : byte))));
    truncateSync(third ?? '', 10);
    rmSync(fourth ?? '');
    expect(existsSync(first ?? '')).toBe(true);
    expect((await problems()).map((text) => text.replace(/news\/.*?jsonl/, 'it'))).toEqual([
      'publication 2: it has another content than was published',
      expect.stringMatching(/^publication 3: it has 10 bytes, expected \d+$/),
      'publication 4: it is missing',
    ]);
  });

  it('finds a manifest that is missing, or was changed after the next one named it', async () => {
    await publishRuns(4);
    const text = readFileSync(manifestOf(2), 'utf8');
    writeFileSync(manifestOf(2), text.replace('"here"', '"there"'));
    expect(await problems()).toEqual([
      expect.stringContaining('0002.json was changed after publication 3 named its hash') as string,
    ]);
    rmSync(manifestOf(3));
    expect(await problems()).toEqual(['publication 3 is missing']);
    rmSync(manifestOf(4));
    expect(await problems()).toEqual(['publications 3 to 4 are missing: _latest.json names 4 as the newest']);
    // Readers know 3 and 4 already, and would not look at others of these numbers.
    await expect(world.publish()).rejects.toMatchObject({
      code: 'TARGET_INCOMPATIBLE',
      message: expect.stringMatching(
        /0004\.json is gone.*remove _latest\.json and publish with --new-gen/,
      ) as string,
    });
    expect(lakeManifests(world.lake)).toHaveLength(2);
    rmSync(join(world.lake, '_latest.json'));
    await world.publish({ isNewGenerationAsked: true });
    expect(await problems()).toEqual([]);
    writeFileSync(manifestOf(2), text.replace('"format": 1', '"format": 2'));
    await expect(problems()).rejects.toMatchObject({ code: 'TARGET_INCOMPATIBLE' });
  });

  it('refuses a manifest that has the name of another publication', async () => {
    await publishRuns(2);
    writeFileSync(manifestOf(2), readFileSync(manifestOf(1)));
    const refused = {
      code: 'TARGET_INCOMPATIBLE',
      message: expect.stringMatching(
        /0002\.json is not a manifest that this version reads: it says that it is publication 1/,
      ) as string,
    };
    await expect(problems()).rejects.toMatchObject(refused);
    await expect(world.publish()).rejects.toMatchObject(refused);
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
    await expect(world.publish()).rejects.toMatchObject({
      code: 'TARGET_INCOMPATIBLE',
      message: expect.stringMatching(
        /0001\.json is not a manifest that this version reads: entities\.0\.layout: Invalid input: expected string.* keep all of it and publish to another place/,
      ) as string,
    });
    expect(readFileSync(manifestOf(1), 'utf8')).toBe(before);
  });
});

describe('a prune', () => {
  // Proves promise 20.7
  it('keeps what readers of the kept publications need, and the chain begins with the oldest of these', async () => {
    await publishRuns(3);
    await world.run({ upserts: [['x', 'Xena']] });
    await world.publish({ isSnapshotAsked: true });
    await publishRuns(1);
    // Publication 5 was the newest one then, and its readers begin with 4.
    world.clock.advance(1);
    const keepFrom = world.clock.now();
    world.clock.advance(hourMs);
    await publishRuns(1);
    await using target = world.target();
    const before = lakeManifests(world.lake);
    const dry = await target.prune(keepFrom, true);
    expect(lakeManifests(world.lake)).toEqual(before);
    expect(await target.prune(keepFrom, false)).toEqual({ ...dry, publications: 3, files: 6 });
    expect(lakeManifests(world.lake).map(({ publication }) => publication)).toEqual([4, 5, 6]);
    expect(await problems()).toEqual([]);
    expect(unnamedFiles(world.lake)).toEqual([]);
    expect(seqsOf(readLake(world.lake, lakeManifests(world.lake), 6))).toEqual(seqsOf(await world.rows()));
    expect(await target.prune(keepFrom, false)).toMatchObject({ publications: 0, files: 0, bytes: 0 });
    await publishRuns(1);
    expect(await problems()).toEqual([]);
  });

  it('keeps the publication that was the newest when the kept time begins', async () => {
    await publishRuns(1);
    for (const name of ['Xena', 'Yuri']) {
      await world.run({ upserts: [['x', name]] });
      await world.publish({ isSnapshotAsked: true });
      world.clock.advance(hourMs);
    }
    await using target = world.target();
    expect(await target.prune(world.clock.now() - hourMs, false)).toMatchObject({ publications: 1 });
    expect(lakeManifests(world.lake).map(({ publication }) => publication)).toEqual([2, 3]);
    expect(await problems()).toEqual([]);
  });

  it('comes with the first publication of a day, and its failure only warns', async () => {
    const settings = {
      name: 'lake',
      connectors: [connectorOf(world.sink)],
      snapshotEveryMs: dayMs,
      keepMs: dayMs,
    };
    for (let day = 0; day < 3; day += 1) {
      await world.run({ upserts: [['1', `Ada ${day}`]] });
      await world.publish({ settings });
      world.clock.advance(dayMs);
    }
    expect(lakeManifests(world.lake).map(({ publication }) => publication)).toEqual([2, 3]);
    await world.run({ upserts: [['1', 'Ada']] });
    const failing = (store: ObjectStore): ObjectStore => ({
      ...store,
      remove: () => Promise.reject(new Error('no right to remove')),
    });
    expect(await world.publish({ settings }, world.target('jsonl', failing))).toMatchObject({
      kind: 'published',
      warnings: ['Old publications and leftovers of target lake could not be removed: no right to remove'],
    });
    expect(await problems()).toEqual([]);
  });

  // Proves promise 20.7
  it('removes what killed publishers left, with the first publication of a day, also where everything is kept', async () => {
    await publishRuns(3);
    const long = (Date.now() - 25 * hourMs) / 1_000;
    // Of publications that others made then, and of one that is still to come.
    const left = [1, 2, 2, 9].map(
      (publication, index) => `news/members/g1/changes/0000000${publication}-000${index + 1}-0a1b2c3d.jsonl`,
    );
    for (const name of left) {
      writeFileSync(join(world.lake, name), '{}\n');
      utimesSync(join(world.lake, name), long, long);
    }
    const reads: string[] = [];
    const counting = (store: ObjectStore): ObjectStore => ({
      ...store,
      read: async (name) => {
        reads.push(name);
        return await store.read(name);
      },
    });
    await publishRuns(1);
    expect(unnamedFiles(world.lake).toSorted()).toEqual(left);
    world.clock.advance(dayMs);
    await world.run({ upserts: [['1', 'Eve']] });
    expect(await world.publish()).toMatchObject({ kind: 'published', warnings: [] });
    expect(unnamedFiles(world.lake)).toEqual([]);
    expect(lakeManifests(world.lake).map(({ publication }) => publication)).toEqual([1, 2, 3, 4, 5]);
    expect(await problems()).toEqual([]);
    await using target = world.target('jsonl', counting);
    await target.prune(null, true);
    expect(reads).toEqual([]);
  });

  // Proves promise 20.7
  it('removes what killed publishers left after a day, and nothing that others put there', async () => {
    await publishRuns(1);
    const folder = join(world.lake, 'news/members/g1/changes');
    const left = ['00000002-0001-0a1b2c3d.jsonl', '.00000002-0001-0a1b2c3d.jsonl.staged.partial'];
    const foreign = ['notes.jsonl', '00000002-0001.jsonl', '.hidden'];
    for (const name of [...left, ...foreign]) writeFileSync(join(folder, name), '{}\n');
    const unnamed = (): readonly string[] =>
      unnamedFiles(world.lake)
        .map((name) => name.replace('news/members/g1/changes/', ''))
        .toSorted();
    await using target = world.target();
    expect((await target.prune(null, false)).files).toBe(0);
    const long = (Date.now() - 25 * hourMs) / 1_000;
    for (const name of [...left, ...foreign]) utimesSync(join(folder, name), long, long);
    expect(await target.prune(null, false)).toMatchObject({ publications: 0, files: 2, bytes: 6 });
    expect(unnamed()).toEqual(foreign.toSorted());
  });
});

describe('a commit', () => {
  // Proves promise 20
  it('whose answer was lost, and that is there, is a publication', async () => {
    await world.run({ upserts: [['1', 'Ada']] });
    const again = (store: ObjectStore): ObjectStore => ({
      ...store,
      create: async (name, text) => {
        await store.create(name, text);
        return await store.create(name, text);
      },
    });
    expect((await world.publish({}, world.target('jsonl', again))).kind).toBe('published');
    expect(await problems()).toEqual([]);
  });

  // Proves promise 20
  it('whose outcome is unknown removes no file', async () => {
    await world.run({ upserts: [['1', 'Ada']] });
    const lost = (store: ObjectStore): ObjectStore => ({
      ...store,
      create: async (name, text) => {
        await store.create(name, text);
        throw new Error('connection reset');
      },
    });
    await expect(world.publish({}, world.target('jsonl', lost))).rejects.toThrow('connection reset');
    expect(await problems()).toEqual([]);
    expect((await world.publish()).kind).toBe('unchanged');
  });

  it('comes too late after 20 hours: its files may be gone by then', async () => {
    await world.run({ upserts: [['1', 'Ada']] });
    const onProgress = (): void => {
      world.clock.advance(11 * hourMs);
    };
    await expect(world.publish({ onProgress })).rejects.toMatchObject({ code: 'TARGET_FAILED' });
    expect(unnamedFiles(world.lake)).toEqual([]);
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
  it.each<[string, (lake: string) => void, string]>([
    ['is a file', (lake) => writeFileSync(lake, ''), 'TARGET_INCOMPATIBLE'],
    [
      'has a link in place of a folder',
      (lake) => {
        mkdirSync(join(lake, 'elsewhere'), { recursive: true });
        symlinkSync(join(lake, 'elsewhere'), join(lake, 'news'));
      },
      'TARGET_INCOMPATIBLE',
    ],
    [
      'has a link in place of its manifests',
      (lake) => {
        mkdirSync(join(lake, 'elsewhere'), { recursive: true });
        symlinkSync(join(lake, 'elsewhere'), join(lake, '_publications'));
      },
      'TARGET_INCOMPATIBLE',
    ],
    [
      'has a file in place of a folder',
      (lake) => {
        mkdirSync(lake);
        writeFileSync(join(lake, 'news'), '');
      },
      'TARGET_INCOMPATIBLE',
    ],
  ])('that %s is refused, and says what to do', async (_what, spoil, code) => {
    await world.run({ upserts: [['1', 'Ada']] });
    spoil(world.lake);
    await expect(world.publish()).rejects.toMatchObject({
      code,
      message: expect.stringMatching(
        /expected a folder\. Remove it, or publish to another folder\.$/,
      ) as string,
    });
    if (statSync(world.lake).isDirectory() && existsSync(join(world.lake, 'elsewhere'))) {
      expect(readdirSync(join(world.lake, 'elsewhere'))).toEqual([]);
    }
  });

  it.skipIf(process.getuid?.() === 0)('that is read-only is refused', async () => {
    await world.run({ upserts: [['1', 'Ada']] });
    mkdirSync(world.lake, { mode: 0o500 });
    await expect(world.publish()).rejects.toMatchObject({ code: 'TARGET_FAILED' });
  });

  it.skipIf(!isLong)(
    'that is on a full disk is refused, and published to when there is room',
    async ({ skip }) => {
      await world.run({ upserts: [['1', 'Ada']] });
      using disk = openSmallDisk(world.lake);
      if (disk.unavailable !== null) skip(disk.unavailable);
      disk.fill();
      await expect(world.publish()).rejects.toMatchObject({
        code: 'TARGET_FAILED',
        recovery: 'retry',
        message: expect.stringContaining('No space is left') as string,
      });
      disk.free();
      expect(unnamedFiles(world.lake)).toEqual([]);
      await world.publish();
      expect(await problems()).toEqual([]);
    },
  );

  it('is probed, and holds nothing more afterwards', async () => {
    await publishRuns(1);
    await using target = world.target();
    await target.probe();
    expect(unnamedFiles(world.lake)).toEqual([]);
  });
});
