import type { ChangeSpan } from '../pagination/pagination.ts';

/** A larger difference is the age of records that have not changed for long, not that of two clocks. */
const longestMs = 24 * 60 * 60 * 1000;

/**
 * Walks of a partition whose differences are kept. Few: one that has become larger counts only when smaller ones are
 * forgotten.
 */
const keptWalks = 5;

/** `Date` is in whole seconds: the page may be that much later. */
const dateStepMs = 1000;

/**
 * When a page was answered, at the latest: by its `Date`, in milliseconds, and by this machine's clock where it has
 * none.
 */
export function answeredMs(
  serverTime: string | null,
  { capMs, nowMs }: { capMs: number; nowMs: number },
): number {
  return Math.max(capMs, serverTime === null ? nowMs : Date.parse(serverTime) + dateStepMs);
}

/**
 * How far the records' clock may be behind the answers', in milliseconds: no record changes after the page that shows
 * it, so at most by the newest record's age. Later dates say nothing. Null: no record says anything.
 */
export function differenceMs(atMs: number, changes: readonly (ChangeSpan | null)[]): number | null {
  let smallest: number | null = null;
  for (const change of changes) {
    if (change === null) continue;
    const newestMs = change.highestMs <= atMs ? change.highestMs : change.lowestMs;
    if (newestMs <= atMs) smallest = smaller(smallest, Math.min(longestMs, atMs - newestMs));
  }
  return smallest;
}

export function smaller(left: number | null, right: number | null): number | null {
  if (left === null || right === null) return left ?? right;
  return Math.min(left, right);
}

/** The smallest that this walk and the partition's last ones have shown. */
export function smallestOf(recent: readonly number[], own: number | null): number | null {
  return recent.reduce<number | null>(smaller, own);
}

export function keptDifferences(recent: readonly number[], own: number | null): readonly number[] {
  return own === null ? recent : [...recent, own].slice(-keptWalks);
}
