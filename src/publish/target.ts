import type { ConnectorName, EntityName } from '../core/names.ts';
import type { StoredRecord } from '../sinks/record-reader.ts';
import type { EntityTable } from '../core/records.ts';
import type { Manifest, PublishedColumn, PublishedEntity, StoredManifest } from './manifest.ts';
import type { FileCount } from './object-store.ts';

/**
 * A place that publications go to. Rejects with `SyncError` TARGET_FAILED, and TARGET_INCOMPATIBLE where something else
 * is there.
 */
export interface Target extends AsyncDisposable {
  /**
   * How its files are named, with the ending of their format: readers follow them, which a snapshot shortens. Null:
   * tables show the newest state, and no publication has a snapshot.
   */
  readonly layout: string | null;
  /** The newest publication; null before the first. */
  newest(): Promise<StoredManifest | null>;
  /** In the order of their numbers, from `first` on. */
  manifests(first: number): AsyncIterable<StoredManifest>;
  /**
   * What readers of these entities of the newest publication need and do not find, in words: without it a publication
   * that continues them could not be read. It is cheap, and finds less than `check`: no file is read, and of large
   * tables not every row is counted.
   */
  lost(newest: StoredManifest, entities: readonly PublishedEntity[]): Promise<readonly string[]>;
  /** Prepares publication `number`; no reader sees anything of it before `commit`. */
  begin(number: number): Promise<OpenPublication>;
  /** Rejects where no publication could be made: the place cannot be reached or written. Leaves nothing behind. */
  probe(): Promise<void>;
  /** Reads back what was published, without changing anything. Rejects with the signal's reason. */
  check(signal: AbortSignal): Promise<TargetCheck>;
  /**
   * Removes what attempts left that were killed, and what no reader needs of a publication that was the newest one at
   * `keepFromMs` or later (milliseconds since the epoch). Null: every publication stays. `isDryRun`: only says what it
   * would remove. `isErasing`: also what rows that are gone have left in free parts of a file.
   */
  prune(keepFromMs: number | null, isDryRun: boolean, isErasing?: boolean): Promise<PrunedTarget>;
}

/** Disposed without `commit`, or after `taken`, it leaves nothing behind. A killed one leaves what `prune` removes. */
export interface OpenPublication extends AsyncDisposable {
  /** Writes the changes of an entity, and all its rows besides where `snapshot` is given. One entity at a time. */
  write(entity: PlannedEntity, rows: EntityRows): Promise<WrittenEntity>;
  /**
   * Makes it visible, whole. `taken`: another process has published this number meanwhile, and nothing of this one is
   * there.
   */
  commit(manifest: Manifest): Promise<'published' | 'taken'>;
}

/** What an entity of a publication will be, before its rows are written. */
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
  /**
   * What is in no publication, would be in the next one, and is not a day old: a process that is at work may need it.
   */
  readonly waiting: FileCount;
}

/** Of a place without any publication. */
export const nothingChecked: TargetCheck = { publications: 0, files: 0, rows: 0, bytes: 0, problems: [] };
