import type { Instant } from '../../core/clock.ts';
import type { Absence, WalkMode } from '../partition.ts';

/** A walk that has been read to its end, with what was known of its partition before. */
export interface EndedWalk {
  readonly mode: WalkMode | null;
  /** It began where a walk of an earlier chain had stopped. */
  readonly isMidway: boolean;
  /** The chain of runs that made it. */
  readonly origin: number;
  readonly watermark: Instant | null;
  /** The parent's change value when it was found. */
  readonly foundMarker: string | null;
  readonly fullAt: Instant | null;
  readonly fullOrigin: number | null;
  /** A record led to it. */
  readonly isBelowRecord: boolean;
}

/** What it proves, of the walk and of its chain. */
export interface WalkProof {
  /** A listing of the tree ended with a doubt: the walk proves nothing. */
  readonly isDoubted: boolean;
  /** Of the weakest listing of a tree. */
  readonly absence: Absence;
  readonly watermark: Instant | null;
  readonly chainStartedAt: Instant;
}

/** What is known of the partition from now on. */
export interface Conclusion {
  readonly watermark: Instant | null;
  /** The parent's change value with which it need not be read again. */
  readonly marker: string | null;
  /**
   * When the chain began whose full walk counts, with every row that it missed noted; null: the next walk is a full
   * one.
   */
  readonly fullAt: Instant | null;
  /** The chain of the newest full walk that proves something of rows that it did not meet. */
  readonly fullOrigin: number | null;
  /** That chain, where the rows which the walk did not meet are still to be looked for. */
  readonly sweepOrigin: number | null;
}

/**
 * A full walk shows the newest change time: a wrong clock may once have given a later one. What a walk that began
 * midway did not meet proves nothing, as its first half may have changed: the next walk is a full one.
 */
export function concludeWalk(
  walk: EndedWalk,
  { isDoubted, absence, watermark, chainStartedAt }: WalkProof,
): Conclusion {
  if (isDoubted) return asBefore(walk);
  const isFull = walk.mode === 'full';
  const isSwept = isFull && !walk.isMidway && absence !== null;
  return {
    watermark: laterWatermark(walk, watermark),
    marker: walk.foundMarker,
    fullAt: nextFullAt(walk, absence, chainStartedAt),
    fullOrigin: isSwept ? walk.origin : walk.fullOrigin,
    sweepOrigin: isSwept ? walk.origin : null,
  };
}

/**
 * A walk that proves nothing: the next one reads the same. What lies below a record may not be found again before its
 * parent changes: it is still read again, as it has no full walk.
 */
function asBefore({ watermark, fullAt, fullOrigin, isBelowRecord }: EndedWalk): Conclusion {
  return { watermark, marker: null, fullAt: isBelowRecord ? null : fullAt, fullOrigin, sweepOrigin: null };
}

function laterWatermark({ mode, watermark: before }: EndedWalk, found: Instant | null): Instant | null {
  const isKept = found === null || (mode === 'incremental' && before !== null && before >= found);
  return isKept ? before : found;
}

/** Where the walk is swept, the end of the sweep sets it. */
function nextFullAt(
  { mode, isMidway, foundMarker, fullAt }: EndedWalk,
  absence: Absence,
  chainStartedAt: Instant,
): Instant | null {
  if (isMidway && (mode === 'full' || foundMarker !== null)) return null;
  return mode === 'full' && absence === null ? chainStartedAt : fullAt;
}

const weakestFirst: readonly Absence[] = [null, 'walk', 'get', 'nothing'];

/** What a tree proves of rows that it did not meet is what its least certain listing proves. */
export function weakestAbsence(absences: readonly Absence[]): Absence {
  return weakestFirst.find((absence) => absences.includes(absence)) ?? null;
}
