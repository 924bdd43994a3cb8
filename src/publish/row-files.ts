import type { EntityTable } from '../core/records.ts';
import type { StoredRecord } from '../sinks/record-reader.ts';
import type { PublishedColumn } from './manifest.ts';

export type FileFormat = 'parquet' | 'jsonl' | 'csv';

/**
 * Rows of one entity become files, each of at most `maxRows` rows and about `maxBytes` bytes. Disposed before `finish`,
 * it removes its files.
 */
export interface RowFiles extends AsyncDisposable {
  /** Resolves when the next batch may come. Rejects with `SyncError` TARGET_FAILED where a file cannot be written. */
  write(records: readonly StoredRecord[]): Promise<void>;
  /** The files on disk, synced and read back where the format has a footer; none where there were no rows. */
  finish(): Promise<readonly WrittenFile[]>;
}

export interface WrittenFile {
  /** What `pathOf` gave. */
  readonly path: string;
  readonly rows: number;
  readonly bytes: number;
  readonly sha256: string;
  readonly firstSeq: number;
  readonly lastSeq: number;
}

export interface RowFilesOptions {
  readonly format: FileFormat;
  readonly table: EntityTable;
  /** In the order of `table.columns`: under which name each is written. */
  readonly columns: readonly PublishedColumn[];
  /** Absolute path of part 1, 2, ...: it is created for its owner alone (0600), and must not exist. */
  readonly pathOf: (part: number) => Promise<string>;
  readonly maxRows: number;
  readonly maxBytes: number;
}

/** Opens files in one process; `parquet` is written by a child process, which ends with `dispose`. */
export interface RowFileWriters extends AsyncDisposable {
  open(options: RowFilesOptions): Promise<RowFiles>;
}

/**
 * One file that rows are written to. Its methods reject with `SyncError` TARGET_FAILED, and are called one after the
 * other.
 */
export interface RowFile {
  /** Resolves when the next rows may come. */
  write(records: readonly StoredRecord[]): Promise<void>;
  /** So far; what is held back to be written together does not count yet. */
  bytes(): number;
  /** Resolves when all of it is on the disk. */
  close(rows: RowsOfFile): Promise<{ readonly bytes: number; readonly sha256: string }>;
  /** Removes the file, closed or not. */
  remove(): Promise<void>;
}

/** What was written to it. */
export interface RowsOfFile {
  readonly rows: number;
  readonly firstSeq: number;
  readonly lastSeq: number;
}
