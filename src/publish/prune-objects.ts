import type { Clock } from '../core/clock.ts';
import type { LinearPattern } from '../definitions/linear-pattern.ts';
import { filesOf, type StoredManifest } from './manifest.ts';
import {
  latestName,
  latestText,
  manifestName,
  partNamePattern,
  publicationOf,
  readManifests,
  readStored,
} from './object-manifests.ts';
import { removeOld, sumOf, type Leftover, type ObjectStore } from './object-store.ts';
import type { PrunedTarget } from './target.ts';

const dayMs = 24 * 3_600_000;

interface Prune {
  readonly layout: string;
  readonly clock: Clock;
  /** Null: every publication stays. */
  readonly keepFromMs: number | null;
  /** Counts what it would remove. */
  readonly isDryRun: boolean;
}

/**
 * Removes the oldest publications, up to those that a reader of any that was the newest at `keepFromMs` or later needs;
 * then files and leftovers of this layout that no manifest names: at once where their number was published, because no
 * attempt ends with a number that is taken, and else when they are a day old by the store's own clock. Manifests go
 * first, from the oldest on: at no time one names a file that was removed. Where every publication stays, there may be
 * any number of manifests: those alone are read whose number more than one attempt has.
 */
export async function pruneObjects(
  store: ObjectStore,
  { layout, clock, keepFromMs, isDryRun }: Prune,
): Promise<PrunedTarget> {
  const remove = async (names: readonly string[]): Promise<void> => {
    if (!isDryRun) await store.remove(names);
  };
  const manifests: Kept[] = [];
  if (keepFromMs !== null) {
    for await (const stored of readManifests(store, 1)) manifests.push(keptOf(stored));
  }
  const first = keepFromMs === null ? 0 : firstNeeded(manifests, keepFromMs);
  const old = manifests.filter(({ publication }) => publication < first);
  for (const { publication } of old) await remove([manifestName(publication)]);
  const kept = manifests.slice(old.length);
  const named = new Set(kept.flatMap(({ files }) => [...files.keys()]));
  const files = new Map(old.flatMap((one) => [...one.files]).filter(([name]) => !named.has(name)));
  await remove([...files.keys()]);
  const newest = manifests.at(-1)?.publication ?? 0;
  const all = keepFromMs === null ? null : { named: new Set([...named, ...files.keys()]), newest };
  // Listed first: the manifests that are read later include any that was made meanwhile.
  const pattern = partNamePattern(layout);
  const leftovers = await store.leftovers();
  const { unnamed, newestMs, newest: newestNow } = await findUnnamed(store, pattern, all);
  const ages = {
    ageMs: dayMs,
    now: async () => (isDryRun ? Math.max(newestMs, clock.now()) : await timeOfStore(store, newestNow)),
    isDryRun,
  };
  const left = [...unnamed, ...leftovers].flatMap((one): Leftover[] => {
    const groups = pattern.groups(one.name ?? '');
    if (groups === null && one.isShared === true) return [];
    return [{ ...one, isOver: Number(groups?.['publication'] ?? Infinity) <= newestNow }];
  });
  const { removed, waiting } = await removeOld(left, ages);
  const published = [...files.values()].map((bytes) => ({ files: 1, bytes }));
  return { publications: old.length, ...sumOf([removed, ...published]), waiting };
}

/** By the store's clock, from a file that is written for it: times of all other files may be anything. */
async function timeOfStore(store: ObjectStore, newest: number): Promise<number> {
  if (newest > 0) return await timeOf(store, latestName, latestText(newest));
  // Without a publication there is nothing that `_latest.json` could name.
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

type Kept = ReturnType<typeof keptOf>;

/** What is needed of a manifest to choose: thousands may be there. */
function keptOf({ manifest }: StoredManifest) {
  const { publication, createdAt, entities } = manifest;
  return {
    publication,
    createdMs: Date.parse(createdAt),
    /** The oldest publication that a reader of this one needs. */
    base: Math.min(publication, ...entities.map(({ base }) => base)),
    files: new Map(filesOf(manifest).map(({ path, bytes }) => [path, bytes])),
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
  readonly publication: number;
  readonly attempt: string;
}

/**
 * What attempts left that were killed, or that are under way; the newest time of a file that a publisher wrote; the
 * newest publication meanwhile. Null: nothing is known of the manifests.
 */
async function findUnnamed(
  store: ObjectStore,
  pattern: LinearPattern,
  all: Awaited<ReturnType<typeof knownOf>> | null,
) {
  const found: Found[] = [];
  const numbers = new Set<number>();
  let newestMs = 0;
  for await (const { name, bytes, modifiedAtMs } of store.list('')) {
    const number = publicationOf(name);
    if (number !== null) numbers.add(number);
    const groups = pattern.groups(name);
    if (name === latestName || groups !== null) newestMs = Math.max(newestMs, modifiedAtMs);
    if (groups === null) continue;
    const { publication, attempt } = groups;
    found.push({
      name,
      files: 1,
      bytes,
      modifiedAtMs,
      publication: Number(publication),
      attempt: attempt ?? '',
      remove: async () => await store.remove([name]),
    });
  }
  const { named, newest } = all ?? (await knownOf(store, found, numbers));
  let newestNow = newest;
  // Published since the manifests were read.
  for await (const { manifest } of readManifests(store, newest + 1)) {
    newestNow = manifest.publication;
    for (const { path } of filesOf(manifest)) named.add(path);
  }
  return { unnamed: found.filter(({ name }) => !named.has(name)), newestMs, newest: newestNow };
}

/**
 * The newest publication, and the names that are no leftovers. A publication is of one attempt: where all files with
 * its number are of the same one, these are its files.
 */
async function knownOf(store: ObjectStore, found: readonly Found[], numbers: ReadonlySet<number>) {
  const attempts = new Map<number, string>();
  const several = new Set<number>();
  for (const { publication, attempt } of found) {
    if ((attempts.get(publication) ?? attempt) !== attempt) several.add(publication);
    attempts.set(publication, attempt);
  }
  const named = new Set<string>();
  for (const number of several) {
    const stored = numbers.has(number) ? await readStored(store, number) : null;
    for (const { path } of stored === null ? [] : filesOf(stored.manifest)) named.add(path);
  }
  for (const { name, publication } of found) {
    if (numbers.has(publication) && !several.has(publication)) named.add(name);
  }
  let newest = 0;
  for (const number of numbers) newest = Math.max(newest, number);
  return { named, newest };
}
