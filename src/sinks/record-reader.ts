import type { Instant } from '../core/clock.ts';
import type { RunId } from '../core/names.ts';
import type { ColumnValue } from '../core/records.ts';

/** `values`: in the order of `EntityTable.columns`. */
export interface StoredRecord extends Pick<RowFacts, 'seq' | 'changedAt' | 'run' | 'values' | 'extra'> {
  /** A tombstone: only the key's values are sure to be there. */
  readonly isDeleted: boolean;
}

export interface KeyAndHash {
  /** Key, as in `PreparedRecord.keyText`. */
  readonly keyText: string;
  readonly hash: string;
}

/** The sink's own columns of a row, with its values. */
export interface RowFacts {
  readonly row: number;
  readonly firstSeenAt: Instant;
  readonly changedAt: Instant;
  readonly run: RunId;
  readonly seq: number;
  readonly hash: string;
  readonly volatileHash: string | null;
  readonly deletedAt: Instant | null;
  /** Id of its partition. */
  readonly owner: number | null;
  readonly extra: string | null;
  /** In the order of the table's columns; booleans are 0 and 1, integers may be bigint. */
  readonly values: readonly ColumnValue[];
}
