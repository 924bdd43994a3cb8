import { instant, type Instant } from '../../core/clock.ts';
import type { EntityName } from '../../core/names.ts';
import type { Marker, PageLength, WalkMode } from '../partition.ts';
import type { EntityReading, PageCommit } from '../sink.ts';

export interface ChainReading extends EntityReading {
  /** Everything is read in full, whatever is known. */
  readonly isFull: boolean;
  /** Later dates come from a clock that was wrong. */
  readonly believedUntil: Instant;
  /** What must be the same as at the last seal for that to count: see `sealed_scope`. */
  readonly scope: string;
}

export interface KnownWalks {
  readonly dueSince: Instant | null;
  readonly watermark: Instant | null;
  /** The parent's change value at the last seal. */
  readonly marker: string | null;
  readonly fullAt: Instant | null;
  readonly sealedScope: string | null;
}

export const neverWalked: KnownWalks = {
  dueSince: null,
  watermark: null,
  marker: null,
  fullAt: null,
  sealedScope: null,
};

/** How a partition that becomes due is read. An entity that the run does not read gets its mode when one does. */
export function decideMode(known: KnownWalks, reading: ChainReading | undefined): WalkMode {
  const isEnough =
    reading !== undefined && reading.isIncremental && known.watermark !== null && isCurrent(known, reading);
  return isEnough ? 'incremental' : 'full';
}

/** Found again, and nothing below its parent has changed since it was sealed: it need not be read. */
export function isUnchanged(
  known: KnownWalks,
  marker: Marker | null,
  reading: ChainReading | undefined,
): boolean {
  const isMarked = marker !== null && known.marker === marker.value && known.dueSince === null;
  return isMarked && reading !== undefined && isCurrent(known, reading);
}

/** Its newest full walk is young enough to build on, and was made to read the same. */
function isCurrent({ fullAt, sealedScope }: KnownWalks, reading: ChainReading): boolean {
  const isYoung = fullAt !== null && fullAt > reading.fullBefore && fullAt <= reading.believedUntil;
  return !reading.isFull && isYoung && sealedScope === reading.scope;
}

const dayMs = 24 * 60 * 60 * 1_000;

/**
 * Clocks of hosts differ by less than a day. One that was ahead by years, once, must not keep records from being read
 * in full, or from counting as missing.
 */
export function believedUntil(now: Instant): Instant {
  return instant(Date.parse(now) + dayMs);
}

/**
 * The state of the record that once led to a due partition, where the chain `origin` has not found the partition
 * itself.
 */
export type ParentStanding = 'is-there' | 'seems-gone' | 'leads-elsewhere';

/**
 * A full walk of the parent's owner, by the chain `walkedBy`, after the partition was last found decides: it has missed
 * the parent, or met it and was not led here.
 */
export function standingOfParent(
  { walkedBy, isSeen }: { readonly walkedBy: number | null; readonly isSeen: boolean },
  { origin, foundOrigin }: { readonly origin: number; readonly foundOrigin: number },
): ParentStanding {
  if (walkedBy === origin && !isSeen) return 'seems-gone';
  return walkedBy !== null && walkedBy > foundOrigin ? 'leads-elsewhere' : 'is-there';
}

/**
 * What a page shows of last pages: walks that ended with one of this size and at least this many records ended too
 * early. Null: nothing beyond `known`, the shortest page that was followed by more, by entity and requested size.
 */
export function learnPageLength(
  known: Map<string, number>,
  entity: EntityName,
  { followed, seal }: Pick<PageCommit, 'followed' | 'seal'>,
): PageLength | null {
  const size = followed?.size ?? seal?.lastPage?.size ?? 0;
  const name = JSON.stringify([entity, size]);
  const records = Math.min(known.get(name) ?? Infinity, followed?.records ?? Infinity);
  const isNews = followed !== undefined || (seal?.lastPage?.records ?? -1) >= records;
  if (!isNews) return null;
  known.set(name, records);
  return { size, records };
}
