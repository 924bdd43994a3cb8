import { createHash, randomBytes } from 'node:crypto';
import { unlink } from 'node:fs/promises';
import type { Clock } from '../core/clock.ts';
import { SyncError } from '../core/errors.ts';
import { eachOf, grouped } from '../core/grouped.ts';
import type { StoredRecord } from '../sinks/readings.ts';
import {
  changedBefore,
  entityName,
  filesOf,
  gapsBetween,
  latestText,
  manifestText,
  missingPublications,
  neededFiles,
  otherVersionAdvice,
  readManifest,
  withLatest,
  type PublishedEntity,
  type PublishedFile,
  type StoredManifest,
} from './manifest.ts';
import type { FileFormat, RowFileWriters } from './row-files.ts';
import {
  atOnce,
  type Leftover,
  type ObjectStore,
  removeOld,
  sumOf,
  type OpenPublication,
  type PlannedEntity,
  type Target,
  type TargetCheck,
} from './target.ts';

const folder = '_publications/';
/** Says which publication is the newest, and how fresh; those that count are found by their names. */
export const latestName = '_latest.json';

export function manifestName(publication: number): string {
  return `${folder}${String(publication).padStart(20, '0')}.json`;
}

/** Numbers of the publications after `after`, ascending. Other files beside their manifests are ignored. */
export async function* publicationNumbers(store: ObjectStore, after: number): AsyncGenerator<number> {
  for await (const { name } of store.list(folder, after > 0 ? manifestName(after) : undefined)) {
    const number = publicationOf(name);
    if (number !== null && number > after) yield number;
  }
}

/** Number of the publication whose manifest has this name; null for any other name. */
export function publicationOf(name: string): number | null {
  const [, digits] = /^_publications\/(\d{20})\.json$/.exec(name) ?? [];
  const number = Number(digits);
  return Number.isSafeInteger(number) ? number : null;
}

/** From publication `first` on, in order. */
export async function* readManifests(store: ObjectStore, first: number): AsyncGenerator<StoredManifest> {
  for await (const number of publicationNumbers(store, first - 1)) {
    const stored = await readStored(store, number);
    // Pruned since it was listed.
    if (stored !== null) yield stored;
  }
}

/**
 * Lists from the publication that `_latest.json` names. Throws `SyncError` TARGET_INCOMPATIBLE if that one is missing:
 * numbers that readers know would be given again, and they would not read them.
 */
export async function readNewest(store: ObjectStore): Promise<StoredManifest | null> {
  const latest = (await store.read(latestName))?.toString() ?? '';
  const noted = notedNumber(latest);
  let number: number | null = null;
  for await (const one of publicationNumbers(store, (noted ?? 1) - 1)) number = one;
  if (number === null && noted !== null && (await store.read(manifestName(noted))) === null) {
    throw new SyncError(
      `The newest manifest ${manifestName(noted)} is gone, and ${latestName} names it. Restore it from a backup; without one, remove ${latestName} and publish with --new-generation, after which readers must start again.`,
      { code: 'TARGET_INCOMPATIBLE', recovery: 'stop', context: { publication: noted } },
    );
  }
  if (number === null) return null;
  const stored = await readStored(store, number);
  if (stored !== null) return withLatest(stored, latest);
  throw new SyncError(
    `The newest manifest ${manifestName(number)} was listed and is gone. If nothing else removes files there, publish again.`,
    { code: 'TARGET_FAILED', recovery: 'retry', context: { publication: number } },
  );
}

/** The number in `_latest.json`, at least 1; null if the file is missing or has no usable number. It may lag. */
function notedNumber(text: string): number | null {
  const [, digits] = /"publication":\s*(\d{1,15})/.exec(text) ?? [];
  return digits === undefined ? null : Math.max(1, Number(digits));
}

export async function readStored(store: ObjectStore, publication: number): Promise<StoredManifest | null> {
  const name = manifestName(publication);
  const bytes = await store.read(name);
  if (bytes === null) return null;
  try {
    return readManifest(bytes.toString(), publication);
  } catch (error) {
    throw new SyncError(
      `${name} is not a manifest that this version reads: ${error instanceof Error ? error.message : String(error)}. ` +
        `${otherVersionAdvice} Else restore it from a backup; without one, remove it and ${latestName}, and publish with --new-generation, after which readers must start again.`,
      { code: 'TARGET_INCOMPATIBLE', recovery: 'stop', context: { manifest: name }, cause: error },
    );
  }
}

/** How files are named, as manifests say it: flat, because deep trees are slow to list. */
const layout = '{connector}/{entity}/g{generation}/{kind}/{publication}-{part}';

/** Matches what `writeFiles` makes, and no file that another program may have put there. */
const partPattern =
  /^[a-z0-9_-]+\/[a-z0-9_]+\/g\d+\/(?:changes|snapshot)\/(?<publication>\d{8,})-\d{4,}-(?<attempt>[0-9a-f]{8})\.(?:parquet|jsonl|csv)$/;

/** No person would read more. */
const mostProblems = 100;

/** A check starts again each time that a prune overtakes it; a prune comes once a day. */
const mostTries = 5;

/**
 * Reads every manifest and every file that one names. The oldest manifest that remains may follow one that was pruned;
 * from it on there is no gap, every manifest has the hash that the next one names, and every entity continues where it
 * ended. Data that is pruned during the check is no damage: the check starts again.
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

/**
 * Finds a loss of the newest manifest: no other manifest has its hash, but the file that names it is written after it.
 */
async function lostNewest(store: ObjectStore, newest: StoredManifest | null): Promise<readonly string[]> {
  const last = newest?.manifest.publication ?? 0;
  const noted = notedNumber((await store.read(latestName))?.toString() ?? '');
  // It may have been published since the others were read.
  if (noted === null || noted <= last || (await store.read(manifestName(noted))) !== null) return [];
  return [`${missingPublications(last + 1, noted)}: ${latestName} names ${noted} as the newest`];
}

async function fileProblem(store: ObjectStore, { path, bytes, sha256 }: PublishedFile) {
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

/** Manifests that are read for one publication; of a longer chain, another part each time. */
const mostRead = 50;

/**
 * Manifests (by name and hash) and files (by name and length) that readers of these entities need, from the `base` of
 * each up to `newest`, and that are missing, in words. Compares all names of manifests each time; spreads the files of
 * a chain of more than 50 publications over the next few.
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
  const read = new Map<number, StoredManifest | null>();
  await eachOf(numbers, atOnce, async (number) => void read.set(number, await readStored(store, number)));
  const lost: string[] = [];
  const bytesByPath = new Map(neededOf(newest, entities));
  let before: StoredManifest | null = null;
  for (const number of numbers) {
    const stored = read.get(number) ?? null;
    if (stored === null) return [missingPublications(number, number)];
    lost.push(...changedBefore(before, stored));
    for (const [path, bytes] of neededOf(stored, entities)) bytesByPath.set(path, bytes);
    before = stored;
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

/** Names of the needed files, with their bytes. */
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

/**
 * Removes the oldest publications, up to those that a reader of any that was the newest at `keepFromMs` or later needs;
 * then files and leftovers of this program that no manifest names. These go at once if their number was published,
 * because no attempt ends with a number that is taken, and otherwise when they are a day old by this machine's clock:
 * S3 refuses the requests of a machine whose clock is minutes off. Manifests go first, from the oldest on, so that none
 * ever names a removed file. If every publication stays, there may be any number of manifests: only those whose number
 * more than one attempt has are read. `keepFromMs` null: every publication stays. A dry run counts what it would
 * remove.
 */
async function pruneObjects(store: ObjectStore, clock: Clock, keepFromMs: number | null, isDryRun: boolean) {
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
  // Listed first: the manifests that are read later include any that was made meanwhile.
  const leftovers = await store.leftovers();
  const { unnamed, newest: newestNow } = await findUnnamed(store);
  const left = [...unnamed, ...leftovers].map((one): Leftover => {
    const groups = partPattern.exec(one.name ?? '')?.groups;
    return { ...one, isOver: Number(groups?.['publication'] ?? Infinity) <= newestNow };
  });
  const { removed, waiting } = await removeOld(left, clock.now(), isDryRun);
  const published = [...files.values()].map((bytes) => ({ files: 1, bytes }));
  return { publications: old.length, ...sumOf([removed, ...published]), waiting };
}

type Kept = ReturnType<typeof keptOf>;

/** Facts of a manifest that the choice needs; there may be thousands of manifests. */
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

/** Files of attempts that were killed or are in progress, and the newest publication meanwhile. */
async function findUnnamed(store: ObjectStore) {
  const found: Found[] = [];
  const numbers = new Set<number>();
  let newest = 0;
  for await (const { name, bytes, modifiedAtMs } of store.list('')) {
    const number = publicationOf(name);
    if (number !== null) {
      numbers.add(number);
      newest = number;
    }
    const groups = partPattern.exec(name)?.groups;
    if (groups === undefined) continue;
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
  const named = new Set<string>();
  for (const [number, files] of grouped(found, ({ publication }) => publication)) {
    if (!numbers.has(number)) continue;
    // A publication is of one attempt: where all files with its number are of the same one, these are its files.
    if (new Set(files.map(({ attempt }) => attempt)).size === 1) {
      for (const { name } of files) named.add(name);
      continue;
    }
    const stored = await readStored(store, number);
    for (const { path } of stored === null ? [] : filesOf(stored.manifest)) named.add(path);
  }
  // Published since the manifests were read.
  for await (const { manifest } of readManifests(store, newest + 1)) {
    newest = manifest.publication;
    for (const { path } of filesOf(manifest)) named.add(path);
  }
  return { unnamed: found.filter(({ name }) => !named.has(name)), newest };
}

interface ObjectTargetOptions {
  readonly store: ObjectStore;
  readonly writers: RowFileWriters;
  readonly format: FileFormat;
  readonly clock: Clock;
}

const maxRows = 1_000_000;
/** Files without a manifest are removed after a day: a publication must be there before. */
const longestMs = 20 * 3_600_000;

/** Publications as files of a folder or a bucket: a manifest under a name that nothing had is the commit. */
export function openObjectTarget(options: ObjectTargetOptions): Target {
  const { store, writers, clock } = options;
  return {
    layout: `${layout}.${options.format}`,
    newest: async () => await readNewest(store),
    manifests: (first) => readManifests(store, first),
    lost: async (newest, entities) => await lostObjects(store, newest, entities),
    tell: async (newest) => {
      await writeLatest(store, newest);
      return true;
    },
    begin: (number) => Promise.resolve(beginPublication(options, number)),
    // A store that would let one publisher overwrite another refuses to create anything.
    probe: async () => {
      const name = `_publications/probe-${randomBytes(4).toString('hex')}.json`;
      await store.create(name, '{"probe":1}\n');
      await store.remove([name]);
    },
    check: async (signal) => await checkObjects(store, signal),
    prune: async (keepFromMs, isDryRun) => await pruneObjects(store, clock, keepFromMs, isDryRun),
    [Symbol.asyncDispose]: async () => {
      await writers[Symbol.asyncDispose]();
      await store[Symbol.asyncDispose]();
    },
  };
}

async function writeLatest(store: ObjectStore, newest: StoredManifest): Promise<void> {
  await store.replace(latestName, latestText(newest, manifestName(newest.manifest.publication)));
}

function beginPublication(
  { store, writers, format, clock }: ObjectTargetOptions,
  number: number,
): OpenPublication {
  /** In the name of each file: no name comes twice. */
  const attempt = randomBytes(4).toString('hex');
  const begunMs = clock.now();
  /** Names by the paths of staged files. */
  const staged = new Map<string, string>();
  const names: string[] = [];
  // Kept: a manifest names them, or may, where it is unknown whether it is there.
  let areKept = false;

  /** Files of one kind of an entity, under their names but not yet in a manifest. */
  const writeFiles = async (
    entity: PlannedEntity,
    kind: 'changes' | 'snapshot',
    batches: AsyncIterable<readonly StoredRecord[]>,
  ) => {
    await using rowFiles = await writers.open({
      format,
      table: entity.table,
      columns: entity.columns,
      described: entity.described,
      maxRows,
      maxBytes: store.maxFileBytes,
      pathOf: async (part) => {
        const file = `${String(number).padStart(8, '0')}-${String(part).padStart(4, '0')}-${attempt}.${format}`;
        const name = `${entity.connector}/${entity.entity}/g${entity.generation}/${kind}/${file}`;
        const path = await store.stage(name);
        staged.set(path, name);
        return path;
      },
    });
    let [rows, deletes] = [0, 0];
    for await (const records of batches) {
      await rowFiles.write(records);
      rows += records.length;
      deletes += records.filter(({ isDeleted }) => isDeleted).length;
    }
    const files: PublishedFile[] = [];
    for (const { path: stagedPath, ...facts } of await rowFiles.finish()) {
      const name = staged.get(stagedPath) ?? '';
      names.push(name);
      await store.put(name, stagedPath, facts);
      staged.delete(stagedPath);
      files.push({ path: name, ...facts });
    }
    return { rows, deletes, files };
  };

  return {
    write: async (entity, { changes, snapshot }) => {
      const { rows, deletes, files } = await writeFiles(entity, 'changes', changes);
      const all = snapshot === null ? null : await writeFiles(entity, 'snapshot', snapshot);
      const whole = all && { rows: all.rows, files: all.files };
      return { upserts: rows - deletes, deletes, files, snapshot: whole };
    },
    commit: async (manifest) => {
      if (clock.now() - begunMs > longestMs) throw tooLongError(number);
      const text = manifestText(manifest);
      areKept = true;
      const isCreated = (await store.create(manifestName(number), text)) === 'created';
      // A commit whose answer was lost, and that was made again, finds itself.
      areKept = isCreated || (await store.read(manifestName(number)))?.toString() === text;
      if (!areKept) return 'taken';
      // It only saves listing: the publication exists without it, and the next one writes it again.
      await writeLatest(store, readManifest(text)).catch(() => undefined);
      return 'published';
    },
    [Symbol.asyncDispose]: async () => {
      if (areKept) return;
      areKept = true;
      // `prune` removes files that cannot be removed now, as after a kill; the error that led here is the one to
      // report.
      for (const path of staged.keys()) await unlink(path).catch(() => undefined);
      await store.remove(names).catch(() => undefined);
    },
  };
}

function tooLongError(publication: number): SyncError {
  return new SyncError(
    `Publication ${publication} took longer than 20 hours, and files without a manifest are removed after a day. ` +
      'Publish fewer connectors per target, or to a faster place.',
    { code: 'TARGET_FAILED', recovery: 'stop', context: { publication } },
  );
}
