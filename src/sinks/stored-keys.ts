import type { EntityName } from '../core/names.ts';
import type { Params, PreparedRecord } from '../core/records.ts';
import type { Lease } from './lease.ts';

/** Cheap queries on what is stored of the entities of the lease's run. Read only. */
export interface StoredKeys {
  /** Costs a row, however many are stored. */
  account(lease: Lease, entity: EntityName): Promise<StoredAccount>;
  /** How many of these records have a row, deleted or not. */
  known(lease: Lease, entity: EntityName, records: readonly PreparedRecord[]): Promise<number>;
  /**
   * At most `count` rows that are not deleted, spread over all that were stored when a sync last ended well; none where
   * none has.
   */
  spread(lease: Lease, entity: EntityName, count: number): Promise<readonly StoredKey[]>;
}

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
