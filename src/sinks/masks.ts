import type { Instant } from '../core/clock.ts';
import type { JsonObject, JsonValue } from '../core/json.ts';
import type { EntityName } from '../core/names.ts';
import type { Column, RecordFile } from '../core/records.ts';
import type { RowFacts } from './record-reader.ts';
import type { LeftStep, PurgeRequest } from './purges.ts';

/** Mask under which the records of an entity are stored. */
export interface PlannedMask {
  readonly entity: EntityName;
  /** Changes with its rules and its key. */
  readonly mask: string;
  /** Identifies the key. */
  readonly keyId: string;
}

/** Mask of stored records, and the time before which other data may be stored. */
export interface StoredMask {
  readonly entity: EntityName;
  /** Changes with its rules and its key. */
  readonly mask: string;
  readonly keyId: string;
  /** When the first run with it began. Null: nothing was stored before it. */
  readonly since: Instant | null;
  /** When the entity had been read whole with it; null: not yet. */
  readonly readAt: Instant | null;
  /** Deleted rows, whenever they were deleted: no read brings them again. */
  readonly deleted: number;
  /** Quarantined records from before it. */
  readonly quarantined: number;
}

export interface MaskRequest {
  readonly masks: readonly PlannedMask[];
  readonly maskings: readonly EntityMasking[];
  /** Null: the file is removed. Resolves where that is done already. */
  readonly renameFile: (entity: EntityName, from: string, to: string | null) => Promise<void>;
  readonly targets: PurgeRequest['targets'];
  readonly signal: AbortSignal;
}

/** Mask of a table for stored data. Each function returns values that are hashes already unchanged. */
export interface EntityMasking {
  readonly entity: EntityName;
  /** The entity whose mask it is: of a table of elements the one that they came with. */
  readonly of: EntityName;
  /** The members of a row, by column. The same object where nothing changes. */
  readonly row: (members: JsonObject) => JsonObject;
  /** Masks a record as it came, or its part in `_extra`. */
  readonly record: (value: JsonValue) => JsonValue;
  /** Null: the row stays as it is. */
  readonly cells: (
    columns: readonly Column[],
    row: Pick<RowFacts, 'values' | 'extra'>,
  ) => Pick<RowFacts, 'values' | 'extra' | 'hash'> | null;
  /** Masks the facts about a record's file. */
  readonly file: (said: Pick<RecordFile, 'name' | 'contentType'>) => Pick<RecordFile, 'name' | 'contentType'>;
  /** The version of a file is a hash of masked fields. */
  readonly hidesVersions: boolean;
}

/** Data of an entity that is, or would be, removed because its stored keys are not those of the masks. */
export interface RemovedOf {
  readonly entity: EntityName;
  /** Deleted ones included. */
  readonly rows: number;
  /** No read brings these again, nor versions. */
  readonly deleted: number;
  readonly versions: number;
}

/** Data of an entity that is, or would be, rewritten. */
export interface RewrittenOf {
  readonly entity: EntityName;
  readonly rows: number;
  readonly versions: number;
  /** Records in quarantine. */
  readonly quarantined: number;
  /** Names of files. */
  readonly files: number;
  /** Lines of a JSONL sink. */
  readonly lines: number;
}

export interface MaskEnd {
  /** If not empty, nothing was rewritten so far. */
  readonly removed: readonly RemovedOf[];
  readonly entities: readonly RewrittenOf[];
  /** Texts of listings and runs: positions and messages of failures. */
  readonly texts: number;
  readonly left: readonly LeftStep[];
}
