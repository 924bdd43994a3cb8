import { describe, expect, it } from 'vitest';
import type { JsonValue } from '../../../src/core/json.ts';
import { timeMs } from '../../../src/core/times.ts';
import { compileChangeSpan, countUndated } from '../../../src/engine/prepare/change-span.ts';

describe('a time', () => {
  it.each<[JsonValue, string | null]>([
    ['2026-05-01T10:00:00+00:00', '2026-05-01T10:00:00.000Z'],
    ['2026-05-01T12:00:00+0200', '2026-05-01T10:00:00.000Z'],
    ['2026-05-01T10:00:00.123456Z', '2026-05-01T10:00:00.123Z'],
    ['2026-05-01 10:00:00', '2026-05-01T10:00:00.000Z'],
    ['2026-05-01T10:00', '2026-05-01T10:00:00.000Z'],
    ['2026-05-01', '2026-05-01T00:00:00.000Z'],
    ['2026-05-01 10:00:00+00', '2026-05-01T10:00:00.000Z'],
    ['2026-05-01 10:00:00 UTC', '2026-05-01T10:00:00.000Z'],
    ['2026-05-01 12:30:00 +0230', '2026-05-01T10:00:00.000Z'],
    ['2026-04-31', null],
    ['2026-13-01T10:00:00Z', null],
    ['yesterday', null],
    ['', null],
    [null, null],
    [1_777_629_600, null],
    [{ at: '2026-05-01' }, null],
  ])('%j is read as %j, in UTC where it names no zone', (value, expected) => {
    const ms = timeMs(value);
    expect(ms === null ? null : new Date(ms).toISOString()).toBe(expected);
  });
});

describe('the change values of a record', () => {
  const spanOf = compileChangeSpan({ field: 'activity.at' });
  const at = (day: number): string => `2026-05-0${day}T00:00:00Z`;
  const day = (number: number): number => Date.UTC(2026, 4, number);

  it('lie between the oldest and the newest element of an array', () => {
    expect(spanOf({ activity: [{ at: at(2) }, { at: at(1) }, { at: 'never' }, { at: at(3) }] })).toEqual({
      lowestMs: day(1),
      highestMs: day(3),
    });
  });

  it.each<[string, JsonValue]>([
    ['an empty array', { activity: [] }],
    ['no such field', {}],
    ['another shape', { activity: 'x' }],
    ['elements that are no objects', { activity: [1, null, [{ at: '2026-05-01' }]] }],
    ['no object', 'x'],
  ])('are unknown where there is %s', (_, record) => {
    expect(spanOf(record)).toBeNull();
  });

  it.each<['unix' | 'unixMs', JsonValue, string | null]>([
    ['unix', 1_777_629_600, '2026-05-01T10:00:00.000Z'],
    ['unix', 1_777_629_600.25, '2026-05-01T10:00:00.250Z'],
    ['unix', '1777629600.000200', '2026-05-01T10:00:00.000Z'],
    ['unixMs', 1_777_629_600_123, '2026-05-01T10:00:00.123Z'],
    ['unix', 1_777_629_600_123, null],
    ['unix', -1, null],
    ['unix', '2026-05-01', null],
    ['unix', 9_007_199_254_740_993n, null],
    ['unix', null, null],
  ])('are times as %s: %s is %s', (format, value, expected) => {
    const span = compileChangeSpan({ field: 'at', format })({ at: value });
    expect(span === null ? null : new Date(span.highestMs).toISOString()).toBe(expected);
  });

  it('are found in an array of any length', () => {
    const activity = Array.from({ length: 300_000 }, () => ({ at: at(1) }));
    expect(spanOf({ activity })).toEqual({ lowestMs: day(1), highestMs: day(1) });
  });

  it.each<[string, JsonValue, number]>([
    ['an empty array', { activity: [] }, 0],
    ['elements without one', { activity: [{ other: 1 }, { at: null }] }, 0],
    ['another time', { activity: [{ at: 'never' }] }, 1],
    ['no object on the way', { activity: 7 }, 1],
  ])('are counted as no time where there is one: %s', (_what, raw, count) => {
    expect(countUndated({ field: 'activity.at' }, [raw], [spanOf(raw)])).toBe(count);
  });
});
