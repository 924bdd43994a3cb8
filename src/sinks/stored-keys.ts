import type { Params, PreparedRecord } from '../core/records.ts';
import type { StoredRow } from './decisions/meet-record.ts';

/** A record that is not parsed yet: its `values` hold only those of the key. `raw`: as in `PreparedRecord`. */
export type RawRecord = Pick<PreparedRecord, 'keyText' | 'values'> & Required<Pick<PreparedRecord, 'raw'>>;

/** `found` is for `PreparedRecord.found`: the commit looks for no row that it can be sure of. */
export type SameRow = Pick<StoredRow, 'hash' | 'volatileHash'> & Required<Pick<PreparedRecord, 'found'>>;

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
