import { dayMs } from './times.ts';

/** The latest revision: with it too every time of a sample account lies in the past. */
export const maxSampleRevision = 200;

const firstRevisionDay = Date.UTC(2026, 0, 6, 9);
/** All changes of a revision come within this long after it, if there are as many as expected. */
const spanMs = 6 * 3_600_000;

/**
 * Milliseconds since the epoch at which a revision began: 9:00 UTC of a day of its own. Later than every time of an
 * account at revision 0 (the last member there came at the end of 2025).
 */
export function revisionTime(revision: number): number {
  return firstRevisionDay + revision * dayMs;
}

/** Times for the changes of one revision, in the order in which they happen. */
export interface RevisionClock {
  /** Milliseconds since the epoch: never earlier than the last, and every second time the same as it. */
  next(): number;
}

/** `unitMs`: how finely the third party keeps time. */
export function revisionClock(revision: number, expectedChanges: number, unitMs: number): RevisionClock {
  const steps = Math.max(1, Math.ceil(expectedChanges / 2));
  const stepMs = Math.max(1, Math.floor(spanMs / unitMs / steps)) * unitMs;
  let ticks = 0;
  return {
    next() {
      ticks += 1;
      return revisionTime(revision) + Math.ceil(ticks / 2) * stepMs;
    },
  };
}
