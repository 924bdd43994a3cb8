import { createRequire } from 'node:module';
import type * as CronParser from 'cron-parser';

/** When a cron schedule fires. */
interface CronTimes {
  readonly pattern: string;
  readonly timezone: string;
}

const months = 'jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec';
const weekdays = 'sun|mon|tue|wed|thu|fri|sat';
const fields = [
  { name: 'second', values: '0-59', words: '' },
  { name: 'minute', values: '0-59', words: '' },
  { name: 'hour', values: '0-23', words: '' },
  { name: 'day of month', values: '1-31', words: '' },
  { name: 'month', values: '1-12 or jan-dec', words: `|${months}` },
  { name: 'day of week', values: '0-7 or sun-sat', words: `|${weekdays}` },
];

/**
 * What is wrong with a cron pattern, or null. Five fields, or six with seconds first; numbers, names of months and
 * days, `*`, ranges, steps and lists. Stricter than the parser, which takes more than the docs promise.
 */
export function checkCron(pattern: string): string | null {
  const parts = pattern.trim().split(/\s+/);
  if (parts.length !== 5 && parts.length !== 6) {
    return `expected 5 fields (minute hour day month weekday) or 6 with seconds first, got ${parts.length}`;
  }
  for (const [index, { name, values, words }] of fields.slice(-parts.length).entries()) {
    const text = parts[index] ?? '';
    const part = String.raw`(?:\*|(?:\d{1,2}${words})(?:-(?:\d{1,2}${words}))?)(?:/\d{1,3})?`;
    const alone = parts.map((_, other) => (other === index ? text : '*'));
    if (!new RegExp(`^${part}(?:,${part})*$`, 'i').test(text) || !hasSlot(alone.join(' '))) {
      return `${name}: expected numbers ${values}, *, ranges and steps, each value once, got "${text}"`;
    }
  }
  // Each field is right by itself, so what is wrong is a date that never comes, such as 31 February.
  return hasSlot(parts.join(' '))
    ? null
    : `day of month: no chosen month has a day ${parts.at(-3)}, it would never run`;
}

/** What is wrong with a time zone's name, or null. */
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

/** The first slots after a time, at most `count`, as ticks are made: each is worked out from the one before it alone. */
export function nextSlots(times: CronTimes, afterMs: number, count: number): readonly number[] {
  const slots: number[] = [];
  let slotMs = slotAfter(times, afterMs);
  while (slotMs !== undefined && slots.length < count) {
    slots.push(slotMs);
    slotMs = slotAfter(times, slotMs);
  }
  return slots;
}

/** The last slot at or before `nowMs`; null where there is none for years. */
export function previousSlot(times: CronTimes, nowMs: number): number | null {
  let beforeMs = nowMs + 1;
  for (;;) {
    // Around clock changes the parser's way back meets other slots than its way forward, so it only says where to start.
    const startMs = parse(times, beforeMs).take(-4).at(-1)?.getTime();
    if (startMs === undefined) return null;
    let lastMs: number | null = null;
    for (let slotMs = slotAfter(times, startMs - 1); slotMs !== undefined && slotMs <= nowMs;) {
      lastMs = slotMs;
      slotMs = slotAfter(times, slotMs);
    }
    if (lastMs !== null) return lastMs;
    beforeMs = startMs;
  }
}

function slotAfter(times: CronTimes, afterMs: number): number | undefined {
  return parse(times, afterMs).take(1)[0]?.getTime();
}

function hasSlot(pattern: string): boolean {
  try {
    return slotAfter({ pattern, timezone: 'UTC' }, 0) !== undefined;
  } catch {
    // The parser's messages do not name the field.
    return false;
  }
}

function parse({ pattern, timezone }: CronTimes, fromMs: number): CronParser.CronExpression {
  // Loading it takes as long as reading a config, so it is loaded only where there is a cron pattern.
  // `as`: what the package exports.
  const { CronExpressionParser } = createRequire(import.meta.url)('cron-parser') as typeof CronParser;
  return CronExpressionParser.parse(pattern, { currentDate: new Date(fromMs), tz: timezone });
}
