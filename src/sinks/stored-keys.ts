import type { EntityName } from '../core/names.ts';
import type { Params, PreparedRecord } from '../core/records.ts';
import type { StoredRow } from './decisions/meet-record.ts';
import type { Lease } from './lease.ts';

/** Cheap queries on what is stored of the entities of the lease's run. Read only. */
export interface StoredKeys {
  /** Costs a row, however many are stored. */
  account(lease: Lease, entity: EntityName): Promise<StoredAccount>;
  /** How many of these records have a row, deleted or not. */
  known(lease: Lease, entity: EntityName, records: readonly PreparedRecord[]): Promise<number>;
  /**
   * Of each record, in order, the hashes of its row where that is not deleted and is known to have been stored from the
   * same bytes; `other` where it was stored from other ones; null where that is not known. Looks for no row where
   * nothing is remembered of the entity. A commit may change the answer.
   */
  same(
    lease: Lease,
    entity: EntityName,
    records: readonly RawRecord[],
  ): Promise<readonly (SameRow | 'other' | null)[]>;
  /**
   * At most `count` rows that are not deleted, spread over all that were stored when a sync last ended well; none where
   * none has.
   */
  spread(lease: Lease, entity: EntityName, count: number): Promise<readonly StoredKey[]>;
}

/** A record that is not parsed yet: of its values those of the key are there. `raw`: as of `PreparedRecord`. */
export type RawRecord = Pick<PreparedRecord, 'keyText' | 'values'> & Required<Pick<PreparedRecord, 'raw'>>;

/** `found` is for `PreparedRecord.found`: the commit looks for no row that it can be sure of. */
export type SameRow = Pick<StoredRow, 'hash' | 'volatileHash'> & Required<Pick<PreparedRecord, 'found'>>;

export interface StoredAccount {
  /** Rows that are not deleted. */
  readonly live: number;
  /** They were adopted from another address, and no full run has agreed with them since. */
  readonly isAdopted: boolean;
}

/** A row, with what a `get` for it takes. */
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
