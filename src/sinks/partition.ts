import type { Instant } from '../core/clock.ts';
import type { JsonValue } from '../core/json.ts';
import type { EntityName, RunId } from '../core/names.ts';
import type { Params } from '../core/records.ts';
import type { FileFailure } from './files.ts';

/** Full: from the start to the end. Incremental: only changes since the watermark. */
export type WalkMode = 'full' | 'incremental';

/** A unit of walking: found on a page, or a root of the plan. Identity: connector, entity, params. */
export interface FoundPartition {
  readonly entity: EntityName;
  /** Canonical: the values that identify the partition; paging, order and fixed parameters are not among them. */
  readonly params: Params;
  /** Fields filled into every record of the partition (field -> value). */
  readonly inject: Readonly<Record<string, JsonValue>>;
  /** Distance from the root entity, plus depth in a tree: deeper ones start first. */
  readonly rank: number;
  /** Depth of a listing inside a tree (the tree's root listing has 0). Null elsewhere. */
  readonly treeDepth: number | null;
  /** The partition whose tree this listing belongs to; null for any other partition. */
  readonly tree: number | null;
  /** Record that led to the partition; null for a root and for a listing inside a tree. */
  readonly parent: { readonly entity: EntityName; readonly keyText: string } | null;
  /**
   * The parent's change value: found with the same one again, it need not be read. Null: it is read whenever it is
   * found.
   */
  readonly marker: Marker | null;
  /** In a backfill: the parameters of the living partition that these records belong to. Null elsewhere. */
  readonly base: Params | null;
}

export interface Marker {
  readonly value: string;
  /**
   * False: the parent changed so shortly before this run that another change could leave the same value. The partition
   * is read again when found again.
   */
  readonly isSettled: boolean;
}

export interface Partition extends Omit<FoundPartition, 'parent' | 'marker' | 'base'> {
  /** Row number in the ledger. */
  readonly id: number;
  /** Position of the last commit, as the engine wrote it. Null: from the start. */
  readonly position: Position | null;
  /** Mode of this walk, decided when the partition became due. */
  readonly mode: WalkMode;
  /** Every record whose change value is at or before this is stored. Null: nothing is known. */
  readonly watermark: Instant | null;
  /**
   * Known number of rows: live ones that it owns, counted up to 1,001, or the reach of its last full walk. 0 where it
   * is not read in full.
   */
  readonly storedRows: number;
  /** Clock differences stored with its last seal, in milliseconds. Empty: unknown. */
  readonly clockDifferences: readonly number[];
}

/** Progress of a walk: written by the pagination strategy, opaque to the sink (JSON, at most 64 KiB). */
export type Position = Readonly<Record<string, JsonValue>> & { readonly kind: string };

export interface WalkRef {
  readonly partition: number;
  readonly run: RunId;
}

export const proofKinds = ['single', 'seam', 'token', 'keyset'] as const;
export type ProofKind = (typeof proofKinds)[number];

/** Proof that a walk is complete. `isOrdered` false: the order was unknown, so that rows may have been missed. */
export interface Proof {
  readonly kind: ProofKind;
  readonly isOrdered: boolean;
  /**
   * All answers named one total, and as many different records came: the listing was shown whole, whatever its order.
   */
  readonly isCounted?: true;
}

/**
 * Confirmation required before a row that a full walk did not meet counts as deleted. From the strongest walk to the
 * weakest: `nothing` (the walk is proof enough), a `get`, another full `walk`; null: the walk proves nothing about such
 * rows.
 */
export type Absence = 'nothing' | 'get' | 'walk' | null;

/** Records of a page for which `size` were asked. */
export interface PageLength {
  readonly size: number;
  readonly records: number;
}

/** Reason why the end of a walk proves nothing: the listing may have records that it did not show. */
export type Doubt =
  /** The API counts more records than the listing showed. */
  | { readonly kind: 'total'; readonly total: number; readonly shown: number }
  /** The last page came again where the next one was expected, and nothing says that this is the end. */
  | { readonly kind: 'repeats' }
  /** The service showed a part of the listing. `by`: the sign of that, as the definition names it. */
  | { readonly kind: 'cut'; readonly by: string }
  /**
   * The listing shows a record whose key another listing (`other`, by its id) shows with other content, so that one row
   * (by its number) stands for both. `key` and `params`, of the other one: for people; the ledger does not keep them.
   */
  | {
      readonly kind: 'collision';
      readonly row: number;
      readonly other: number;
      readonly key?: Params;
      readonly params?: Params;
    }
  /** The definition rests on these guesses of an import, which nothing has proven. */
  | { readonly kind: 'unproven'; readonly guesses: readonly string[] }
  /** Rows are stored that lie further behind its end than was looked. */
  | { readonly kind: 'behind' }
  /** Many records came again in the middle of later pages: the order changes from call to call. */
  | { readonly kind: 'shuffled' };

export interface Seal {
  /** Doubt with which the seal concludes nothing: no order, no watermark, no absence. */
  readonly doubt?: Doubt;
  /**
   * Largest delay of the records' clock behind the service's `Date`, in milliseconds, in each of the last walks.
   * Absent: not known.
   */
  readonly clockDifferences?: readonly number[];
  /** The furthest row that the walk has reached, counted from 1. Absent: places are not counted, or it was not full. */
  readonly reach?: number;
  /** The page that counted as the last one because it was short. Absent: the end is known in another way. */
  readonly lastPage?: PageLength;
  readonly proof: Proof;
  /** The highest change value of a proven walk that is not later than the run's start. Null: the watermark stays. */
  readonly watermark: Instant | null;
  readonly absence: Absence;
}

/** `runs`: chains of runs in a row whose walk ended with the same doubt. */
export type StoredDoubt = Doubt & { readonly runs: number };

/** Stored proof of a partition's last walk. */
export interface StoredProof extends Proof, Pick<Seal, 'clockDifferences' | 'lastPage' | 'reach'> {
  readonly doubt?: StoredDoubt;
  /** Doubt of the previous walk, until the whole tree is read. */
  readonly doubtBefore?: StoredDoubt;
  /** When it was last read in full to an end without a doubt; null: never. */
  readonly readAt: Instant | null;
}

export interface WalkFailure extends FileFailure {
  readonly dropPosition: boolean;
  /** The incremental reading itself does not work (the service ignores it): the next walk is a full one. */
  readonly dropWatermark: boolean;
}

/** A walk that ended and does not count. */
export interface UnsealedWalk {
  readonly mode: WalkMode;
  readonly proof: StoredProof;
}
