import { instant, type Instant } from '../../core/clock.ts';

const dayMs = 24 * 60 * 60 * 1_000;

/** The hour in which rows come and go: `2026-03-01T10`. */
export function hourOf(at: Instant): string {
  return at.slice(0, '2026-03-01T10'.length);
}

/** The first hour of the last day. It is counted whole: a limit for up to 25 hours holds for every 24 hours. */
export function firstHourOfDay(now: Instant): string {
  return hourOf(instant(Date.parse(now) - dayMs));
}
