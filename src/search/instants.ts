/** ISO 8601 with a time of day; without a zone it is UTC. Seconds and their fraction may be left out. */
const timePattern =
  /^(\d{4}-\d\d-\d\d)T((?:[01]\d|2[0-3]):[0-5]\d)(?::([0-5]\d)(?:[.,](\d+))?)?(?:Z|([+-])([01]\d|2[0-3])(?::?([0-5]\d))?)?$/;

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
  const [, date = '', minute = '', second = '00', fraction = '', sign, hours = '0', minutes = '0'] =
    timePattern.exec(text) ?? [];
  const local = Date.parse(`${date}T${minute}:${second}Z`);
  // V8 takes a 31st of every month.
  if (Number.isNaN(local) || new Date(local).toISOString().slice(0, 10) !== date) return null;
  const offset = (Number(hours) * 60 + Number(minutes)) * (sign === '-' ? -60_000 : 60_000);
  const utc = new Date(local - offset).toISOString();
  // Years before 0000 and after 9999 are written with a sign: they would not sort.
  if (utc.length !== 24) return null;
  const digits = fraction.replace(/0+$/, '');
  return digits === '' ? utc.slice(0, 19) : `${utc.slice(0, 19)}.${digits}`;
}

/**
 * Null for a text whose place among others does not depend on its being a time. Else how it is written: times of one
 * spelling, without an offset, are in the order of their instants as they stand. `odd`: they need not be.
 */
export function timeSpelling(text: string): string | null {
  if (!/^\d{4}-\d\d-\d\dT/.test(text)) return null;
  return instantOf(text)?.slice(0, 16) === text.slice(0, 16) ? text.replaceAll(/\d/g, '0') : 'odd';
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
