import type { Instant } from '../core/clock.ts';
import type { Failure } from '../core/errors.ts';
import type { EntityName, RunId } from '../core/names.ts';
import type { RecordFile } from '../core/records.ts';
import type { Lease } from './lease.ts';

/**
 * The ledger's account of records' files. That a file is wanted is noted with its record, whether files are fetched or
 * not; a tombstoned record's file is no longer wanted, and what is stored stays. Every call is one fenced transaction,
 * and may be repeated after a kill.
 */
export interface Files {
  /**
   * Up to `limit` wanted files of the entity: those never tried before those that failed longest ago. Not those that
   * failed in this run.
   */
  next(lease: Lease, run: RunId, entity: EntityName, limit: number): Promise<readonly WantedFile[]>;
  /**
   * The file is durable in the connector's folder. What the record's earlier version left under another name is noted
   * as replaced.
   */
  stored(lease: Lease, run: RunId, wanted: WantedFile, file: StoredFile): Promise<void>;
  /** It stays wanted, for a later run. */
  setAside(lease: Lease, run: RunId, wanted: WantedFile, failure: FileFailure): Promise<void>;
  /** How many files of each of these entities are wanted still; those of none are left out. */
  left(lease: Lease, run: RunId, entities: readonly EntityName[]): Promise<readonly LeftFiles[]>;
  /** Up to `limit` files that another version of them has replaced, and that are to be removed. */
  replaced(lease: Lease, run: RunId, limit: number): Promise<readonly ReplacedFile[]>;
  removed(lease: Lease, run: RunId, files: readonly ReplacedFile[]): Promise<void>;
  /**
   * Those of the names that belong to no file of the entity, stored or replaced: a killed run wrote them and noted
   * nothing.
   */
  unknown(lease: Lease, run: RunId, entity: EntityName, files: readonly string[]): Promise<readonly string[]>;
}

export interface WantedFile extends RecordFile {
  /** Row number in the ledger. */
  readonly id: number;
  readonly entity: EntityName;
  readonly keyText: string;
}

export interface StoredFile {
  /** Its name in the entity's folder. */
  readonly file: string;
  readonly bytes: number;
  /** In hex. */
  readonly sha256: string;
  /** As the service sent it; null where it sent none. */
  readonly contentType: string | null;
}

export interface FileFailure extends Failure {
  readonly at: Instant;
}

export interface LeftFiles {
  readonly entity: EntityName;
  readonly files: number;
}

export interface ReplacedFile {
  readonly id: number;
  readonly entity: EntityName;
  readonly file: string;
  /** What is in its place now. */
  readonly current: string;
}

export interface FileFolder {
  /**
   * Makes the entity's folder, removes leftovers of killed processes. Resolves with names of which several belong to
   * one record: some may be left over. Throws SINK_INCOMPATIBLE where a link or a file is in its place; SINK_FULL or
   * SINK_FAILED, as `store` and `remove` do.
   */
  prepare(entity: EntityName): Promise<readonly string[]>;
  /**
   * Resolves when all bytes are durable under their final name, which follows from key and name. Rejects with what
   * `bytes` throws, and leaves what was there.
   */
  store(file: FileToStore): Promise<Omit<StoredFile, 'contentType'>>;
  /**
   * Resolves where the file no longer exists, too. `current` is what is in its place; null: nothing is. Where both
   * names lead to one file, as some file systems take `A` for `a`, it stays.
   */
  remove(entity: EntityName, file: string, current: string | null): Promise<void>;
  /** Resolves where `from` no longer exists, too. `to` is replaced. */
  rename(entity: EntityName, from: string, to: string): Promise<void>;
}

interface FileToStore {
  readonly entity: EntityName;
  readonly keyText: string;
  /** Untrusted; null: the service sent none. */
  readonly name: string | null;
  readonly bytes: AsyncIterable<Uint8Array>;
}
