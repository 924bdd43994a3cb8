import type { Instant } from '../core/clock.ts';
import type { EntityName, RunId } from '../core/names.ts';
import type { PageCounts, PreparedRecord } from '../core/records.ts';
import type { Lease } from './lease.ts';
import type { RowsOf } from './run-report.ts';
import type { StoredKey } from './stored-keys.ts';

/**
 * What comes after a run's walks. Facts only: the engine judges what they mean. Every call is one transaction, fenced
 * like a commit, and may be repeated after a kill; a run that resumes another resumes its sweep.
 */
export interface Deletes {
  /** The best number of rows for a call: it takes some tens of milliseconds. */
  readonly batchRows: number;
  /**
   * The next batch of rows that this chain's full walks did not meet: notes them as missing. `isDone`: every swept
   * partition is through.
   */
  sweep(lease: Lease, run: RunId, limit: number): Promise<{ readonly isDone: boolean }>;
  /**
   * Notes as missing the records whose children do not exist according to the API (404 in this run), where `get` can
   * judge them: listings of changes would not show it for days.
   */
  suspectParents(lease: Lease, run: RunId, confirmable: readonly EntityName[]): Promise<void>;
  /**
   * Partitions that this run has set aside and whose parent has turned out to be deleted: nothing is wrong with them.
   */
  endedBelow(lease: Lease, run: RunId): Promise<readonly EndedPartition[]>;
  /**
   * What the deletes of missing rows would come to, with the rows that would go along. Before `sweep` is done: of what
   * is noted so far.
   */
  missing(lease: Lease, run: RunId): Promise<readonly EntityMissing[]>;
  /**
   * A person lets the deletes of this entity pass: what is missing now is no longer withheld, by this run or a later
   * one.
   */
  allow(lease: Lease, run: RunId, entity: EntityName): Promise<void>;
  /**
   * Missing rows that a `get` must judge, never asked ones first, then those asked longest ago. Handed out, a row
   * counts as asked: no other call of this run gives it again.
   */
  toConfirm(lease: Lease, run: RunId, entity: EntityName, limit: number): Promise<readonly Candidate[]>;
  /**
   * Stores what `get` returned, and gives counts of the records that were stored. Rows that it did not find need
   * nothing more to be tombstoned in this run.
   */
  judge(lease: Lease, run: RunId, entity: EntityName, judgements: readonly Judgement[]): Promise<PageCounts>;
  /** Tombstones up to `limit` missing rows of the entity that need nothing more; gives how many (0: none is left). */
  tombstone(
    lease: Lease,
    run: RunId,
    entity: EntityName,
    which: TombstoneChoice,
    limit: number,
  ): Promise<number>;
  /**
   * The next batch of rows below tombstoned records, orphans or not; empty: none is left. Those that may have moved are
   * noted as orphans, for a `get` (0 rows); they go when it has found nothing.
   */
  tombstoneBelow(lease: Lease, run: RunId, limit: number): Promise<readonly RowsOf[]>;
}

export interface EndedPartition {
  readonly id: number;
  readonly entity: EntityName;
}

export type TombstoneChoice = 'allowed' | 'missed-twice' | 'all';

export interface EntityMissing {
  readonly entity: EntityName;
  /** Rows without a tombstone, missing ones included. What lies below deleted records counts as deleted. */
  readonly live: number;
  /**
   * Rows of 24 hours ago; on an entity's first day those that it began with. Without those that a person has let go
   * since.
   */
  readonly dayAgo: number;
  /** Of them: deleted since, without a person's permission. */
  readonly deletedInDay: number;
  readonly missing: number;
  /** Of them: a person let their deletes pass. */
  readonly allowed: number;
  /** Of them: missed by two full walks or more, of different chains. */
  readonly missedTwice: number;
  /** Of them: the last `get` returned them, and another is sent before they are deleted. */
  readonly vouchedFor: number;
  /** Waiting for a `get`, orphans included. */
  readonly toConfirm: number;
  /** Not among `missing`: rows below deleted records that may have moved elsewhere, which a `get` must show. */
  readonly orphans: number;
  /** A row that was stored before the first of the missing ones was missed is still there. */
  readonly hasSurvivor: boolean;
  /** Rows that would go along with missing ones that are neither allowed nor vouched for, at any depth. */
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
    };
