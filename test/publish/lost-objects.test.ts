import { readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { lostObjects, manifestName } from '../../src/publish/object-target.ts';
import {
  manifestText,
  readManifest,
  type Manifest,
  type StoredManifest,
} from '../../src/publish/manifest.ts';
import type { ObjectStore } from '../../src/publish/object-store.ts';
import { readTargetState } from '../../src/publish/publication.ts';
import type { Target } from '../../src/publish/target.ts';
import { connectorOf, openPublishWorld, type PublishWorld } from '../support/publish/publish-world.ts';
import { lakeManifests, readLake, seqsOf } from '../support/publish/read-lake.ts';

let world: PublishWorld;

beforeEach(() => {
  world = openPublishWorld();
});

afterEach(async () => {
  await world[Symbol.asyncDispose]();
});

const manifestOf = (publication: number): string => join(world.lake, manifestName(publication));

function fileOf(publication: number): string {
  const [entity] = lakeManifests(world.lake)[publication - 1]?.entities ?? [];
  return join(world.lake, entity?.files[0]?.path ?? '');
}

async function publishRuns(count: number): Promise<void> {
  for (let run = 1; run <= count; run += 1) {
    await world.run({ upserts: [['1', `Ada ${run}`]] });
    await world.publish();
  }
}

async function expectReadable(): Promise<void> {
  const manifests = lakeManifests(world.lake);
  const newest = manifests.at(-1)?.publication ?? 0;
  expect(seqsOf(readLake(world.lake, manifests, newest))).toEqual(seqsOf(await world.rows()));
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
      /0003\.json was changed after publication 4 named its hash/,
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
    await world.run({ upserts: [['2', 'Bob']] });
    await expect(world.publish()).rejects.toMatchObject(refusal);
    await using target = world.target();
    const settings = {
      name: 'lake',
      connectors: [connectorOf(world.sink)],
      snapshotEveryMs: null,
      keepMs: null,
    };
    expect((await readTargetState(target, { settings, clock: world.clock })).refusal).toMatchObject(refusal);
    expect(lakeManifests(world.lake).at(-1)?.publication).toBe(4);
    expect(await world.publish({ isNewGenerationAsked: true })).toMatchObject({ kind: 'published' });
    await expectReadable();
    await publishRuns(1);
    await expectReadable();
  });

  it('is made where only readers of older ones miss what is lost', async () => {
    await publishRuns(3);
    await world.run({ upserts: [['2', 'Bob']] });
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
    await world.run({ upserts: [['2', 'Bob']] });
    let isBeside = false;
    const beside = async (target: Target): Promise<void> => {
      if (isBeside) return;
      isBeside = true;
      await world.publish({ isSnapshotAsked: true });
      await target.prune(world.clock.now() + 1, false);
    };
    await using pruner = world.target();
    const wrap = (store: ObjectStore): ObjectStore => ({
      ...store,
      sizes: async (names) => {
        await beside(pruner);
        return await store.sizes(names);
      },
    });
    await world.publish({}, world.target('jsonl', wrap));
    expect(isBeside).toBe(true);
    expect(lakeManifests(world.lake).map(({ publication }) => publication)).toEqual([4]);
    await expectReadable();
  });

  it('says what to do first where an entity that waits to be read again has lost its rows', async () => {
    await publishRuns(2);
    const reset = { entity: null, tables: [], withData: true, now: '2026-03-01T12:00:00.000Z' };
    await world.withSink((sink) => sink.repair.reset('news' as never, reset));
    rmSync(fileOf(1));
    const says = /Sync news\/members, news\/member_opens first.*--new-generation$/;
    await expect(world.publish({ isNewGenerationAsked: true })).rejects.toThrow(says);
    await world.run({ upserts: [['1', 'Ada']] });
    await world.publish({ isNewGenerationAsked: true });
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
    const manifest: Manifest = {
      format: 1,
      publication,
      previous: previous === undefined ? null : { publication: publication - 1, sha256: previous.sha256 },
      sink: 'sink',
      createdAt: '2026-03-01T10:02:00.000Z',
      by: { program: 'test', host: 'here' },
      entities: [
        {
          connector: 'news' as never,
          entity: 'members' as never,
          generation: 1,
          base: 1,
          tableId: 'table',
          schema: 1,
          key: ['id'],
          columns: [{ name: 'id', field: 'id', type: 'string' }],
          layout: null,
          after: publication - 1,
          through: publication,
          asOf: null,
          run: null,
          upserts: 1,
          deletes: 0,
          files: [
            { path, rows: 1, bytes: 7, sha256: '0'.repeat(64), firstSeq: publication, lastSeq: publication },
          ],
          snapshot: null,
        },
      ],
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
