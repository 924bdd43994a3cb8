import { hash } from 'node:crypto';
import * as z from 'zod';
import type { Entity } from '../definitions/definition.ts';
import type { Partition, Position, Seal, WalkFailure } from '../sinks/partition.ts';
import { smaller } from './clock-difference.ts';
import type { CheckAccount } from './check-account.ts';
import type { CompletePage, CompletedPage } from './complete-page.ts';
import type { GroupCommits } from './group-commits.ts';
import type { PageLengths } from '../pagination/page-lengths.ts';
import type { Pagination } from '../pagination/pagination.ts';
import type { PreparedPage, PreparePage } from './prepare/prepare-page.ts';
import type { Run } from './run.ts';

/** What the walks of one entity in one run share. */
export interface WalkContext {
  readonly run: Pick<
    Run,
    'id' | 'source' | 'tally' | 'capMs' | 'clock' | 'onEvent' | 'shownProgress' | 'signal'
  >;
  readonly commits: GroupCommits;
  /** Bytes of pages that are received and not yet stored, over all walks of a run. */
  readonly inFlight: { bytes: number; readonly maxBytes: number };
  readonly entity: Entity;
  /** The walks are bounded at both ends: what they do not meet may lie outside. */
  readonly isBackfill: boolean;
  /** The settings say which of the entity's records are read. */
  readonly isFiltered: boolean;
  readonly pageLengths: PageLengths;
  /**
   * How often pages had to be halved in this run before the service gave one in time: walks that begin later do not try
   * larger ones.
   */
  readonly slowPages: { halvings: number };
  /** False: what answers name as total is used for nothing. */
  readonly trustsTotal: boolean;
  readonly completePage: CompletePage;
  readonly checkAccount: CheckAccount;
  readonly preparePage: PreparePage;
  /** Called with each page that was stored, and the partitions that became due by it. */
  readonly onStored: (newlyDue: number) => void;
}

export interface Walk extends WalkContext {
  readonly partition: Partition;
  readonly pagination: Pagination;
}

export type WalkEnd =
  | { readonly kind: 'sealed'; readonly seal: Seal }
  | { readonly kind: 'set-aside'; readonly failure: WalkFailure };

/** A position with what the walk itself adds to it, and the beginnings of this run. */
export interface WalkPoint {
  readonly position: Position;
  readonly state: WalkState;
  readonly restarts: number;
  /** Of its pages, in this run. */
  readonly halvings: number;
}

/** Of the keys that a walk has met it keeps so many: those with the smallest hashes. */
const sampleSize = 100;
/**
 * Pages in a row that may lead no further, and records beyond those that the rules below allow: some services send many
 * empty pages.
 */
const patience = 1_000;
/** How often a record may come while a walk continues: pages of eleven records overlap by ten. */
const mostRepeats = 32;
/** So many times what a walk had read before may come again, as rows move: then it is no accident. */
const mostRereads = 4;

const hashes = z.array(z.string()).readonly();

/**
 * Whether a walk gets anywhere, whatever its strategy: kept in its position, so that it survives a kill. A key that was
 * not met before joins a full sample with a probability of its size to all keys met. So a walk that continues is all
 * but certain (1 to 10^13) to change its sample before it has read four times as much again, and one that only meets
 * known keys never does.
 */
const walkProgress = z.object({
  /** Pages in a row that were empty, or led to no row behind those read. */
  stalled: z.number(),
  sample: hashes,
  /** Records up to the last change of the sample; an empty page counts as one. */
  before: z.number(),
  /** Records since then, and the sample of their keys alone. */
  since: z.number(),
  sinceSample: hashes,
});
type WalkProgress = Readonly<z.infer<typeof walkProgress>>;

export const noProgress: WalkProgress = { stalled: 0, sample: [], before: 0, since: 0, sinceSample: [] };

/** What a walk notes beside its pagination's position, through every kill: under these names in the stored position. */
const walkState = z.object({
  read: z.number(),
  /** The walk's beginning by the service's clock, in milliseconds. */
  cap: z.number(),
  /** The highest change value so far that is not later than the beginning, in milliseconds. */
  high: z.number().nullable(),
  /**
   * How far the records' clock is behind the service's at most, in milliseconds: see `differenceMs`. Null: not known.
   */
  behind: z.number().nullable(),
  /** Records that were refused. */
  refused: z.number(),
  /** Records that came in part and stayed so. */
  partial: z.number(),
  /** Of these, those that `get` could not be asked for just then. */
  unanswered: z.number(),
  /** Nothing has contradicted the order that was asked for. */
  isSorted: z.boolean(),
  progress: walkProgress,
});
export type WalkState = Readonly<z.infer<typeof walkState>>;

/** Of a walk that begins, or begins again, in a run that started at `capMs`. */
export function beginState(capMs: number): WalkState {
  return {
    read: 0,
    cap: capMs,
    high: null,
    behind: null,
    refused: 0,
    partial: 0,
    unanswered: 0,
    isSorted: true,
    progress: noProgress,
  };
}

/** Of a walk that resumes at a stored position. */
export function readState(position: Position): WalkState {
  return walkState.parse(position);
}

/** `isFurther`: as the pagination says of the page. */
export function afterRecords(
  state: WalkState,
  { page, unanswered }: CompletedPage,
  prepared: PreparedPage,
  isFurther: boolean,
): WalkState {
  const { cap } = state;
  let { high } = state;
  for (const change of prepared.changes) {
    if (change === null) continue;
    // Of an array's elements some may be later than the walk's beginning: the others count.
    const settledMs = change.highestMs <= cap ? change.highestMs : change.lowestMs;
    if (settledMs <= cap) high = Math.max(high ?? settledMs, settledMs);
  }
  return {
    ...state,
    read: state.read + page.records.length,
    high,
    behind: smaller(state.behind, prepared.differenceMs),
    refused: state.refused + prepared.stored.refused.length,
    partial: state.partial + prepared.partial,
    unanswered: state.unanswered + unanswered,
    isSorted: state.isSorted && prepared.isSorted,
    progress: afterKeys(state.progress, prepared.keys, isFurther && page.records.length > 0),
  };
}

/** `keys`: of the page's records that have one. `isFurther`: the page reaches behind what was read. */
export function afterKeys(progress: WalkProgress, keys: readonly string[], isFurther: boolean): WalkProgress {
  const { before, since, sinceSample } = progress;
  const stalled = isFurther ? 0 : progress.stalled + 1;
  const met = keys.map((key) => hash('sha256', key, 'hex').slice(0, 8));
  const sample = withSmallest(progress.sample, met);
  const read = since + Math.max(1, keys.length);
  return sample === progress.sample
    ? { stalled, sample, before, since: read, sinceSample: withSmallest(sinceSample, met) }
    : { stalled, sample, before: before + read, since: 0, sinceSample: [] };
}

/** Why the walk must stop; null while it makes progress. */
export function stuckBecause({ stalled, before, since, sinceSample }: WalkProgress): string | null {
  const advice =
    'what was read is kept, and the next run begins this listing again; report it to the operator of the service if it stays so';
  if (stalled > patience) {
    return `expected each page to lead on, got ${stalled} in a row that were empty or showed no row behind those read; ${advice}`;
  }
  const isCounted = sinceSample.length < sampleSize;
  const most = isCounted
    ? mostRepeats * sinceSample.length
    : Math.max(mostRepeats * sampleSize, mostRereads * before);
  if (since <= patience + most) return null;
  const shown = isCounted ? `${sinceSample.length} different ones` : 'all known before';
  return `expected each page to lead to other records, got the same ones again and again: the last ${since} were ${shown}; ${advice}`;
}

/** The sample itself where none of `met` belongs into it. */
function withSmallest(sample: readonly string[], met: readonly string[]): readonly string[] {
  const largest = sample.length < sampleSize ? null : (sample.at(-1) ?? null);
  const known = new Set(sample);
  const joining = new Set(met.filter((one) => (largest === null || one < largest) && !known.has(one)));
  return joining.size === 0 ? sample : [...sample, ...joining].toSorted().slice(0, sampleSize);
}
