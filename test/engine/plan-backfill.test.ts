import { timeMs } from '../../src/core/times.ts';
import { describe, expect, it } from 'vitest';
import { backfillWindows, mostWindows, windowText } from '../../src/engine/plan-run.ts';
import { parseWindowLength } from '../../src/app/backfill.ts';
import { seededRandom } from '../support/seeded-random.ts';

const hourMs = 3_600_000;

describe('the windows of a backfill', () => {
  it('are calendar months in UTC, newest first, with the ends cut off', () => {
    expect(windows('2024-01-15', '2024-04-02T12:00', '1mo')).toEqual([
      '2024-04-01T00:00:00.000Z/2024-04-02T12:00:00.000Z',
      '2024-03-01T00:00:00.000Z/2024-04-01T00:00:00.000Z',
      '2024-02-01T00:00:00.000Z/2024-03-01T00:00:00.000Z',
      '2024-01-15T00:00:00.000Z/2024-02-01T00:00:00.000Z',
    ]);
  });

  it('are twelve for a year of months, leap or not', () => {
    for (const year of [2023, 2024]) {
      expect(windows(`${year}-01-01`, `${year + 1}-01-01`, '1mo')).toHaveLength(12);
    }
  });

  it('are quarters and years of the calendar for 3mo and 12mo', () => {
    expect(windows('2024-02-10', '2024-08-01', '3mo')).toEqual([
      '2024-07-01T00:00:00.000Z/2024-08-01T00:00:00.000Z',
      '2024-04-01T00:00:00.000Z/2024-07-01T00:00:00.000Z',
      '2024-02-10T00:00:00.000Z/2024-04-01T00:00:00.000Z',
    ]);
    expect(windows('2023-06-01', '2025-01-01', '12mo')).toEqual([
      '2024-01-01T00:00:00.000Z/2025-01-01T00:00:00.000Z',
      '2023-06-01T00:00:00.000Z/2024-01-01T00:00:00.000Z',
    ]);
  });

  it('begin at the beginning for other lengths', () => {
    expect(windows('2025-01-01T06:00', '2025-01-09', '7d')).toEqual([
      '2025-01-08T06:00:00.000Z/2025-01-09T00:00:00.000Z',
      '2025-01-01T06:00:00.000Z/2025-01-08T06:00:00.000Z',
    ]);
  });

  it('leave no gap and do not overlap, and a later end only adds some', () => {
    const random = seededRandom(7);
    for (let trial = 0; trial < 300; trial += 1) {
      const sinceMs = Math.floor(random() * 2e12);
      const untilMs = sinceMs + 1 + Math.floor(random() * 1000 * 24 * hourMs);
      const length =
        random() < 0.5
          ? ({ kind: 'months', months: 1 + Math.floor(random() * 14) } as const)
          : ({ kind: 'duration', ms: hourMs * (6 + Math.floor(random() * 500)) } as const);
      const found = backfillWindows({ sinceMs, untilMs, length });
      const bounds = found.toReversed().flatMap((one) => [one.sinceMs, one.untilMs]);
      expect([bounds[0], bounds.at(-1)]).toEqual([sinceMs, untilMs]);
      expect(bounds).toEqual(bounds.toSorted((left, right) => left - right));
      for (let at = 1; at < bounds.length - 1; at += 2) expect(bounds[at]).toBe(bounds[at + 1]);
      expect(found.every((one) => one.sinceMs < one.untilMs)).toBe(true);
      const longer = backfillWindows({ sinceMs, untilMs: untilMs + 90 * 24 * hourMs, length });
      const [, ...whole] = found;
      expect(longer.slice(longer.length - whole.length)).toEqual(whole);
    }
  });

  it('are refused where there would be none, or far too many', () => {
    expect(() => windows('2025-01-02', '2025-01-02', '1d')).toThrow(RangeError);
    expect(() => windows('2025-01-03', '2025-01-02', '1d')).toThrow(RangeError);
    expect(() => windows('2025-01-01', '2026-01-01', '60s')).toThrow(String(mostWindows));
  });
});

function windows(since: string, until: string, length: string): readonly string[] {
  const parsed = parseWindowLength(length);
  if (parsed === null) throw new Error(`no length: ${length}`);
  return backfillWindows({
    sinceMs: timeMs(since) ?? Number.NaN,
    untilMs: timeMs(until) ?? Number.NaN,
    length: parsed,
  }).map(windowText);
}
