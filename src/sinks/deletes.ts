import type { Instant } from '../core/clock.ts';
import type { EntityName } from '../core/names.ts';
import type { PreparedRecord } from '../core/records.ts';
import type { StoredKey } from './stored-keys.ts';

export interface EndedPartition {
  readonly id: number;
  readonly entity: EntityName;
}

export type TombstoneChoice = 'allowed' | 'missed-twice' | 'all';

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
