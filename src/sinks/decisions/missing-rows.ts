import type { Instant } from '../../core/clock.ts';
import type { Absence } from '../partition.ts';
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
type WhereRowIs = { readonly leaves: readonly number[] } & (
  | { readonly kind: 'stays' }
  | { readonly kind: 'moves'; readonly owner: number }
  | { readonly kind: 'missing'; readonly owner: number; readonly needs: Needs }
);

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
