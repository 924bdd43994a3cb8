import * as z from 'zod';
import type { Entity } from '../definitions/definition.ts';
import type { Partition, Position, Proof, WalkFailure } from '../sinks/partition.ts';
import type { SourcePage } from '../source/source.ts';
import { smaller } from './clock-difference.ts';
import type { GroupCommits } from './group-commits.ts';
import type { PageLengths } from '../pagination/page-lengths.ts';
import type { Pagination } from '../pagination/pagination.ts';
import type { PreparedPage, PreparePage } from './prepare/prepare-page.ts';
import type { Run } from './run.ts';
import { afterKeys, noProgress, walkProgress, type WalkProgress } from './walk-progress.ts';

/** What the walks of one entity in one run share. */
export interface WalkContext {
  readonly run: Pick<Run, 'id' | 'source' | 'tally' | 'capMs' | 'clock' | 'onEvent' | 'signal'>;
  readonly commits: GroupCommits;
  readonly inFlight: InFlight;
  readonly entity: Entity;
  /** The walks are bounded at both ends: what they do not meet may lie outside. */
  readonly isBackfill: boolean;
  /** The settings say which of the entity's records are read. */
  readonly isFiltered: boolean;
  readonly pageLengths: PageLengths;
  readonly preparePage: PreparePage;
  /** Called with each page that was stored, and the partitions that became due by it. */
  readonly onStored: (newlyDue: number) => void;
}

export interface Walk extends WalkContext {
  readonly partition: Partition;
  readonly pagination: Pagination;
}

/** Bytes of pages that are received and not yet stored, over all walks of a run. */
export interface InFlight {
  bytes: number;
  readonly maxBytes: number;
}

export type WalkEnd =
  | { readonly kind: 'sealed'; readonly proof: Proof }
  | { readonly kind: 'set-aside'; readonly failure: WalkFailure };

/** A position with what the walk itself adds to it, and the beginnings of this run. */
export interface Standing {
  readonly position: Position;
  readonly state: WalkState;
  readonly restarts: number;
}

/** What a walk notes beside its pagination's position, through every kill: under these names in the stored position. */
export interface WalkState {
  readonly read: number;
  /** The walk's beginning by the service's clock, in milliseconds. Null: a walk of an earlier version, which did not note it. */
  readonly cap: number | null;
  /** The highest change value so far that is not later than the beginning, in milliseconds. */
  readonly high: number | null;
  /** How far the records' clock is behind the service's at most, in milliseconds: see `differenceMs`. Null: not known. */
  readonly behind: number | null;
  readonly refused: number;
  /** Nothing has contradicted the order that was asked for. */
  readonly isSorted: boolean;
  readonly progress: WalkProgress;
}

const storedState = z.object({
  read: z.number().default(0),
  cap: z.number().nullable().default(null),
  high: z.number().nullable().default(null),
  behind: z.number().nullable().default(null),
  // Not noted is not none.
  refused: z.number().default(1),
  isSorted: z.boolean().default(true),
  progress: walkProgress.default(noProgress),
});

/** Of a walk that begins, or begins again, in a run that started at `capMs`. */
export function beginState(capMs: number): WalkState {
  return { read: 0, cap: capMs, high: null, behind: null, refused: 0, isSorted: true, progress: noProgress };
}

/** Of a walk that goes on where a position was stored. */
export function readState(position: Position | null, capMs: number): WalkState {
  return position === null ? beginState(capMs) : storedState.parse(position);
}

/** `isFurther`: as the pagination says of the page. */
export function afterRecords(
  state: WalkState,
  page: SourcePage,
  prepared: PreparedPage,
  isFurther: boolean,
): WalkState {
  const { cap } = state;
  let { high } = state;
  for (const change of cap === null ? [] : prepared.changes) {
    if (change === null || cap === null) continue;
    // Of an array's elements some may be later than the walk's beginning: the others count.
    const settledMs = change.highestMs <= cap ? change.highestMs : change.lowestMs;
    if (settledMs <= cap) high = Math.max(high ?? settledMs, settledMs);
  }
  return {
    ...state,
    read: state.read + page.records.length,
    high,
    behind: smaller(state.behind, prepared.differenceMs),
    refused: state.refused + prepared.refused.length,
    isSorted: state.isSorted && prepared.isSorted,
    progress: afterKeys(state.progress, prepared.keys, isFurther && page.records.length > 0),
  };
}
