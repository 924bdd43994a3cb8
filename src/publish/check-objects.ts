import { createHash, randomBytes } from 'node:crypto';
import { SyncError } from '../core/errors.ts';
import {
  entityName,
  filesOf,
  missingPublications,
  neededFiles,
  type PublishedEntity,
  type PublishedFile,
  type StoredManifest,
} from './manifest.ts';
import {
  latestName,
  manifestName,
  notedNumber,
  publicationNumbers,
  readManifests,
  readNewest,
  readStored,
} from './object-manifests.ts';
import type { ObjectStore } from './object-store.ts';
import type { TargetCheck } from './target.ts';

/** Two writes of one name: a server that lets the second through would let one publication overwrite another. */
export async function probeObjects(store: ObjectStore): Promise<void> {
  const name = `_publications/probe-${randomBytes(4).toString('hex')}.json`;
  await store.create(name, '{"probe":1}\n');
  const second = await store.create(name, '{"probe":2}\n');
  await store.remove([name]);
  if (second === 'exists') return;
  throw new SyncError(
    `The target overwrote ${name} although it was asked to create it only if it is not there: two publishers would overwrite each other's publications. Use a store with conditional writes.`,
    { code: 'TARGET_INCOMPATIBLE', recovery: 'stop' },
  );
}

/** No person would read more. */
const mostProblems = 100;

/** Each time it was overtaken by a prune, which comes once a day. */
const mostTries = 5;

/**
 * Reads every manifest and every file that one names. The oldest manifest that remains may follow one that was pruned;
 * from it on there is no gap, every manifest has the hash that the next one names, and every entity continues where it
 * ended. What goes while it is read is no damage: it begins again then.
 */
export async function checkObjects(store: ObjectStore, signal: AbortSignal): Promise<TargetCheck> {
  for (let tried = 1; tried <= mostTries; tried += 1) {
    const check = await checkOnce(store, signal);
    if (check !== null) return check;
  }
  throw new SyncError(
    'Publications of the target were removed again and again while they were read. Check it again when nothing removes them.',
    { code: 'TARGET_FAILED', recovery: 'retry' },
  );
}

/** Null where a publication was pruned meanwhile: then those before it were too, because the oldest go first. */
async function checkOnce(store: ObjectStore, signal: AbortSignal): Promise<TargetCheck | null> {
  const counts = { publications: 0, files: 0, rows: 0, bytes: 0 };
  const problems: string[] = [];
  const isFull = (): boolean => problems.length >= mostProblems;
  let before: StoredManifest | null = null;
  let oldest: number | null = null;
  for await (const stored of readManifests(store, 1)) {
    const { publication } = stored.manifest;
    oldest ??= publication;
    counts.publications += 1;
    const gaps = isFull() ? [] : gapsBetween(before, stored);
    if (gaps.length > 0 && before !== null && !(await isKept(store, before))) return null;
    problems.push(...gaps);
    for (const file of filesOf(stored.manifest)) {
      signal.throwIfAborted();
      counts.files += 1;
      counts.rows += file.rows;
      counts.bytes += file.bytes;
      const problem = await fileProblem(store, file);
      if (problem === null || isFull()) continue;
      if (!(await isKept(store, stored))) return null;
      problems.push(`publication ${publication}: ${problem}`);
    }
    before = stored;
  }
  problems.push(...lostBases(before, oldest), ...(await lostNewest(store, before)));
  return { ...counts, problems: problems.slice(0, mostProblems) };
}

/** A prune removes the manifest before its files. */
async function isKept(store: ObjectStore, { manifest }: StoredManifest): Promise<boolean> {
  return (await store.read(manifestName(manifest.publication))) !== null;
}

function lostBases(newest: StoredManifest | null, oldest: number | null): readonly string[] {
  const entities = newest?.manifest.entities ?? [];
  return entities
    .filter(({ base }) => oldest !== null && base < oldest)
    .map(
      ({ base, ...entity }) =>
        `${entityName(entity)} is read from publication ${base} on, and ${oldest} is the oldest that remains`,
    );
}

/** Of the newest manifest no other one has the hash; but the file that names it is written after it. */
async function lostNewest(store: ObjectStore, newest: StoredManifest | null): Promise<readonly string[]> {
  const last = newest?.manifest.publication ?? 0;
  const noted = await notedNumber(store);
  // It may have been published since the others were read.
  if (noted === null || noted <= last || (await store.read(manifestName(noted))) !== null) return [];
  return [`${missingPublications(last + 1, noted)}: ${latestName} names ${noted} as the newest`];
}

function gapsBetween(before: StoredManifest | null, stored: StoredManifest): readonly string[] {
  const { publication, previous } = stored.manifest;
  if (before === null) {
    return publication > 1 && previous === null ? [`publication ${publication} names none before it`] : [];
  }
  const last = before.manifest.publication;
  // Where entities should continue is in what is missing.
  if (publication !== last + 1) return [missingPublications(last + 1, publication - 1)];
  return [...changedBefore(before, stored), ...continuationGaps(before, stored)];
}

/** Every change is in exactly one publication: an entity continues where it ended, or starts from the beginning. */
function continuationGaps(
  { manifest: before }: StoredManifest,
  { manifest: { publication, entities } }: StoredManifest,
): readonly string[] {
  const lastByName = new Map(before.entities.map((one) => [entityName(one), one]));
  return entities.flatMap(({ generation, after, ...entity }) => {
    const name = entityName(entity);
    const last = lastByName.get(name);
    const expected = last?.generation === generation ? last.through : 0;
    if (after === expected) return [];
    return [`publication ${publication}: ${name} continues after change ${after}, expected ${expected}`];
  });
}

async function fileProblem(
  store: ObjectStore,
  { path, bytes, sha256 }: PublishedFile,
): Promise<string | null> {
  const hash = createHash('sha256');
  let read = 0;
  for await (const chunk of store.stream(path)) {
    hash.update(chunk);
    read += chunk.byteLength;
    if (read > bytes) break;
  }
  if (read === 0 && bytes > 0 && (await store.read(path)) === null) return `${path} is missing`;
  if (read !== bytes) {
    return `${path} has ${read > bytes ? 'more than ' : ''}${Math.min(read, bytes)} bytes, expected ${bytes}`;
  }
  return hash.digest('hex') === sha256 ? null : `${path} has another content than was published`;
}

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
  const lost = gaps.length > 0 ? gaps : await lostFiles(store, newest, first, entities);
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

async function lostFiles(
  store: ObjectStore,
  newest: StoredManifest,
  first: number,
  entities: readonly PublishedEntity[],
): Promise<readonly string[]> {
  const last = newest.manifest.publication;
  const parts = Math.ceil((last - first) / mostRead);
  const from = first + (parts === 0 ? 0 : last % parts) * mostRead;
  const numbers = Array.from({ length: Math.min(mostRead, last - from) }, (_none, index) => from + index);
  const lost: string[] = [];
  const bytesByPath = new Map(neededOf(newest, entities));
  let before: StoredManifest | null = null;
  for (let at = 0; at < numbers.length; at += readAtOnce) {
    const some = numbers.slice(at, at + readAtOnce);
    const read = await Promise.all(some.map(async (number) => await readStored(store, number)));
    for (const [index, stored] of read.entries()) {
      if (stored === null) return [missingPublications(some[index] ?? 0, some[index] ?? 0)];
      lost.push(...changedBefore(before, stored));
      for (const [path, bytes] of neededOf(stored, entities)) bytesByPath.set(path, bytes);
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

/** With their bytes. */
function neededOf(
  { manifest: { publication, entities } }: StoredManifest,
  followed: readonly PublishedEntity[],
): readonly (readonly [path: string, bytes: number])[] {
  return entities.flatMap((one) => {
    const base = followed.find((other) => entityName(other) === entityName(one))?.base;
    if (base === undefined || publication < base) return [];
    return neededFiles(publication, base, one).map(({ path, bytes }) => [path, bytes] as const);
  });
}

function changedBefore(before: StoredManifest | null, { manifest }: StoredManifest): readonly string[] {
  if (before === null || manifest.previous?.sha256 === before.sha256) return [];
  const { publication } = before.manifest;
  return [`${manifestName(publication)} was changed after publication ${publication + 1} named its hash`];
}
