import { readTime } from '../core/times.ts';

/**
 * How a text is compared: a time as the same instant in UTC, spelled so that equal instants are equal texts and earlier
 * ones come first by code point (`2026-03-01T09:00:00.5`); any other text as it is. A date without a time of day names
 * no instant.
 */
export function comparable(text: string): string {
  return instantOf(text) ?? text;
}

/** Whether the text is a time, and so compared as an instant. */
export function isTime(text: string): boolean {
  return instantOf(text) !== null;
}

function instantOf(text: string): string | null {
  // Most texts are no times; this is called for every value that a search reads.
  if (text.length < 16 || text[10] !== 'T') return null;
  const time = readTime(text);
  if (time === null) return null;
  const utc = new Date(time.ms).toISOString();
  // Years before 0000 and after 9999 are written with a sign: they would not sort.
  if (utc.length !== 24) return null;
  const digits = time.fraction.replace(/0+$/, '');
  return digits === '' ? utc.slice(0, 19) : `${utc.slice(0, 19)}.${digits}`;
}

/**
 * A range of texts, without `to` itself: those outside of it are on the same side of the bound, whether they are
 * compared as they stand or as instants. `none`: the order of times does not depend on the bound. Null: unknown.
 */
export function rangeAround(bound: string) {
  if (!/^\d/.test(bound)) return 'none';
  const [, year, month = '01', day = '01'] =
    /^(\d{4})(?:-(\d\d)(?:-(\d\d)[^]*)?)?$/.exec(comparable(bound)) ?? [];
  const date = `${year}-${month}-${day}`;
  const midnight = Date.parse(`${date}T00:00:00Z`);
  const isDate = !Number.isNaN(midnight) && new Date(midnight).toISOString().startsWith(date);
  if (!isDate || year === '0000' || year === '9999') return null;
  // An offset is less than a day.
  return { from: dayText(midnight - dayMs), to: dayText(midnight + 2 * dayMs) };
}

const dayMs = 86_400_000;

function dayText(ms: number): string {
  return new Date(ms).toISOString().slice(0, 10);
}
