import { createHash, randomBytes } from 'node:crypto';
import { SyncError } from '../core/errors.ts';
import { missingPublications } from './chain-problems.ts';
import type { PublishedFile, StoredManifest } from './manifest.ts';
import { latestName, manifestName, notedNumber, readManifests } from './object-manifests.ts';
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

/** More would not be read by anybody. */
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
    for (const file of filesOf(stored)) {
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

function filesOf({ manifest }: StoredManifest): readonly PublishedFile[] {
  return manifest.entities.flatMap(({ files, snapshot }) => [...files, ...(snapshot?.files ?? [])]);
}

function lostBases(newest: StoredManifest | null, oldest: number | null): readonly string[] {
  const entities = newest?.manifest.entities ?? [];
  return entities
    .filter(({ base }) => oldest !== null && base < oldest)
    .map(
      ({ connector, entity, base }) =>
        `${connector}/${entity} is read from publication ${base} on, and ${oldest} is the oldest that remains`,
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
  const link =
    previous?.publication === last && previous.sha256 === before.sha256
      ? []
      : [`${manifestName(last)} was changed after publication ${publication} named its hash`];
  return [...link, ...continuationGaps(before, stored)];
}

/** Every change is in exactly one publication: an entity continues where it ended, or starts from the beginning. */
function continuationGaps(
  { manifest: before }: StoredManifest,
  { manifest: { publication, entities } }: StoredManifest,
): readonly string[] {
  const lastByName = new Map(before.entities.map((one) => [`${one.connector}/${one.entity}`, one]));
  return entities.flatMap(({ connector, entity, generation, after }) => {
    const name = `${connector}/${entity}`;
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
