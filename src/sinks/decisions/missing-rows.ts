import type { Instant } from '../../core/clock.ts';
import type { EntityMissing } from '../deletes.ts';
import type { Absence } from '../partition.ts';
import type { RowsOf } from '../run-report.ts';
import { weakestAbsence } from './becoming-due.ts';
import type { RunInChain } from '../ledger/runs/run-chains.ts';

/**
 * Progress of a partition's sweep, in the one stored number (`swept_to`). 0 or more: the last of its own rows that was
 * checked. Below 0: all of them were, and the number holds the last of its shared rows (rows with another owner).
 */
export function areOwnRowsSwept(sweptTo: number): boolean {
  return sweptTo < 0;
}

/** 0: none yet. */
export function lastSharedSwept(sweptTo: number): number {
  return Math.max(-1 - sweptTo, 0);
}

/** Encodes that all own rows are swept, and the shared rows up to this one; 0: no shared rows yet. */
export function sweptToShared(shared: number): number {
  return -1 - shared;
}

/** Confirmation required before a row that a full walk did not meet counts as deleted. */
export type Needs = Exclude<Absence, null>;

/** A sweep does not wait for partitions that nothing has led to since `keepPartitionsSince`. */
type LookingChain = Pick<RunInChain, 'origin' | 'chainStartedAt' | 'keepPartitionsSince'>;

export interface Place {
  /** False where the record that led to it is deleted or left out by listings. */
  readonly isLive: boolean;
  readonly isDue: boolean;
  /** The chain that found it last, and when. */
  readonly origin: number;
  readonly foundAt: Instant;
  readonly isBelowRecord: boolean;
  /** Number of the chain that last walked it in full, and the proof of that walk about rows that it did not meet. */
  readonly fullOrigin: number | null;
  readonly absence: Absence;
}

/** A partition that has shown a row which has another owner. */
export interface OtherPlace extends Place {
  readonly partition: number;
  /** The chain that met the row there last. */
  readonly metBy: number;
}

/** A live row that its owner has not shown, although the chain has walked that in full. */
export interface LookedForRow {
  readonly owner: { readonly partition: number; readonly absence: Needs };
  readonly otherPlaces: readonly OtherPlace[];
  /** The chain has met it somewhere. */
  readonly isSeen: boolean;
  readonly changedAt: Instant;
}

/** Decision about a row. `leaves`: places where the row is no longer looked for. */
type WhereRowIs =
  | { readonly kind: 'stays'; readonly leaves: readonly number[] }
  | { readonly kind: 'moves'; readonly owner: number; readonly leaves: readonly number[] }
  | {
      readonly kind: 'missing';
      readonly owner: number;
      readonly needs: Needs;
      readonly leaves: readonly number[];
    };

/**
 * A row that its owner does not show lives where this chain has met it; else where it may still be found. Without such
 * a place it is missing.
 */
export function lookForRow(
  { owner, otherPlaces, isSeen, changedAt }: LookedForRow,
  chain: LookingChain,
  believedUntil: Instant,
): WhereRowIs {
  const shown = otherPlaces.find(({ metBy }) => metBy === chain.origin);
  if (shown !== undefined) return { kind: 'moves', owner: shown.partition, leaves: [shown.partition] };
  if (isSeen) return { kind: 'stays', leaves: [] };
  const mayShow = otherPlaces.filter((place) => isLedTo(place, chain) && place.fullOrigin !== chain.origin);
  const [next] = mayShow;
  const leaves = otherPlaces
    .filter((place) => place === next || !mayShow.includes(place))
    .map(({ partition }) => partition);
  if (next !== undefined) return { kind: 'moves', owner: next.partition, leaves };
  // The row was written during the chain, but not by it (a record fetched on its own, a backfill), so it exists.
  if (changedAt >= chain.chainStartedAt && changedAt <= believedUntil) return { kind: 'stays', leaves };
  return { kind: 'missing', ...weakest(owner, otherPlaces, chain), leaves };
}

/**
 * Whether something leads to the partition, so that it is or will be walked. A partition below a record may wait to be
 * found again, but only until `keepPartitionsSince`.
 */
export function isLedTo(
  place: Pick<Place, 'isLive' | 'isDue' | 'origin' | 'foundAt' | 'isBelowRecord'>,
  { origin, keepPartitionsSince }: LookingChain,
): boolean {
  const isAwaited = place.isBelowRecord && place.foundAt >= keepPartitionsSince;
  return place.isLive && (place.isDue || place.origin === origin || isAwaited);
}

/**
 * Selects, among the full walks that did not meet a row, the one with the weakest proof: it decides which confirmation
 * the delete needs.
 */
function weakest(owner: LookedForRow['owner'], otherPlaces: readonly OtherPlace[], { origin }: LookingChain) {
  let found = { owner: owner.partition, needs: owner.absence };
  for (const { partition, isLive, fullOrigin, absence } of otherPlaces) {
    const hasMissed = isLive && fullOrigin === origin;
    if (!hasMissed || absence === null) continue;
    if (weakestAbsence([found.needs, absence]) !== found.needs) {
      found = { owner: partition, needs: absence };
    }
  }
  return found;
}

/** Note of a live row that full walks did not meet, or that lies below a deleted record. */
export interface NotedMissing {
  /**
   * The number of chains in a row whose walks missed it. 0: `get` has returned it since; it is kept so that the next
   * miss withdraws nothing.
   */
  readonly missed: number;
  readonly needs: Needs;
  readonly isAllowed: boolean;
  /** `get` has returned it, or is the first to be asked. */
  readonly isVouchedFor: boolean;
  readonly wasAsked: boolean;
  /** State of the row's owner: `ended` and `emptied` owners lie below a deleted record. */
  readonly owner: 'live' | 'ended' | 'emptied' | 'resting';
}

/** Whether the row counts as missing, so that a guard judges its delete. */
export function isMissing({ missed, owner }: Pick<NotedMissing, 'missed' | 'owner'>): boolean {
  return missed > 0 && owner === 'live';
}

/** Whether the row lies below a deleted record and may have moved: only a `get` shows it. */
export function isOrphan({ missed, owner }: Pick<NotedMissing, 'missed' | 'owner'>): boolean {
  return missed > 0 && owner === 'emptied';
}

/**
 * `get` returned it when it was asked last: it is asked again before the row is deleted, and no guard counts the row
 * until `get` no longer finds it.
 */
export function isVouchedFor(noted: NotedMissing): boolean {
  return noted.isVouchedFor && noted.wasAsked && noted.needs === 'get' && !noted.isAllowed;
}

export interface AlikeRows extends NotedMissing, RowsOf {
  /** When the first of them was missed. */
  readonly since: Instant;
}

interface MissingCounts extends Pick<
  EntityMissing,
  'missing' | 'allowed' | 'missedTwice' | 'vouchedFor' | 'toConfirm' | 'orphans'
> {
  /** Time at which the oldest miss that is not vouched for began; null where there is none. */
  readonly firstMissed: Instant | null;
}

/** Counts one entity's rows for the run's report and for the guards. */
export function countMissing(alike: readonly AlikeRows[]): MissingCounts {
  const count = (which: (noted: AlikeRows) => boolean): number =>
    alike.filter(which).reduce((sum, { rows }) => sum + rows, 0);
  const counted = alike.filter((one) => isMissing(one) && !isVouchedFor(one)).map(({ since }) => since);
  return {
    missing: count(isMissing),
    allowed: count((one) => isMissing(one) && one.isAllowed),
    missedTwice: count((one) => isMissing(one) && one.missed >= 2),
    vouchedFor: count((one) => isMissing(one) && isVouchedFor(one)),
    toConfirm: count((one) => (isMissing(one) || isOrphan(one)) && one.needs === 'get'),
    orphans: count(isOrphan),
    firstMissed: counted.toSorted()[0] ?? null,
  };
}
