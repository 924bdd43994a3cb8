import { createRequire } from 'node:module';
import type * as CronParser from 'cron-parser';
import { wrong, type Checked } from './texts.ts';

/** When a cron schedule fires. */
interface CronTimes {
  readonly pattern: string;
  readonly timezone: string;
}

interface Field {
  readonly name: string;
  readonly min: number;
  readonly max: number;
  readonly words: readonly string[];
}

const months = ['jan', 'feb', 'mar', 'apr', 'may', 'jun', 'jul', 'aug', 'sep', 'oct', 'nov', 'dec'];
const weekdays = ['sun', 'mon', 'tue', 'wed', 'thu', 'fri', 'sat'];
const longestMonth = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
const fields: readonly Field[] = [
  { name: 'second', min: 0, max: 59, words: [] },
  { name: 'minute', min: 0, max: 59, words: [] },
  { name: 'hour', min: 0, max: 23, words: [] },
  { name: 'day of month', min: 1, max: 31, words: [] },
  { name: 'month', min: 1, max: 12, words: months },
  { name: 'day of week', min: 0, max: 7, words: weekdays },
];

/** The longest pattern that cron-parser accepts, in characters. */
const longestPattern = 1024;

/**
 * Checks a cron pattern and converts it for cron-parser. Five fields, or six with seconds first; numbers, names of
 * months and days, `*`, ranges, steps and lists. A date that never comes (31 February) is wrong too.
 * The check does not use cron-parser: that would load it for every command, its messages do not name the field, and it
 * accepts more than the docs promise.
 */
export function checkCron(text: string): Checked {
  const parts = text.trim().split(/\s+/);
  if (parts.length !== 5 && parts.length !== 6) {
    return wrong(
      `expected 5 fields (minute hour day month weekday) or 6 with seconds first, got ${parts.length}`,
    );
  }
  const valuesByName = new Map<string, readonly number[]>();
  const value = text.trim();
  for (const [index, field] of fields.slice(-parts.length).entries()) {
    const part = parts[index] ?? '';
    const values = expandField(part, field);
    if (values === null) {
      const names = field.words.length === 0 ? '' : ` or ${field.words[0]}-${field.words.at(-1)}`;
      return wrong(
        `${field.name}: expected numbers ${field.min}-${field.max}${names}, *, ranges and steps, got "${part}"`,
      );
    }
    // cron-parser refuses such lists.
    if (new Set(values).size < values.length) return wrong(`${field.name}: "${part}" names a value twice`);
    valuesByName.set(field.name, values);
  }
  if (value.length > longestPattern) return wrong(`expected at most ${longestPattern} characters`);
  // A pattern with a day of the week fires on that day, whether the date exists or not.
  return parts.at(-1) === '*' ? checkDate(value, valuesByName) : { ok: true, value };
}

/** The values of a list's elements, each of which may name several; null if an element is wrong. */
function expandField(text: string, field: Field): readonly number[] | null {
  const all: number[] = [];
  for (const element of text.split(',')) {
    const match = /^(?:(\*)|([0-9a-z]+)(?:-([0-9a-z]+))?)(?:\/([0-9]{1,3}))?$/i.exec(element);
    if (match === null) return null;
    const [, star, from, to, by] = match;
    const step = by === undefined ? 1 : Number(by);
    const first = star === undefined ? parseValue(from ?? '', field) : field.min;
    // `5/10` means from 5 on, in steps of 10.
    const isOpen = star !== undefined || (to === undefined && by !== undefined);
    const last = isOpen ? field.max : parseValue(to ?? from ?? '', field);
    if (first === null || last === null || first > last || step < 1) return null;
    const named = new Set<number>();
    // Sunday is 0 and 7.
    for (let value = first; value <= last; value += step) named.add(field.max === 7 ? value % 7 : value);
    all.push(...named);
  }
  return all;
}

function parseValue(text: string, field: Field): number | null {
  const word = field.words.indexOf(text.toLowerCase());
  if (word !== -1) return word + field.min;
  if (!/^[0-9]{1,2}$/.test(text)) return null;
  const value = Number(text);
  return value >= field.min && value <= field.max ? value : null;
}

function checkDate(value: string, valuesByName: ReadonlyMap<string, readonly number[]>): Checked {
  const earliest = Math.min(...(valuesByName.get('day of month') ?? []));
  const longest = Math.max(...(valuesByName.get('month') ?? []).map((month) => longestMonth[month - 1] ?? 0));
  return earliest > longest
    ? wrong(`day of month: no chosen month has a day ${earliest}, it would never run`)
    : { ok: true, value };
}

/** Finds the problem with the name of a time zone; null: there is none. */
export function checkTimezone(timezone: string): string | null {
  try {
    // Offsets such as +02:00 are refused: some Node versions take them, the scheduler does not.
    if (/^[A-Za-z]/.test(timezone)) {
      new Intl.DateTimeFormat('en', { timeZone: timezone }).format(0);
      return null;
    }
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
  }
  return 'expected the name of a time zone such as UTC or Europe/Berlin';
}

/** The first slots after a time, at most `count`, as ticks are made: each is computed from the one before it alone. */
export function nextSlots(times: CronTimes, afterMs: number, count: number): readonly number[] {
  const slots: number[] = [];
  let slotMs = slotAfter(times, afterMs);
  while (slotMs !== undefined && slots.length < count) {
    slots.push(slotMs);
    slotMs = slotAfter(times, slotMs);
  }
  return slots;
}

/** For each pattern and zone a slot, and a time before it without another slot between. */
const knownSlots = new Map<string, { readonly fromMs: number; readonly slotMs: number }>();
const mostKnown = 20_000;

/** As the first of `nextSlots`, for pages that ask again and again about many connectors. */
export function nextSlot(times: CronTimes, afterMs: number): number | undefined {
  const key = `${times.timezone} ${times.pattern}`;
  const known = knownSlots.get(key);
  if (known !== undefined && known.fromMs <= afterMs && afterMs < known.slotMs) return known.slotMs;
  const slotMs = slotAfter(times, afterMs);
  if (slotMs === undefined) return undefined;
  if (knownSlots.size >= mostKnown) knownSlots.clear();
  knownSlots.set(key, { fromMs: afterMs, slotMs });
  return slotMs;
}

/** The last slot at or before `nowMs`; null where there is none for years. */
export function previousSlot(times: CronTimes, nowMs: number): number | null {
  let beforeMs = nowMs + 1;
  for (;;) {
    // Around clock changes the parser finds other slots backwards than forwards, or none, so a clock without changes
    // determines the start.
    const startMs = takeSlots(onClock(times), clockOf(times, beforeMs), -4).at(-1);
    if (startMs === undefined) return null;
    beforeMs = startMs - offsetMs(times, beforeMs) - 1;
    let lastMs: number | null = null;
    for (let slotMs = slotAfter(times, beforeMs); slotMs !== undefined && slotMs <= nowMs;) {
      lastMs = slotMs;
      slotMs = slotAfter(times, slotMs);
    }
    if (lastMs !== null) return lastMs;
  }
}

const quarterMs = 900_000;
/**
 * The time within which a zone's offset stays the same, except for changes in Ramadan, which are in the small hours.
 */
const sameOffsetMs = 40 * 96 * quarterMs;

/**
 * The first slot after a time. A slot that the clock skips is later by the length of the gap, or at the first moment
 * after the gap.
 */
export function slotAfter(times: CronTimes, afterMs: number): number | undefined {
  const [nextMs] = takeSlots(times, afterMs);
  if (nextMs !== undefined && nextMs - afterMs < sameOffsetMs) {
    if (offsetMs(times, nextMs) === offsetMs(times, afterMs)) return nextMs;
  }
  // If the clock skips a midnight, the parser loses slots of that day, or of the one before.
  const [clockMs] = takeSlots(onClock(times), clockOf(times, afterMs));
  if (clockMs === undefined) return nextMs;
  const { ms, gapMs } = instantOf(times, clockMs);
  return ms > afterMs && (nextMs === undefined || ms + gapMs <= nextMs) ? ms : nextMs;
}

/**
 * The first moment at which the clock shows a time; if it skips that time, the first moment after the gap, and the
 * length of the gap.
 */
function instantOf(times: CronTimes, clockMs: number): { readonly ms: number; readonly gapMs: number } {
  // No zone is further than 14 hours from UTC.
  const offsetBeforeMs = offsetMs(times, clockMs - 60 * quarterMs);
  const lateMs = clockMs - offsetBeforeMs;
  const gapMs = offsetMs(times, lateMs) - offsetBeforeMs;
  if (gapMs === 0) return { ms: lateMs, gapMs };
  const earlyMs = lateMs - gapMs;
  if (offsetMs(times, earlyMs) !== offsetBeforeMs) return { ms: earlyMs, gapMs: 0 };
  let ms = earlyMs - (earlyMs % quarterMs) + quarterMs;
  while (offsetMs(times, ms) === offsetBeforeMs) ms += quarterMs;
  return { ms, gapMs };
}

/** The schedule on a clock without changes. Its times are those of the zone's clock, interpreted as UTC. */
function onClock(times: CronTimes): CronTimes {
  return { ...times, timezone: 'UTC' };
}

function clockOf(times: CronTimes, ms: number): number {
  return ms + offsetMs(times, ms);
}

const offsetFormats = new Map<string, Intl.DateTimeFormat>();

function offsetMs({ timezone }: CronTimes, ms: number): number {
  const format =
    offsetFormats.get(timezone) ??
    new Intl.DateTimeFormat('en', { timeZone: timezone, timeZoneName: 'longOffset' });
  offsetFormats.set(timezone, format);
  const [, sign, hours, minutes] = /([+-])(\d\d):(\d\d)/.exec(format.format(ms)) ?? [];
  return Number(`${sign ?? ''}1`) * (Number(hours ?? 0) * 60 + Number(minutes ?? 0)) * 60_000;
}

function takeSlots({ pattern, timezone }: CronTimes, fromMs: number, count = 1): readonly number[] {
  // The package takes as long to load as a config, so only the computation of slots loads it. `as`: its exports.
  cronParser ??= createRequire(import.meta.url)('cron-parser') as typeof CronParser;
  return cronParser.CronExpressionParser.parse(pattern, { currentDate: new Date(fromMs), tz: timezone })
    .take(count)
    .map((date) => date.getTime());
}

let cronParser: typeof CronParser | null = null;
