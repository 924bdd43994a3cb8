import type { StoredManifest } from './manifest.ts';
import { partNamePattern } from './file-names.ts';
import { latestName, latestText, manifestName, readManifests } from './object-manifests.ts';
import type { ObjectStore } from './object-store.ts';
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
  /** Null: every publication stays. */
  readonly keepFromMs: number | null;
  /** Counts what it would remove, without what killed processes left half written. */
  readonly isDryRun: boolean;
}

/**
 * Removes the oldest publications, up to those that a reader of any that was the newest at `keepFromMs` or later needs; then files of this layout that no
 * manifest names, a day old by the store's own clock. Manifests go first, from the oldest on: at no time one names a file that is gone.
 */
export async function pruneObjects(
  store: ObjectStore,
  { layout, keepFromMs, isDryRun }: Prune,
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
  // What is written now has the time of the store's clock.
  if (newest > 0 && !isDryRun) await store.replace(latestName, latestText(newest));
  const { nowMs, objects } = await findUnnamed(store, {
    pattern: partNamePattern(layout),
    named: [named, files],
    newest,
  });
  await remove(objects.map(({ name }) => name));
  const staged = isDryRun ? noFiles : await store.removeStaged(nowMs - dayMs);
  return {
    publications: old.length,
    files: files.size + objects.length + staged.files,
    bytes: sum([...files.values(), ...objects.map(({ bytes }) => bytes), staged.bytes]),
  };
}

const noFiles = { files: 0, bytes: 0 };

function sum(numbers: readonly number[]): number {
  return numbers.reduce((all, one) => all + one, 0);
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

interface Found {
  readonly name: string;
  readonly bytes: number;
  readonly modifiedAtMs: number;
}

interface Search {
  readonly pattern: RegExp;
  /** Names that are no leftovers. */
  readonly named: readonly { has(name: string): boolean }[];
  readonly newest: number;
}

/** What attempts left that were killed. Its age counts from the newest file there: clocks of two machines differ. */
async function findUnnamed(
  store: ObjectStore,
  { pattern, named, newest }: Search,
): Promise<{ readonly nowMs: number; readonly objects: readonly Found[] }> {
  const found: Found[] = [];
  let nowMs = 0;
  for await (const object of store.list('')) {
    nowMs = Math.max(nowMs, object.modifiedAtMs);
    if (pattern.test(object.name) && !named.some((names) => names.has(object.name))) found.push(object);
  }
  // Published since the manifests were read.
  const published = new Set<string>();
  for await (const stored of readManifests(store, newest + 1)) {
    for (const name of keptOf(stored).files.keys()) published.add(name);
  }
  const before = nowMs - dayMs;
  return { nowMs, objects: found.filter((one) => one.modifiedAtMs < before && !published.has(one.name)) };
}
