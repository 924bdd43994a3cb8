import type { StoredRecord } from '../sinks/record-reader.ts';

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
