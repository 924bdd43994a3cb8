import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import type { Manifest, PublishedEntity } from '../../src/publish/manifest.ts';
import { openPublishWorld, type PublishWorld } from '../support/publish/publish-world.ts';
import { fileRows, lakeManifests, readLake, seqsOf } from '../support/publish/read-lake.ts';
import { seededRandom } from '../support/seeded-random.ts';
import { isLong, repeats, startSeed } from '../support/trials.ts';

/** What docs/publications.md has a loader keep, and its tables. */
interface Warehouse {
  publication: number;
  sha256: string | null;
  readonly entities: Map<string, { generation: number; through: number; rows: Map<string, number> }>;
}

let world: PublishWorld;

beforeEach(() => {
  world = openPublishWorld();
});

afterEach(async () => {
  await world[Symbol.asyncDispose]();
});

/** As "Following into a warehouse" says, with a transaction that may be rolled back before it is committed. */
function follow(before: Warehouse, isRolledBack: () => boolean): Warehouse {
  let kept = before;
  for (;;) {
    const manifests = lakeManifests(world.lake);
    const behind = manifests.filter(({ publication }) => publication > kept.publication);
    const [next] = behind;
    if (next === undefined) return kept;
    const isNext = next.publication === kept.publication + 1;
    const isChained = (next.previous?.sha256 ?? null) === kept.sha256;
    const made = isNext && isChained ? applied(kept, next) : loadedAnew(manifests);
    if (isRolledBack()) return kept;
    kept = made;
  }
}

function applied(before: Warehouse, manifest: Manifest): Warehouse {
  const after: Warehouse = structuredClone(before);
  for (const entity of manifest.entities) {
    const known = after.entities.get(entity.entity);
    const isSame = known?.generation === entity.generation;
    expect(entity.after).toBe(isSame ? known.through : 0);
    if (!isSame) expect(entity.base).toBe(manifest.publication);
    const rows = isSame ? known.rows : new Map<string, number>();
    const counts = { upserts: 0, deletes: 0 };
    for (const row of rowsOf(entity)) {
      counts[row.isDeleted ? 'deletes' : 'upserts'] += 1;
      if (row.isDeleted) rows.delete(row.keyText);
      else rows.set(row.keyText, row.seq);
    }
    expect(counts).toEqual({ upserts: entity.upserts, deletes: entity.deletes });
    after.entities.set(entity.entity, { generation: entity.generation, through: entity.through, rows });
  }
  return { ...after, ...markOf(manifest) };
}

function loadedAnew(manifests: readonly Manifest[]): Warehouse {
  const newest = manifests.at(-1);
  if (newest === undefined) throw new Error('Expected a publication');
  const states = readLake(world.lake, manifests, newest.publication);
  const entities = newest.entities.map(({ entity, generation, through }) => {
    const rows = [...(states.get(entity) ?? [])].map(([key, { seq }]) => [key, seq] as const);
    return [entity, { generation, through, rows: new Map(rows) }] as const;
  });
  return { ...markOf(newest), entities: new Map(entities) };
}

function markOf({ publication }: Manifest): Pick<Warehouse, 'publication' | 'sha256'> {
  const file = join(world.lake, '_publications', `${String(publication).padStart(20, '0')}.json`);
  return { publication, sha256: createHash('sha256').update(readFileSync(file)).digest('hex') };
}

function rowsOf({ files, key }: PublishedEntity) {
  return files.flatMap((file) => fileRows(world.lake, file, key));
}

// Proves promise 20.3
it('a loader that follows docs/publications.md has what the sink has, whenever it comes and however often it is cut short', async () => {
  const random = seededRandom(startSeed());
  let warehouse: Warehouse = { publication: 0, sha256: null, entities: new Map() };
  const ways = { followed: 0, anew: 0 };
  for (let round = 0; round < repeats('TRIALS', { share: 4, full: 600 }); round += 1) {
    const size = 1 + Math.floor(random() * 6);
    const upserts = Array.from({ length: size }, (_, index) => [`${index}`, `Name ${round}`] as const);
    await world.run({ upserts, deletes: random() < 0.5 ? [`${size - 1}`] : [] });
    await world.publish({
      isSnapshotAsked: random() < 0.4,
      isNewGenerationAsked: random() < 0.1,
    });
    if (random() < 0.4) {
      await using target = world.target();
      await target.prune(world.clock.now(), false);
    }
    // It stays away at times, and is then overtaken by prune.
    if (random() < 0.5) continue;
    const oldest = lakeManifests(world.lake)[0]?.publication ?? 1;
    ways[oldest > warehouse.publication + 1 ? 'anew' : 'followed'] += 1;
    warehouse = follow(warehouse, () => random() < 0.3);
    warehouse = follow(warehouse, () => false);
    const rows = [...warehouse.entities].map(([entity, kept]) => [entity, Object.fromEntries(kept.rows)]);
    expect(Object.fromEntries(rows)).toEqual(seqsOf(await world.rows()));
  }
  if (isLong) expect(Math.min(ways.followed, ways.anew)).toBeGreaterThan(0);
});
