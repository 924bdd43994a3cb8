import type { JsonValue } from '../core/json.ts';

/** Milliseconds since the epoch. Samples lie in the past, whenever they are made. */
export const sampleStart = Date.UTC(2022, 11, 27, 8, 12, 59);
export const hourMs = 3_600_000;
export const dayMs = 24 * hourMs;

/** As the email service writes times: `2022-12-27T08:12:59+00:00`. */
export function mailingTime(ms: number): string {
  return `${new Date(ms).toISOString().slice(0, 19)}+00:00`;
}

/** As the notes service writes times, rounded down to the minute: `2021-10-19T13:33:00.000Z`. */
export function notesTime(ms: number): string {
  return `${new Date(ms).toISOString().slice(0, 16)}:00.000Z`;
}

/** As the document library writes times: `2024-03-01T09:30:00Z`. */
export function libraryTime(ms: number): string {
  return `${new Date(ms).toISOString().slice(0, 19)}Z`;
}

/** One of `titles`, numbered from the second round on: `Roadmap`, `Roadmap 2`. An empty title stays empty. */
export function titleAt(titles: readonly string[], index: number): string {
  const title = titles[index % titles.length] ?? '';
  const round = Math.floor(index / titles.length) + 1;
  return round === 1 || title === '' ? title : `${title} ${round}`;
}

/** An id as text, whether it came as text or as a number; '' for what can be no id. */
export function textOf(value: JsonValue | undefined): string {
  return typeof value === 'string' || typeof value === 'number' ? String(value) : '';
}

/** The latest revision: with it too every time of a sample account lies in the past. */
export const maxSampleRevision = 200;

const firstRevisionDay = Date.UTC(2026, 0, 6, 9);

/**
 * Milliseconds since the epoch at which a revision begins: 9:00 UTC, a day after the one before. Later than every time
 * of an account at revision 0; all changes of a revision come within the next ten hours.
 */
export function revisionTime(revision: number): number {
  return firstRevisionDay + revision * dayMs;
}

/** The day of a revision as people write it: `7 January`. */
export function dayOf(revision: number): string {
  const options = { day: 'numeric', month: 'long', timeZone: 'UTC' } as const;
  return new Date(revisionTime(revision)).toLocaleDateString('en-GB', options);
}

/**
 * Things take turns, one for each revision: the last one up to `revision` of the thing with this index; 0: none yet.
 */
export function lastTurn(revision: number, index: number, count: number): number {
  return Math.max(0, revision - ((((revision - index) % count) + count) % count));
}

/** The revisions 1, 4, 7 and so on, up to this one: each makes one thing of a kind. */
export function makingRevisions(revision: number): readonly number[] {
  return Array.from({ length: Math.ceil(revision / 3) }, (_, turn) => 1 + turn * 3);
}

/** Those of them whose thing is there at this revision. */
export function madeAndThere(revision: number): readonly number[] {
  return makingRevisions(revision).filter((madeIn) => isThere(madeIn, revision));
}

/** What was made in such a revision is deleted by the next one and restored by the one after that. */
export function isThere(madeIn: number, revision: number): boolean {
  return revision >= madeIn && revision !== madeIn + 1;
}
