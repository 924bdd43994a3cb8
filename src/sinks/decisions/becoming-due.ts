import { instant, type Instant } from '../../core/clock.ts';
import type { EntityName } from '../../core/names.ts';
import type { Marker, PageLength, WalkMode, Absence } from '../partition.ts';
import type { EntityReading, PageCommit } from '../sink.ts';

/** State of the record that led to a partition, in the column `gone`. The numbers are stored. */
export const standing = {
  /** The record exists, or no record led here. */
  live: 0,
  /** The record is tombstoned; the rows below follow. */
  ended: 1,
  /** The record is tombstoned, and so is every row below except orphans that wait for a `get`. */
  emptied: 2,
  /** The record exists, and listings leave it out (it is in the trash). */
  resting: 3,
} as const;

export interface ChainReading extends EntityReading {
  /** Everything is read in full, whatever is known. */
  readonly isFull: boolean;
  /** Later dates come from a clock that was wrong. */
  readonly believedUntil: Instant;
  /** Conditions of reading. The last seal counts only if it was made under the same ones: see `sealed_scope`. */
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

/**
 * Decides how a partition that becomes due is read. An entity that the run does not read gets its mode from a run that
 * reads it.
 */
export function decideMode(known: KnownWalks, reading: ChainReading | undefined): WalkMode {
  const isEnough =
    reading !== undefined && reading.isIncremental && known.watermark !== null && isCurrent(known, reading);
  return isEnough ? 'incremental' : 'full';
}

/** Found again, and nothing below its parent has changed since it was sealed: it need not be read. */
export function isUnchanged(known: KnownWalks, marker: Marker | null, reading: ChainReading | undefined) {
  const isMarked = marker !== null && known.marker === marker.value && known.dueSince === null;
  return isMarked && reading !== undefined && isCurrent(known, reading);
}

/** Whether its newest full walk is recent enough to build on and was made under the same scope. */
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
 * Learns from a page how long last pages can be: walks that ended with a page of this size and at least this many
 * records ended too early. Null: the page adds nothing to `known`, the shortest page that was followed by more, by
 * entity and requested size.
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

/** A walk that was read to its end, with the earlier state of its partition. */
export interface EndedWalk {
  readonly mode: WalkMode | null;
  /** The walk began where a walk of an earlier chain had stopped. */
  readonly isMidway: boolean;
  /** The chain of runs that made it. */
  readonly origin: number;
  readonly watermark: Instant | null;
  /** The parent's change value when it was found. */
  readonly foundMarker: string | null;
  readonly fullAt: Instant | null;
  readonly fullOrigin: number | null;
  /** A record led to the partition. */
  readonly isBelowRecord: boolean;
}

/** Proof that a sealed walk gives, with its chain. */
export interface WalkProof {
  /** A listing of the tree ended with a doubt: the walk proves nothing. */
  readonly isDoubted: boolean;
  /** Proof of the tree's weakest listing about rows that the walk did not meet. */
  readonly absence: Absence;
  readonly watermark: Instant | null;
  readonly chainStartedAt: Instant;
}

/** State of the partition after the seal. */
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
  /** Number of that chain if the sweep of its missed rows is still to be done. */
  readonly sweepOrigin: number | null;
}

/**
 * Concludes a walk. A full walk shows the newest change time, because a wrong clock may once have given a later one. A
 * walk that began midway proves nothing about rows that it did not meet, as its first half may have changed: the next
 * walk is a full one.
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
 * Conclusion of a walk that proves nothing: the next one reads the same. A partition below a record may not be found
 * again before its parent changes; it is still read again, as it has no full walk.
 */
function asBefore({ watermark, fullAt, fullOrigin, isBelowRecord }: EndedWalk): Conclusion {
  return { watermark, marker: null, fullAt: isBelowRecord ? null : fullAt, fullOrigin, sweepOrigin: null };
}

function laterWatermark({ mode, watermark: before }: EndedWalk, found: Instant | null): Instant | null {
  const isKept = found === null || (mode === 'incremental' && before !== null && before >= found);
  return isKept ? before : found;
}

/** Start of the chain whose full walk counts from now on. If the walk is swept, the end of the sweep sets it. */
function nextFullAt(
  { mode, isMidway, foundMarker, fullAt }: EndedWalk,
  absence: Absence,
  chainStartedAt: Instant,
): Instant | null {
  if (isMidway && (mode === 'full' || foundMarker !== null)) return null;
  return mode === 'full' && absence === null ? chainStartedAt : fullAt;
}

const weakestFirst: readonly Absence[] = [null, 'walk', 'get', 'nothing'];

/** Weakest of these proofs: a tree proves no more about rows that it did not meet than its least certain listing. */
export function weakestAbsence(absences: readonly Absence[]): Absence {
  return weakestFirst.find((absence) => absences.includes(absence)) ?? null;
}
