import { createHash, randomBytes } from 'node:crypto';
import { SyncError } from '../core/errors.ts';
import type { PublishedFile, StoredManifest } from './manifest.ts';
import { manifestName, readManifests } from './object-manifests.ts';
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
    `The target overwrote ${name} although it was told to create it only if it is not there: two publishers would overwrite each other's publications. Use a store with conditional writes.`,
    { code: 'TARGET_INCOMPATIBLE', recovery: 'stop' },
  );
}

/** More would not be read by anybody. */
const mostProblems = 100;

/**
 * Reads every manifest and every file that one names. The oldest manifest that remains may follow one that was pruned; from it on there is no gap, every
 * manifest has the hash that the next one names, and every entity continues where it ended.
 */
export async function checkObjects(store: ObjectStore, signal: AbortSignal): Promise<TargetCheck> {
  const counts = { publications: 0, files: 0, rows: 0, bytes: 0 };
  const problems: string[] = [];
  const note = (problem: string): void => {
    if (problems.length < mostProblems) problems.push(problem);
  };
  let before: StoredManifest | null = null;
  let oldest: number | null = null;
  for await (const stored of readManifests(store, 1)) {
    const { publication, entities } = stored.manifest;
    oldest ??= publication;
    counts.publications += 1;
    checkLink(before, stored, note);
    if (before !== null) checkFollows(before, stored, note);
    for (const entity of entities) {
      for (const file of [...entity.files, ...(entity.snapshot?.files ?? [])]) {
        signal.throwIfAborted();
        counts.files += 1;
        counts.rows += file.rows;
        counts.bytes += file.bytes;
        const problem = await fileProblem(store, file);
        if (problem !== null) note(`Publication ${publication}: ${problem}`);
      }
    }
    before = stored;
  }
  for (const { connector, entity, base } of before?.manifest.entities ?? []) {
    if (oldest === null || base >= oldest) continue;
    note(
      `${connector}/${entity} is read from publication ${base} on, and ${oldest} is the oldest that remains`,
    );
  }
  return { ...counts, problems };
}

function checkLink(
  before: StoredManifest | null,
  { manifest }: StoredManifest,
  note: (text: string) => void,
) {
  const { publication, previous } = manifest;
  if (before === null) {
    if (publication > 1 && previous === null) note(`Publication ${publication} names none before it`);
    return;
  }
  const expected = before.manifest.publication;
  if (publication !== expected + 1) {
    note(
      `Of the publications between ${expected} and ${publication}, ${publication - expected - 1} are missing`,
    );
  } else if (previous?.publication !== expected || previous.sha256 !== before.sha256) {
    note(`${manifestName(expected)} was changed after publication ${publication} named its hash`);
  }
}

/** Every change is in exactly one publication: an entity continues where it ended, or starts from the beginning. */
function checkFollows(
  { manifest: before }: StoredManifest,
  { manifest: { publication, entities } }: StoredManifest,
  note: (text: string) => void,
): void {
  const lastByName = new Map(before.entities.map((one) => [`${one.connector}/${one.entity}`, one]));
  for (const { connector, entity, generation, after } of entities) {
    const name = `${connector}/${entity}`;
    const last = lastByName.get(name);
    const expected = last?.generation === generation ? last.through : 0;
    if (after === expected) continue;
    note(`Publication ${publication}: ${name} continues after change ${after}, expected ${expected}`);
  }
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
