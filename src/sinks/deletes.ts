import type { Instant } from '../core/clock.ts';
import type { EntityName } from '../core/names.ts';
import type { PreparedRecord } from '../core/records.ts';
import type { RowsOf } from './run-report.ts';
import type { StoredKey } from './stored-keys.ts';

export interface EndedPartition {
  readonly id: number;
  readonly entity: EntityName;
}

export type TombstoneChoice = 'allowed' | 'missed-twice' | 'all';

export interface EntityMissing {
  readonly entity: EntityName;
  /** Rows without a tombstone, including missing ones. Rows below deleted records count as deleted. */
  readonly live: number;
  /**
   * Rows 24 hours ago; on an entity's first day, the rows that it began with. Rows whose deletion a person has allowed
   * since are not counted.
   */
  readonly dayAgo: number;
  /** Rows deleted within these 24 hours without a person's permission. */
  readonly deletedInDay: number;
  readonly missing: number;
  /** Missing rows whose deletion a person has allowed. */
  readonly allowed: number;
  /** Missing rows that full walks of at least two chains did not meet. */
  readonly missedTwice: number;
  /** Missing rows that the last `get` returned. Another `get` is sent before they are deleted. */
  readonly vouchedFor: number;
  /** Waiting for a `get`, orphans included. */
  readonly toConfirm: number;
  /** Rows below deleted records that may have moved, which only a `get` can show; not counted in `missing`. */
  readonly orphans: number;
  /** A row that was stored before the first of the missing ones was missed is still there. */
  readonly hasSurvivor: boolean;
  /** Rows at any depth that would be deleted along with missing ones that are neither allowed nor vouched for. */
  readonly along: readonly RowsOf[];
  /** The rows were adopted from another address, and no full run has agreed with them since. */
  readonly isAdopted: boolean;
}

/** `params` and `inject` are those of the partition that should have shown it. */
export interface Candidate extends StoredKey {
  readonly entity: EntityName;
  readonly row: number;
  /** `get` has returned it before, although listings leave it out. */
  readonly wasVouchedFor: boolean;
  readonly missingSince: Instant;
}

export type Judgement =
  | { readonly row: number; readonly verdict: 'gone' }
  | {
      readonly row: number;
      readonly verdict: 'there';
      /** Null: it could not be placed from its record alone, and stays as it is stored. */
      readonly record: PreparedRecord | null;
      /** Listings are known to leave such records out (a trashed page): that they did is no fault of the walk. */
      readonly isUnlisted: boolean;
      /** The record is one that is put in quarantine: the walk met it, and did not recognize it. */
      readonly isRefused: boolean;
    };

/** That no walk met the row of the record does not mean that a listing lacked it. */
export function isNoFault({ isUnlisted, isRefused }: Extract<Judgement, { verdict: 'there' }>): boolean {
  return isUnlisted || isRefused;
}
