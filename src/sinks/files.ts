import type { Instant } from '../core/clock.ts';
import type { Failure } from '../core/errors.ts';
import type { EntityName } from '../core/names.ts';
import type { RecordFile } from '../core/records.ts';
import type { openFileFolder } from './files/open-file-folder.ts';

/** The files of one connector. */
export type FileFolder = ReturnType<typeof openFileFolder>;

export interface WantedFile extends RecordFile {
  /** Row number in the ledger. */
  readonly id: number;
  readonly entity: EntityName;
  readonly keyText: string;
}

export interface StoredFile {
  /** Name in the entity's folder. */
  readonly file: string;
  readonly bytes: number;
  /** In hex. */
  readonly sha256: string;
  /** Type sent by the service; null where it sent none. */
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
  /** File that replaced it. */
  readonly current: string;
}
