import type { ConnectorName, EntityName } from '../core/names.ts';
import type { StoredRecord } from '../sinks/readings.ts';
import type { EntityTable } from '../core/records.ts';
import type { Manifest, PublishedColumn, PublishedEntity, StoredManifest } from './manifest.ts';
import type { FileCount } from './object-store.ts';

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
  /** The newest publication; null before the first. */
  newest(): Promise<StoredManifest | null>;
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
