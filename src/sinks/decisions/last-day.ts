import { instant, type Instant } from '../../core/clock.ts';
import type { EntityMissing } from '../deletes.ts';

/** What an entity's table has, and what of it belongs to deletes that were judged before. */
export interface RowAccount {
  /** Rows without a tombstone. */
  readonly stored: number;
  /** Of them: below records that are deleted. */
  readonly judged: number;
  readonly addedInDay: number;
  readonly deletedInDay: number;
}

/** Live rows now, and 24 hours ago: what a guard's share is a share of. */
export function weighRows({
  stored,
  judged,
  addedInDay,
  deletedInDay,
}: RowAccount): Pick<EntityMissing, 'live' | 'dayAgo' | 'deletedInDay'> {
  const live = stored - judged;
  return { live, dayAgo: Math.max(0, live - addedInDay + deletedInDay), deletedInDay };
}

const dayMs = 24 * 60 * 60 * 1_000;

/** The hour in which rows come and go: `2026-03-01T10`. */
export function hourOf(at: Instant): string {
  return at.slice(0, '2026-03-01T10'.length);
}

/** The first hour of the last day. It is counted whole: a limit for up to 25 hours holds for every 24 hours. */
export function firstHourOfDay(now: Instant): string {
  return hourOf(instant(Date.parse(now) - dayMs));
}
