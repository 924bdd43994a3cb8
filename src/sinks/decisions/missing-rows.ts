import type { Instant } from '../../core/clock.ts';
import type { EntityName } from '../../core/names.ts';
import type { EntityMissing, TombstoneChoice } from '../deletes.ts';
import type { Needs } from './look-for-row.ts';

/** What is noted of a live row that full walks did not meet, or that lies below a deleted record. */
export interface NotedMissing {
  /** By how many chains' walks in a row. 0: `get` has returned it since; it is kept so that the next miss withdraws nothing. */
  readonly missed: number;
  readonly needs: Needs;
  /** A person let its delete pass. */
  readonly isAllowed: boolean;
  /** `get` has returned it, or is the first to be asked. */
  readonly isVouchedFor: boolean;
  readonly wasAsked: boolean;
  /** `get` has found nothing in this run. */
  readonly isGone: boolean;
  /** Of its home: `ended` and `emptied` lie below a deleted record. */
  readonly home: 'live' | 'ended' | 'emptied' | 'resting';
}

/** It counts as missing, and a guard judges its delete. */
export function isMissing({ missed, home }: NotedMissing): boolean {
  return missed > 0 && home === 'live';
}

/** It lies below a deleted record and may be elsewhere by now: only a `get` says so. */
export function isOrphan({ missed, home }: NotedMissing): boolean {
  return missed > 0 && home === 'emptied';
}

/** `get` returned it when it was asked last: it is asked again before it goes, and no guard counts it until `get` finds it no more. */
export function isVouchedFor(noted: NotedMissing): boolean {
  return noted.isVouchedFor && noted.wasAsked && noted.needs === 'get' && !noted.isAllowed;
}

/** Nothing else must agree before it is deleted, if the guards or a person let it pass. */
export function needsNothingMore({ missed, needs, isGone }: NotedMissing): boolean {
  switch (needs) {
    case 'nothing':
      return true;
    case 'walk':
      return missed >= 2;
    case 'get':
      return isGone;
  }
}

/** Whether it goes now, of the rows that may. The file sinks choose them in SQL, which a test compares with this. */
export function goesNow(noted: NotedMissing, which: TombstoneChoice): boolean {
  const isChosen = which === 'all' || (which === 'allowed' ? noted.isAllowed : noted.missed >= 2);
  return isMissing(noted) && needsNothingMore(noted) && isChosen;
}

/** Rows of one entity that are noted alike. */
export interface AlikeRows extends NotedMissing {
  readonly entity: EntityName;
  readonly rows: number;
  /** When the first of them was missed. */
  readonly since: Instant;
}

export interface MissingCounts extends Pick<
  EntityMissing,
  'missing' | 'allowed' | 'missedTwice' | 'vouchedFor' | 'toConfirm' | 'orphans' | 'toWalk'
> {
  /** Since when the row is missing that was missed first and is not vouched for; null where there is none. */
  readonly firstMissed: Instant | null;
}

/** What a run reports, and what the guards judge, of one entity's rows. */
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
    toWalk: count((one) => (isMissing(one) || isOrphan(one)) && one.needs === 'walk' && one.missed < 2),
    orphans: count(isOrphan),
    firstMissed: counted.toSorted()[0] ?? null,
  };
}
