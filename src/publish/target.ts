import { type Recovery, SyncError } from '../core/errors.ts';
import { eachOf } from '../core/grouped.ts';
import type { ConnectorName, EntityName } from '../core/names.ts';
import type { DescribedTable, EntityTable } from '../core/records.ts';
import type { StoredRecord } from '../sinks/readings.ts';
import type { Manifest, PublishedColumn, PublishedEntity, StoredManifest } from './manifest.ts';
import type { ColumnKind } from './typed-columns.ts';

/**
 * A place that publications go to. Rejects with `SyncError` TARGET_FAILED, and TARGET_INCOMPATIBLE where something else
 * is there.
 */
export interface Target extends AsyncDisposable {
  /**
   * The pattern of its file names, with the ending of their format. Readers follow the files, and a snapshot shortens
   * their way. Null: tables show the newest state, and no publication has a snapshot.
   */
  readonly layout: string | null;
  /** The newest publication, with its recorded freshness; null before the first. */
  newest(): Promise<StoredManifest | null>;
  /** Replaces the freshness of the newest publication. False: another process has published meanwhile. */
  tell(newest: StoredManifest): Promise<boolean>;
  /** In the order of their numbers, from `first` on. */
  manifests(first: number): AsyncIterable<StoredManifest>;
  /**
   * Data that readers of these entities of the newest publication need and do not find, in words: without it a
   * publication that continues them could not be read. Cheap, and less thorough than `check`: reads no file, and does
   * not count every row of large tables.
   */
  lost(newest: StoredManifest, entities: readonly PublishedEntity[]): Promise<readonly string[]>;
  /** Prepares publication `number`; no reader sees anything of it before `commit`. */
  begin(number: number): Promise<OpenPublication>;
  /** Rejects where no publication could be made: the place cannot be reached or written. Leaves nothing behind. */
  probe(): Promise<void>;
  /** Reads back the publications, without changing anything. Rejects with the signal's reason. */
  check(signal: AbortSignal): Promise<TargetCheck>;
  /**
   * Removes leftovers of killed attempts, and files that no reader needs of a publication that was the newest one at
   * `keepFromMs` or later (milliseconds since the epoch). Null: every publication stays. `isDryRun`: only reports what
   * it would remove. `isErasing`: also erases removed rows from free parts of a file.
   */
  prune(keepFromMs: number | null, isDryRun: boolean, isErasing?: boolean): Promise<PrunedTarget>;
}

/**
 * Disposed without `commit`, or after `taken`, it leaves nothing behind. A killed one leaves files that `prune`
 * removes.
 */
export interface OpenPublication extends AsyncDisposable {
  /** Writes the changes of an entity, and with `snapshot` all its rows. One entity at a time. */
  write(entity: PlannedEntity, rows: EntityRows): Promise<WrittenEntity>;
  /**
   * Makes it visible as a whole. `taken`: another process has published this number meanwhile, and nothing of this
   * publication remains.
   */
  commit(manifest: Manifest): Promise<'published' | 'taken'>;
}

/** An entity of a publication, before its rows are written. */
export interface PlannedEntity extends Omit<
  PublishedEntity,
  'connector' | 'entity' | 'upserts' | 'deletes' | 'files' | 'snapshot'
> {
  readonly connector: ConnectorName;
  readonly entity: EntityName;
  /** As it is stored; its columns are those of `columns`, in the same order. */
  readonly table: EntityTable;
  readonly columns: readonly PublishedColumn[];
  /** How columns with `as` are read, by their fields. */
  readonly kinds: ReadonlyMap<string, ColumnKind>;
  /** In the words of the definition, by field; null: its data was removed. */
  readonly described: DescribedTable | null;
  /** Rows of earlier publications no longer count. */
  readonly isNewGeneration: boolean;
}

/** Each can be read once, `changes` first. */
export interface EntityRows {
  /** Since `after`, in the order of `_seq`. */
  readonly changes: AsyncIterable<readonly StoredRecord[]>;
  /** Rows that are not deleted; null unless the publication holds a snapshot. */
  readonly snapshot: AsyncIterable<readonly StoredRecord[]> | null;
}

export type WrittenEntity = Pick<PublishedEntity, 'upserts' | 'deletes' | 'files' | 'snapshot'>;

export interface TargetCheck extends FileCount {
  readonly publications: number;
  readonly rows: number;
  /** In words: a missing file, another hash, a gap in the numbers. */
  readonly problems: readonly string[];
}

export interface PrunedTarget extends FileCount {
  readonly publications: number;
  /** Files in no publication that are less than a day old: a running process may need them for the next one. */
  readonly waiting: FileCount;
}

/** Result for a place without any publication. */
export const nothingChecked: TargetCheck = { publications: 0, files: 0, rows: 0, bytes: 0, problems: [] };

/**
 * Stores the files of a target: a folder, or a bucket. Names are relative, with `/`. Rejects with `SyncError`
 * TARGET_FAILED.
 */
export interface ObjectStore extends AsyncDisposable {
  /** A file with as many bytes gets no more rows. */
  readonly maxFileBytes: number;
  /** Lists objects in the order of their names, only those after `after`. */
  list(prefix: string, after?: string): AsyncIterable<ListedObject>;
  /** Bytes of the existing objects, by name. */
  sizes(names: readonly string[]): Promise<ReadonlyMap<string, number>>;
  /** Null if it does not exist. */
  read(name: string): Promise<Buffer | null>;
  /** Yields its parts in order; nothing if it does not exist. */
  stream(name: string): AsyncIterable<Uint8Array>;
  /** Absolute path of a local file to write first; `put` takes it from there. */
  stage(name: string): Promise<string>;
  /**
   * Stores the staged file under its name: complete, and on the disk or acknowledged. The staged file no longer exists
   * then.
   */
  put(
    name: string,
    staged: string,
    facts: { readonly bytes: number; readonly sha256: string },
  ): Promise<void>;
  /**
   * Writes a small text under an unused name. `exists`: the name is in use, and its content is unchanged. If the answer
   * is lost, it is looked up.
   */
  create(name: string, text: string): Promise<'created' | 'exists'>;
  /** Writes a small text under a name that may exist. */
  replace(name: string, text: string): Promise<void>;
  /** Removes objects; a missing one is no error. */
  remove(names: readonly string[]): Promise<void>;
  /** Staged files that killed processes have left. */
  leftovers(): Promise<readonly Leftover[]>;
}

export interface ListedObject {
  readonly name: string;
  readonly bytes: number;
  readonly modifiedAtMs: number;
}

export interface FileCount {
  readonly files: number;
  readonly bytes: number;
}

/** A file or a folder. */
export interface Leftover extends FileCount {
  /** Name of the object that it is, or would have become. */
  readonly name?: string;
  readonly modifiedAtMs: number;
  /** Another attempt has won: however young it is, it is never needed. */
  readonly isOver?: boolean;
  /** Removes it; no error if another process has removed it meanwhile. */
  readonly remove: () => Promise<void>;
}

/** Advice about failures, by a pattern of its code or text; the first that matches counts. */
export type Advices = readonly (readonly [
  pattern: RegExp,
  advice: string,
  recovery?: Recovery,
  code?: 'TARGET_INCOMPATIBLE',
])[];

/** A failure of a target: what failed, in words without values, and the advice for `by`. */
export function failedError(
  said: string,
  by: string,
  advices: Advices,
  about: { readonly context: SyncError['context']; readonly cause?: unknown },
): SyncError {
  const [, advice = '', recovery = 'stop', code = 'TARGET_FAILED'] =
    advices.find(([pattern]) => pattern.test(by)) ?? [];
  return new SyncError(`${said}. ${advice}`, { code, recovery, ...about });
}

/** Refuses a place that holds something else, or whose content is not as it was left. */
export function unusableTarget(place: string, found: string, advice: string): SyncError {
  return new SyncError(`${place} cannot be used as a target: ${found}. ${advice}`, {
    code: 'TARGET_INCOMPATIBLE',
    recovery: 'stop',
    context: { place },
  });
}

/** Requests at once for objects by their names: not every server takes many of them in one. */
export const atOnce = 8;

/** Leftovers younger than a day may belong to a running process. */
const leftoverMs = 24 * 3_600_000;

/**
 * Removes leftovers of attempts that are over, and those that are old enough at `nowMs`; a dry run counts them.
 * `waiting`: those that are too young.
 */
export async function removeOld(found: readonly Leftover[], nowMs: number, isDryRun: boolean) {
  const isYoung = ({ isOver, modifiedAtMs }: Leftover): boolean =>
    isOver !== true && modifiedAtMs >= nowMs - leftoverMs;
  const [young, old] = [found.filter(isYoung), found.filter((one) => !isYoung(one))];
  if (!isDryRun) await eachOf(old, atOnce, async ({ remove }) => await remove());
  return { removed: sumOf(old), waiting: sumOf(young) };
}

export function sumOf(counts: readonly FileCount[]): FileCount {
  const sum = { files: 0, bytes: 0 };
  for (const { files, bytes } of counts) {
    sum.files += files;
    sum.bytes += bytes;
  }
  return sum;
}
