import type { RowFacts } from './row-facts.ts';

/** `values`: in the order of `EntityTable.columns`. */
export interface StoredRecord extends Pick<RowFacts, 'seq' | 'changedAt' | 'run' | 'values' | 'extra'> {
  /** A tombstone: only the key's values are sure to be there. */
  readonly isDeleted: boolean;
}

export interface KeyAndHash {
  /** As `PreparedRecord.keyText` has it. */
  readonly keyText: string;
  readonly hash: string;
}
