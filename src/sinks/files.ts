import type { Instant } from '../core/clock.ts';
import type { Failure } from '../core/errors.ts';
import type { EntityName } from '../core/names.ts';
import type { RecordFile } from '../core/records.ts';

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
