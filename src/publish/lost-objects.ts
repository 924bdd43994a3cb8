import { missingPublications } from './chain-problems.ts';
import type { PublishedEntity, StoredManifest } from './manifest.ts';
import { manifestName, publicationNumbers, readNewest, readStored } from './object-manifests.ts';
import type { ObjectStore } from './object-store.ts';

/** Manifests that are read for one publication: of a longer chain another part each time. */
const mostRead = 50;
const readAtOnce = 8;

/**
 * What readers of these entities need, from the `base` of each up to `newest`, and do not find: manifests by their
 * names and hashes, files by their names and lengths. All names of manifests are compared each time; the files of a
 * chain of more than 50 publications with those of the next few. In words.
 */
export async function lostObjects(
  store: ObjectStore,
  newest: StoredManifest,
  entities: readonly PublishedEntity[],
): Promise<readonly string[]> {
  const last = newest.manifest.publication;
  const first = Math.min(last, ...entities.map(({ base }) => base));
  const gaps = await missingNumbers(store, first, last);
  const lost = gaps.length > 0 ? gaps : await lostFiles(store, newest, { first, last, entities });
  if (lost.length === 0) return [];
  // Others may have published a snapshot meanwhile, and removed what came before it.
  return (await readNewest(store))?.sha256 === newest.sha256 ? lost : [];
}

async function missingNumbers(store: ObjectStore, first: number, last: number): Promise<readonly string[]> {
  const missing: string[] = [];
  let expected = first;
  for await (const number of publicationNumbers(store, first - 1)) {
    if (number > last) break;
    if (number > expected) missing.push(missingPublications(expected, number - 1));
    expected = number + 1;
  }
  if (expected <= last) missing.push(missingPublications(expected, last));
  return missing;
}

interface Chain {
  readonly first: number;
  readonly last: number;
  readonly entities: readonly PublishedEntity[];
}

async function lostFiles(
  store: ObjectStore,
  newest: StoredManifest,
  { first, last, entities }: Chain,
): Promise<readonly string[]> {
  const parts = Math.ceil((last - first) / mostRead);
  const from = first + (parts === 0 ? 0 : last % parts) * mostRead;
  const numbers = Array.from({ length: Math.min(mostRead, last - from) }, (_none, index) => from + index);
  const lost: string[] = [];
  const bytesByPath = new Map(neededFiles(newest, entities));
  let before: StoredManifest | null = null;
  for (let at = 0; at < numbers.length; at += readAtOnce) {
    const some = numbers.slice(at, at + readAtOnce);
    const read = await Promise.all(some.map(async (number) => await readStored(store, number)));
    for (const [index, stored] of read.entries()) {
      if (stored === null) return [missingPublications(some[index] ?? 0, some[index] ?? 0)];
      lost.push(...changedBefore(before, stored));
      for (const [path, bytes] of neededFiles(stored, entities)) bytesByPath.set(path, bytes);
      before = stored;
    }
  }
  if (from + numbers.length === last) lost.push(...changedBefore(before, newest));
  const sizes = await store.sizes([...bytesByPath.keys()]);
  for (const [path, bytes] of bytesByPath) {
    const found = sizes.get(path);
    if (found === undefined) lost.push(`${path} is missing`);
    else if (found !== bytes) lost.push(`${path} has ${found} bytes, expected ${bytes}`);
  }
  return lost;
}

/** A reader begins with the snapshot of `base`, or with its files where a generation begins there. */
function neededFiles(
  { manifest: { publication, entities } }: StoredManifest,
  followed: readonly PublishedEntity[],
): readonly (readonly [path: string, bytes: number])[] {
  return entities.flatMap(({ connector, entity, files, snapshot }) => {
    const base = followed.find((one) => one.connector === connector && one.entity === entity)?.base;
    if (base === undefined || publication < base) return [];
    const needed = publication === base ? (snapshot?.files ?? files) : files;
    return needed.map(({ path, bytes }) => [path, bytes] as const);
  });
}

function changedBefore(before: StoredManifest | null, { manifest }: StoredManifest): readonly string[] {
  if (before === null || manifest.previous?.sha256 === before.sha256) return [];
  const { publication } = before.manifest;
  return [`${manifestName(publication)} was changed after publication ${publication + 1} named its hash`];
}
