import type { Instant } from '../../core/clock.ts';
import type { Absence } from '../partition.ts';

/** What else must agree before a row that a full walk did not meet counts as deleted. */
export type Needs = Exclude<Absence, null>;

/** The chain of runs that looks for missing rows. */
export interface LookingChain {
  readonly origin: number;
  readonly chainStartedAt: Instant;
  /** What nothing has led to since then is not waited for. */
  readonly keepPartitionsSince: Instant;
}

/** A partition, as far as it matters to the rows in it. */
export interface Place {
  /** False where the record that led to it is deleted or left out by listings. */
  readonly isLive: boolean;
  readonly isDue: boolean;
  /** The chain that found it last, and when. */
  readonly origin: number;
  readonly foundAt: Instant;
  readonly isBelowRecord: boolean;
  /** The chain that walked it in full last, and what that walk says of what it did not meet. */
  readonly fullOrigin: number | null;
  readonly absence: Absence;
}

/** A partition that has shown a row which is at home elsewhere. */
export interface OtherPlace extends Place {
  readonly partition: number;
  /** The chain that met the row there last. */
  readonly metBy: number;
}

/** A live row that its home has not shown, although the chain has walked that in full. */
export interface LookedForRow {
  readonly home: { readonly partition: number; readonly absence: Needs };
  readonly otherPlaces: readonly OtherPlace[];
  /** The chain has met it somewhere. */
  readonly isSeen: boolean;
  readonly changedAt: Instant;
}

/** What follows. `leaves`: places where it is looked for no longer. */
export type WhereRowIs =
  | { readonly kind: 'stays'; readonly leaves: readonly number[] }
  | { readonly kind: 'moves'; readonly home: number; readonly leaves: readonly number[] }
  | {
      readonly kind: 'missing';
      readonly home: number;
      readonly needs: Needs;
      readonly leaves: readonly number[];
    };

/**
 * A row that its home does not show any more lives where this chain has met it. Where the chain has met it nowhere, it may live in a place that the
 * chain has not walked in full; without such a place it is missing, and the walk that proves least says what else must agree.
 */
export function lookForRow(
  { home, otherPlaces, isSeen, changedAt }: LookedForRow,
  chain: LookingChain,
  believedUntil: Instant,
): WhereRowIs {
  const shown = otherPlaces.find(({ metBy }) => metBy === chain.origin);
  if (shown !== undefined) return { kind: 'moves', home: shown.partition, leaves: [shown.partition] };
  if (isSeen) return { kind: 'stays', leaves: [] };
  const mayShow = otherPlaces.filter((place) => isLedTo(place, chain) && place.fullOrigin !== chain.origin);
  const [next] = mayShow;
  const leaves = otherPlaces
    .filter((place) => place === next || !mayShow.includes(place))
    .map(({ partition }) => partition);
  if (next !== undefined) return { kind: 'moves', home: next.partition, leaves };
  // Written while the chain lasted, but not by it (a record fetched on its own, a backfill): it is there.
  if (changedAt >= chain.chainStartedAt && changedAt <= believedUntil) return { kind: 'stays', leaves };
  return { kind: 'missing', ...weakest(home, otherPlaces, chain), leaves };
}

/**
 * Whether something leads to the partition: then it is, or will be, walked. A root that this chain has not found is none of the settings'
 * any more; what lies below a record may wait for long to be found again, but not for longer than what nothing leads to is kept.
 */
export function isLedTo(
  place: Pick<Place, 'isLive' | 'isDue' | 'origin' | 'foundAt' | 'isBelowRecord'>,
  { origin, keepPartitionsSince }: LookingChain,
): boolean {
  const isAwaited = place.isBelowRecord && place.foundAt >= keepPartitionsSince;
  return place.isLive && (place.isDue || place.origin === origin || isAwaited);
}

const strength: Readonly<Record<Needs, number>> = { nothing: 0, get: 1, walk: 2 };

/** Of several full walks that have not met a row, the one that proves least decides what else it takes. */
function weakest(
  home: LookedForRow['home'],
  otherPlaces: readonly OtherPlace[],
  { origin }: LookingChain,
): { readonly home: number; readonly needs: Needs } {
  let found = { home: home.partition, needs: home.absence };
  for (const { partition, isLive, fullOrigin, absence } of otherPlaces) {
    const hasMissed = isLive && fullOrigin === origin;
    if (hasMissed && absence !== null && strength[absence] > strength[found.needs]) {
      found = { home: partition, needs: absence };
    }
  }
  return found;
}
