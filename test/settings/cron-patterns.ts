import { createHash } from 'node:crypto';
import { seededRandom } from '../support/seeded-random.ts';

/** A cron pattern, a time zone and a moment, often one close to a clock change. */
export interface CronTrial {
  readonly pattern: string;
  readonly timezone: string;
  readonly nowMs: number;
}

/** What is known of a trial: null where the pattern is wrong. */
export interface CronAnswer {
  /** The last slot at or before the moment. */
  readonly previousMs: number | null;
  /** The tenth slot after it. */
  readonly tenthMs: number | null;
}

const months = ['jan', 'feb', 'mar', 'apr', 'may', 'jun', 'jul', 'aug', 'sep', 'oct', 'nov', 'dec'];
const weekdays = ['sun', 'mon', 'tue', 'wed', 'thu', 'fri', 'sat'];
const timezones = ['UTC', 'Europe/Berlin', 'America/New_York', 'America/St_Johns', 'Asia/Kathmandu'];
const hourMs = 3_600_000;

/** The clock changes of these zones in 2025, and two days without any. */
const moments = [
  '2025-03-30T01:00:00Z',
  '2025-10-26T01:00:00Z',
  '2025-03-09T07:00:00Z',
  '2025-11-02T06:00:00Z',
  '2025-03-09T05:30:00Z',
  '2025-11-02T04:30:00Z',
  '2025-01-01T00:00:00Z',
  '2025-07-15T12:34:56Z',
].map((text) => Date.parse(text));

/** The trials of one batch, always the same ones. About one pattern in eight is wrong. */
export function cronTrials(batch: number, count = 100): readonly CronTrial[] {
  const random = seededRandom(batch + 1);
  const between = (min: number, max: number): number => min + Math.floor(random() * (max - min + 1));
  const oneOf = <Item>(items: readonly Item[]): Item | undefined => items[between(0, items.length - 1)];
  const field = (min: number, max: number, words: readonly string[] = []): string => {
    const word = (value: number): string =>
      random() < 0.3 ? (words[value - min] ?? String(value)) : String(value);
    const from = between(min, max);
    const kind = random();
    if (kind < 0.45) return '*';
    if (kind < 0.65) return word(from);
    if (kind < 0.75) return `${word(from)}-${word(between(from, max))}`;
    if (kind < 0.83) return `*/${between(1, max)}`;
    if (kind < 0.88) return `${from}-${between(from, max)}/${between(1, 9)}`;
    if (kind < 0.92) return `${from}/${between(1, 20)}`;
    if (kind < 0.97) return [...new Set([from, between(min, max), between(min, max)])].join(',');
    return (
      oneOf([`${max + 1}`, `${from}-`, '*/0', `${max}-${min}`, 'x', 'L', '?', `${from}#2`, 'H', '']) ?? ''
    );
  };
  return Array.from({ length: count }, () => ({
    pattern: [
      ...(random() < 0.25 ? [field(0, 59)] : []),
      field(0, 59),
      field(0, 23),
      field(1, 31),
      field(1, 12, months),
      field(0, 7, weekdays),
    ].join(' '),
    timezone: oneOf(timezones) ?? 'UTC',
    nowMs: (oneOf(moments) ?? 0) + between(-2 * hourMs, 3 * hourMs),
  }));
}

/** Twelve hex digits over the answers to a batch. */
export function cronDigest(answers: readonly (CronAnswer | null)[]): string {
  const texts = answers.map((answer) => JSON.stringify(answer && [answer.previousMs, answer.tenthMs]));
  return createHash('sha256').update(texts.join('\n')).digest('hex').slice(0, 12);
}
