import type { Instant } from '../core/clock.ts';
import type { Failure } from '../core/errors.ts';
import type { ConnectorName, EntityName, RunId } from '../core/names.ts';
import type { PageCounts, Params } from '../core/records.ts';
import type { Doubt, ProofKind } from './partition.ts';

/** Number of rows of an entity. */
export interface RowsOf {
  readonly entity: EntityName;
  readonly rows: number;
}

export interface LeftWork {
  readonly entity: EntityName;
  readonly partitions: number;
}

/** `sync` is the ordinary run; the others run beside it and leave its chain of runs alone. */
export type RunKind = 'sync' | 'backfill' | 'refetch' | 'undo';

export type RunOutcome = 'ok' | 'partial' | 'degraded' | 'failed' | 'interrupted';

export interface RunReport {
  readonly run: RunId;
  readonly kind: RunKind;
  readonly connector: ConnectorName;
  readonly outcome: RunOutcome;
  readonly startedAt: Instant;
  readonly finishedAt: Instant;
  readonly continues: RunId | null;
  readonly entities: readonly EntityReport[];
  readonly calls: number;
  readonly retries: number;
  readonly waitedMs: number;
  readonly bytes: number;
  /** Limit of calls a second and its source, where the config does not set one. */
  readonly rate?: { readonly requestsPerSecond: number; readonly by: 'definition' | 'api' };
  /** Failures, at most 100; `failuresOmitted` counts the others. */
  readonly failures: readonly FailureReport[];
  readonly failuresOmitted: number;
  /**
   * Error that ended a `failed` run. Recovery `retry`: a later run may succeed without help; any other: a person must
   * act.
   */
  readonly error: Failure | null;
  /**
   * The service asked for no calls until then, and the run ended early (`partial`); the next one resumes it. Null
   * elsewhere.
   */
  readonly resumeAt: Instant | null;
  /** Reason for `resumeAt` if the service did not ask for it: a network in front of it refused calls. */
  readonly resumeBecause?: string;
  /** Work that is due and was not read: set aside, or beyond the run's budget. */
  readonly left: readonly LeftWork[];
  /** Calls that a later run without limits spends on `toConfirm` at most; absent where nothing is to confirm. */
  readonly confirmation?: { readonly callsPerRun: number };
  /** Listings at the end of the run, whichever run has read them. */
  readonly partMissing: readonly DoubtedListings[];
  readonly unconfirmed: readonly ListingsOf[];
  /** Files of the entities whose files this run was to fetch; empty where there are none. */
  readonly files: readonly FileReport[];
}

/** Number of listings of an entity. */
export interface ListingsOf {
  readonly entity: EntityName;
  readonly listings: number;
}

/** Listings of an entity whose last walk ended with a doubt. */
export interface DoubtedListings extends ListingsOf {
  /** One of them: the doubt reported here was found in the most runs. */
  readonly params: Params;
  readonly doubt: Doubt;
  /** So many chains of runs in a row have found the same. */
  readonly runs: number;
}

export interface FileReport {
  readonly entity: EntityName;
  readonly stored: number;
  /** Size of the stored files. */
  readonly bytes: number;
  /** Requested, but not received. */
  readonly failed: number;
  /** Files wanted at the end: those that failed, and those that the run did not reach. */
  readonly left: number;
}

export interface EntityReport {
  readonly entity: EntityName;
  readonly counts: PageCounts;
  readonly pages: number;
  /** Walks read to their end, by the kind of their proof. */
  readonly proofs: Readonly<Record<ProofKind, number>>;
  readonly setAside: number;
  /** Sealed walks without a doubt and without proof of a known order. */
  readonly unordered: number;
  /** Fields kept in `_extra` because they have no column or do not fit it. */
  readonly extraFields: number;
  /** Records whose change value cannot be read as a time: only full reads see their changes. */
  readonly undated: number;
  /** Listings not entered because they lie below the definition's depth limit. */
  readonly depthLimited: number;
  /** Records met in a listing that is not their own (synced copies); counted among the duplicates. */
  readonly foreign: number;
  /**
   * Records that came only in part and whose rows stay as they were stored; counted among the unchanged ones and
   * duplicates.
   */
  readonly partial: number;
  /**
   * Whether its `completeness` is `complete` or `unconfirmed`: no part is missing, and nothing failed or is left to
   * read.
   */
  readonly isProven: boolean;
  readonly completeness: Completeness;
  /** Sealed walks that read from a watermark instead of from the start. */
  readonly incremental: number;
  /** Rows tombstoned by this run, those below vanished parents included. */
  readonly deleted: number;
  /** Rows that seem deleted and that a guard keeps: a person must check. */
  readonly withheld: number;
  /** Rows that seem deleted and wait for a `get` or for another full walk. */
  readonly pending: number;
  /** Pending rows that later runs request by `get`. */
  readonly toConfirm: number;
  /** Full walks that missed a record which `get` still returns: they prove nothing, and are repeated. */
  readonly withdrawn: number;
  /** Reason for `withheld`; null where nothing is withheld. */
  readonly withheldBecause: WithheldBecause | null;
  /** The numbers that the guards compared where something is `withheld`. */
  readonly withholding: Withholding | null;
  /**
   * For a run that ended `ok` or `degraded`: whether nothing of the entity, nor of its parents, was left out since the
   * chain of runs began.
   */
  readonly isWhole: boolean;
}

/**
 * `share`: too many rows of the entity would be deleted within 24 hours. `along`: too many rows of others would be
 * deleted along. `empty`: the entity came back empty. `replaced`: none of the stored records came back, and others did.
 * `adopted`: the rows were adopted from another address, and no full run has agreed with them since.
 */
export type WithheldBecause = 'share' | 'along' | 'empty' | 'replaced' | 'adopted';

export interface Withholding {
  /** Rows of 24 hours ago. */
  readonly dayAgo: number;
  /** Rows deleted since then. */
  readonly deletedInDay: number;
  /** Rows of the entity that would be deleted along with records of others which look deleted. */
  readonly below: number;
  /** Rows of other entities that would be deleted along with the withheld ones. */
  readonly along: readonly RowsOf[];
  readonly maxDeleteShare: number;
  readonly minDeleteRows: number;
}

export interface FailureReport extends Failure {
  readonly entity: EntityName;
  readonly params: Params;
}

/** A doubt as the ledger and the log have it: with numbers for the record and the listing that it names. */
export function withoutKey<Found extends Pick<DoubtedListings, 'doubt'>>(found: Found): Found {
  const { doubt } = found;
  if (doubt.kind !== 'collision') return found;
  return { ...found, doubt: { kind: doubt.kind, row: doubt.row, other: doubt.other } };
}

/**
 * Words for the completeness of an entity's stored records, from the worst to the best. `not-yet`: listings failed or
 * are left to read. `part-missing`: a listing ended with a doubt, so that the service may have records that it did not
 * show. `unconfirmed`: everything was read to its end, and the service offers no proof of that. `complete`: proven.
 */
export const completenessWords = ['not-yet', 'part-missing', 'unconfirmed', 'complete'] as const;
export type Completeness = (typeof completenessWords)[number];

/** Facts about an entity's own listings. */
export interface ListingFacts {
  /** Some listings failed, or are left to read. */
  readonly isUnread: boolean;
  /** Some listings ended with a doubt. */
  readonly isDoubted: boolean;
  /** Some listings were read in unknown order, and no total agreed. */
  readonly isUnordered: boolean;
}

/**
 * Completeness of an entity as shown to readers: the worst of its own listings and of those that lead to them
 * (`leading`), because no listing below an unseen record was read.
 */
export function completenessOf(facts: ListingFacts, leading: readonly Completeness[]): Completeness {
  const { isUnread, isDoubted, isUnordered } = facts;
  const holds = new Set(leading);
  if (isUnread) holds.add('not-yet');
  if (isDoubted) holds.add('part-missing');
  if (isUnordered) holds.add('unconfirmed');
  return completenessWords.find((word) => holds.has(word)) ?? 'complete';
}
