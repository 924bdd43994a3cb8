import { dayMs } from './writing.ts';

/** The latest revision: with it too every time of a sample account lies in the past. */
export const maxSampleRevision = 200;

const firstRevisionDay = Date.UTC(2026, 0, 6, 9);

/**
 * Milliseconds since the epoch at which a revision begins: 9:00 UTC, a day after the one before. Later than every time of
 * an account at revision 0; all changes of a revision come within the next ten hours.
 */
export function revisionTime(revision: number): number {
  return firstRevisionDay + revision * dayMs;
}

/** The day of a revision as people write it: `7 January`. */
export function dayOf(revision: number): string {
  const options = { day: 'numeric', month: 'long', timeZone: 'UTC' } as const;
  return new Date(revisionTime(revision)).toLocaleDateString('en-GB', options);
}

/** Things take turns, one for each revision: the last one up to `revision` of the thing with this index; 0: none yet. */
export function lastTurn(revision: number, index: number, count: number): number {
  return Math.max(0, revision - ((((revision - index) % count) + count) % count));
}

/** The revisions 1, 4, 7 and so on, up to this one: each makes one thing of a kind. */
export function makingRevisions(revision: number): readonly number[] {
  return Array.from({ length: Math.ceil(revision / 3) }, (_, turn) => 1 + turn * 3);
}

/** What was made in such a revision is deleted by the next one and restored by the one after that. */
export function isThere(madeIn: number, revision: number): boolean {
  return revision >= madeIn && revision !== madeIn + 1;
}
