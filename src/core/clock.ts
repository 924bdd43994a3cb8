import { type JsonValue, readScaled } from './json.ts';

/** UTC instant in ISO 8601 with milliseconds, as `Date.prototype.toISOString` writes it: compares as text. */
export type Instant = string;

/** The one way to learn the time or to wait, so that tests own both. */
export interface Clock {
  /** Milliseconds since the epoch. */
  now(): number;
  /** Resolves after `ms`; rejects with the signal's reason when it is aborted first. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
}

export function instant(ms: number): Instant {
  return new Date(ms).toISOString();
}

/** Parses a `Date` header; null where it is absent or unreadable. */
export function instantOf(date: string | null): Instant | null {
  // Date.parse is lenient ("-5" is a year); a date of HTTP ends so.
  const ms = /[a-z]{3}.*GMT$/i.test(date ?? '') ? Date.parse(date ?? '') : Number.NaN;
  return Number.isNaN(ms) ? null : instant(ms);
}

export const systemClock: Clock = {
  now: () => Date.now(),
  sleep: (ms, signal) =>
    new Promise((resolve, reject) => {
      if (signal?.aborted === true) {
        reject(signal.reason as Error);
        return;
      }
      const onAbort = (): void => {
        clearTimeout(timer);
        reject(signal?.reason as Error);
      };
      const timer = setTimeout(() => {
        signal?.removeEventListener('abort', onAbort);
        resolve();
      }, ms);
      signal?.addEventListener('abort', onAbort, { once: true });
    }),
};

/** The answer, or `late` where it takes longer than `ms`. */
export async function answeredWithin<Answer, Late>(
  answer: Promise<Answer>,
  late: Late,
  ms: number,
  clock: Clock,
): Promise<Answer | Late> {
  const answered = new AbortController();
  const tooLate = slept(clock, ms, answered.signal).then(() => late);
  return await Promise.race([answer, tooLate]).finally(() => answered.abort());
}

/** True after `ms`, false as soon as the signal is aborted. */
export function slept(clock: Clock, ms: number, signal: AbortSignal): Promise<boolean> {
  return clock.sleep(ms, signal).then(
    () => true,
    () => false,
  );
}

/** Retries work that must survive a passing failure: four attempts in six seconds. */
export async function inTries<Result>(work: () => Promise<Result>, clock: Clock): Promise<Result> {
  for (const pauseMs of [100, 1_000, 5_000]) {
    try {
      return await work();
    } catch {
      await clock.sleep(pauseMs);
    }
  }
  return await work();
}

/** Resolves when other work of the process has had a turn: reads of a file do not wait for anything by themselves. */
export function otherTurn(): Promise<void> {
  return new Promise((resolve) => void setImmediate(resolve));
}

/*
 * Times as services write them: ISO 8601, as PostgreSQL (`2026-03-04 05:06:07+00`), Ruby (`… +0000`, `… UTC`) and Jira
 * (`…T05:06:07.000+0000`) have it. Search, incremental reading and views read the same ones.
 */

const date = '([1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])';
const clock = '([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9]([.,][0-9]{1,30})?)?';
/** Hours and minutes of an offset are at most 14:59. */
const zone = ' ?([Zz]|UTC|GMT|[+-](0[0-9]|1[0-4])(:?[0-5][0-9])?)';

/** A whole time, as a regular expression that JavaScript and databases take. It may name the 31st of any month. */
export const timeForm = `${date}([T ]${clock}(${zone})?)?`;

const pattern = new RegExp(`^${timeForm}$`);

/**
 * Null where the text is no time. `ms`: start of its second, in milliseconds since 1970, without a time of day
 * midnight, without a zone UTC. `fraction`: digits of the fraction of its second; empty without one.
 */
export function readTime(text: string) {
  const [found, , , day, , , seconds = ':00', fraction = '', , sign = 'Z', hours = '', minutes = ''] =
    pattern.exec(text) ?? [];
  if (found === undefined) return null;
  const minute = text.length === 10 ? '00:00' : text.slice(11, 16);
  const localMs = Date.parse(`${text.slice(0, 10)}T${minute}${seconds.slice(0, 3)}Z`);
  // V8 takes a 31st of every month.
  const isReal = Number(day) <= 28 || new Date(localMs).getUTCDate() === Number(day);
  if (Number.isNaN(localMs) || !isReal) return null;
  const offset = hours === '' ? 0 : Number(hours) * 60 + Number(minutes.slice(-2));
  return { ms: localMs - (sign.startsWith('-') ? -offset : offset) * 60_000, fraction: fraction.slice(1) };
}

/** The first microsecond of the year 1 and the last one of the year 9999, since 1970. */
const [firstMicros, lastMicros] = [-62_135_596_800_000_000n, 253_402_300_799_999_999n];

/** How a time is written: ISO 8601, or seconds or milliseconds since 1970. */
export type TimeKind = 'timestamp' | 'unix' | 'unixMs';

/**
 * Null where the text is no time of the years 1 to 9999. `micros`: microseconds since 1970, rounded down. `isExact`:
 * false where it has a finer fraction.
 */
export function readMicros(text: string, kind: TimeKind) {
  if (kind === 'timestamp') {
    const time = readTime(text);
    if (time === null) return null;
    const { ms, fraction } = time;
    const micros = BigInt(ms) * 1_000n + BigInt(fraction.slice(0, 6).padEnd(6, '0'));
    if (micros < firstMicros || micros > lastMicros) return null;
    return { micros, isExact: !/[1-9]/.test(fraction.slice(6)) };
  }
  const found = readScaled(text, kind === 'unix' ? 6 : 3);
  if (found === null || found.value < firstMicros || found.value > lastMicros) return null;
  return { micros: found.value, isExact: found.isExact };
}

/** A time in milliseconds since the epoch; null for anything else. */
export function timeMs(value: JsonValue): number | null {
  const time = typeof value === 'string' ? readTime(value) : null;
  return time && time.ms + Math.floor(Number(`0.${time.fraction}`) * 1_000);
}
