import type { Clock } from '../core/clock.ts';
import type { StoredManifest } from './manifest.ts';
import type { LinearPattern } from '../definitions/linear-pattern.ts';
import { partNamePattern } from './file-names.ts';
import { latestName, latestText, manifestName, readManifests } from './object-manifests.ts';
import { leftoversOf, removeOld, sumOf, type Leftover, type ObjectStore } from './object-store.ts';
import type { PrunedTarget } from './target.ts';

const dayMs = 24 * 3_600_000;

/** What is needed of a manifest to choose: thousands may be there. */
interface Kept {
  readonly publication: number;
  readonly createdMs: number;
  /** The oldest publication that a reader of this one needs. */
  readonly base: number;
  readonly files: ReadonlyMap<string, number>;
}

interface Prune {
  readonly layout: string;
  readonly clock: Clock;
  /** Null: every publication stays. */
  readonly keepFromMs: number | null;
  /** Counts what it would remove. */
  readonly isDryRun: boolean;
}

/**
 * Removes the oldest publications, up to those that a reader of any that was the newest at `keepFromMs` or later needs; then files of this layout that no
 * manifest names, a day old by the store's own clock. Manifests go first, from the oldest on: at no time one names a file that is gone.
 */
export async function pruneObjects(
  store: ObjectStore,
  { layout, clock, keepFromMs, isDryRun }: Prune,
): Promise<PrunedTarget> {
  const remove = async (names: readonly string[]): Promise<void> => {
    if (!isDryRun) await store.remove(names);
  };
  const manifests: Kept[] = [];
  for await (const stored of readManifests(store, 1)) manifests.push(keptOf(stored));
  const first = keepFromMs === null ? 0 : firstNeeded(manifests, keepFromMs);
  const old = manifests.filter(({ publication }) => publication < first);
  for (const { publication } of old) await remove([manifestName(publication)]);
  const kept = manifests.slice(old.length);
  const named = new Set(kept.flatMap(({ files }) => [...files.keys()]));
  const files = new Map(old.flatMap((one) => [...one.files]).filter(([name]) => !named.has(name)));
  await remove([...files.keys()]);
  const newest = manifests.at(-1)?.publication ?? 0;
  const search = { pattern: partNamePattern(layout), named: [named, files], newest };
  const { unnamed, newestMs, newest: newestNow } = await findUnnamed(store, search);
  const ages = {
    ageMs: dayMs,
    now: isDryRun ? () => Promise.resolve(Math.max(newestMs, clock.now())) : clockOf(store, newestNow),
    isDryRun,
  };
  const { removed, waiting } = leftoversOf([
    await removeOld(unnamed, ages, async (some) => await remove(some.map(({ name }) => name))),
    await store.removeStaged(ages),
  ]);
  const published = [...files.values()].map((bytes) => ({ files: 1, bytes }));
  return { publications: old.length, ...sumOf([removed, ...published]), waiting };
}

/** The time of the store's clock, from a file that is written for it: times of all other files may be anything. */
function clockOf(store: ObjectStore, newest: number): () => Promise<number> {
  let asked: Promise<number> | null = null;
  return async () =>
    await (asked ??= newest > 0 ? timeOf(store, latestName, latestText(newest)) : timeOfNote(store));
}

/** Without a publication there is nothing that `_latest.json` could name. */
async function timeOfNote(store: ObjectStore): Promise<number> {
  const name = '.prune';
  try {
    return await timeOf(store, name, '{}\n');
  } finally {
    await store.remove([name]);
  }
}

/** 0, at which nothing is old, where the list does not show it. */
async function timeOf(store: ObjectStore, name: string, text: string): Promise<number> {
  await store.replace(name, text);
  for await (const object of store.list(name)) if (object.name === name) return object.modifiedAtMs;
  return 0;
}

function keptOf({ manifest: { publication, createdAt, entities } }: StoredManifest): Kept {
  const files = entities.flatMap((entity) => [...entity.files, ...(entity.snapshot?.files ?? [])]);
  return {
    publication,
    createdMs: Date.parse(createdAt),
    base: Math.min(publication, ...entities.map(({ base }) => base)),
    files: new Map(files.map(({ path, bytes }) => [path, bytes])),
  };
}

/** A publication was the newest until the next one came. */
function firstNeeded(manifests: readonly Kept[], keepFromMs: number): number {
  const readable = manifests.filter(
    (_one, index) => (manifests[index + 1]?.createdMs ?? Infinity) >= keepFromMs,
  );
  return Math.min(...readable.map(({ base }) => base));
}

interface Found extends Leftover {
  readonly name: string;
}

interface Search {
  readonly pattern: LinearPattern;
  /** Names that are no leftovers. */
  readonly named: readonly { has(name: string): boolean }[];
  readonly newest: number;
}

/** What attempts left that were killed, or that are under way; the newest time of a file that a publisher wrote; the newest publication meanwhile. */
async function findUnnamed(
  store: ObjectStore,
  { pattern, named, newest }: Search,
): Promise<{ readonly unnamed: readonly Found[]; readonly newestMs: number; readonly newest: number }> {
  const found: Found[] = [];
  let newestMs = 0;
  for await (const { name, bytes, modifiedAtMs } of store.list('')) {
    if (name !== latestName && !pattern.test(name)) continue;
    newestMs = Math.max(newestMs, modifiedAtMs);
    const isUnnamed = name !== latestName && !named.some((names) => names.has(name));
    if (isUnnamed) found.push({ name, files: 1, bytes, modifiedAtMs });
  }
  // Published since the manifests were read.
  const published = new Set<string>();
  let newestNow = newest;
  for await (const stored of readManifests(store, newest + 1)) {
    newestNow = stored.manifest.publication;
    for (const name of keptOf(stored).files.keys()) published.add(name);
  }
  return { unnamed: found.filter(({ name }) => !published.has(name)), newestMs, newest: newestNow };
}
