import type { Params, PreparedRecord } from '../core/records.ts';

/** A record that is not parsed yet: its `values` hold only those of the key. */
export type LookedRecord = Pick<PreparedRecord, 'keyText' | 'values' | 'hash'>;

export interface FoundRow {
  /** The row is not deleted, and has the record's hash. */
  readonly isSame: boolean;
  /** For `PreparedRecord.found`: the commit looks for no row that it can be sure of. */
  readonly found: object;
}

export interface StoredAccount {
  /** Rows that are not deleted. */
  readonly live: number;
  /** Whether the rows were adopted from another address, and no full run has agreed with them since. */
  readonly isAdopted: boolean;
}

/** A row, with the parts that a `get` for it needs. */
export interface StoredKey {
  readonly keyText: string;
  readonly params: Params;
  readonly inject: Params;
}

export const nothingStored: StoredAccount = { live: 0, isAdopted: false };

/** Row numbers after which the rows of a sample are searched, from the first to the last. */
export function spreadOver(lastRow: number, count: number): readonly number[] {
  return Array.from({ length: count }, (_, index) => Math.floor((lastRow * index) / count));
}
