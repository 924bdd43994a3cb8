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
