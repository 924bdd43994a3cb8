import { timeMs } from '../../src/core/times.ts';
import { describe, expect, it } from 'vitest';
import { parseWindowLength } from '../../src/app/backfill.ts';

const hourMs = 3_600_000;

describe('a time on the command line', () => {
  it.each([
    ['2025-01-31', '2025-01-31T00:00:00.000Z'],
    ['2025-01-31T18:05', '2025-01-31T18:05:00.000Z'],
    ['2025-01-31 18:05:09', '2025-01-31T18:05:09.000Z'],
    ['2025-01-31T18:05:09.25Z', '2025-01-31T18:05:09.250Z'],
    ['2025-01-31T18:05:09+01:30', '2025-01-31T16:35:09.000Z'],
    ['2025-01-31T18:05:09-0800', '2025-02-01T02:05:09.000Z'],
    ['2024-02-29', '2024-02-29T00:00:00.000Z'],
    ['0099-12-31', '0099-12-31T00:00:00.000Z'],
  ])('%s is %s', (text, expected) => {
    expect(new Date(timeMs(text) ?? Number.NaN).toISOString()).toBe(expected);
  });

  it.each([
    '',
    'yesterday',
    '2025-1-1',
    '2025-02-29',
    '2025-02-30',
    '2025-13-01',
    '2025-00-10',
    '2025-01-00',
  ])('"%s" is none', (text) => expect(timeMs(text)).toBeNull());

  it.each([
    '2025-01-01T24:00',
    '2025-01-01T10:60',
    '2025-01-01T10:00+25:00',
    '2025-01-01Z',
    '0000-01-01',
    '01/02/2025',
  ])('"%s" is none either', (text) => expect(timeMs(text)).toBeNull());
});

describe('the length of a window', () => {
  it('is months or a duration', () => {
    expect(parseWindowLength('1mo')).toEqual({ kind: 'months', months: 1 });
    expect(parseWindowLength('7d')).toEqual({ kind: 'duration', ms: 7 * 24 * hourMs });
    expect(parseWindowLength('1d12h')).toEqual({ kind: 'duration', ms: 36 * hourMs });
    expect(parseWindowLength('1m')).toEqual({ kind: 'duration', ms: 60_000 });
  });

  it.each(['', '0d', '0mo', '1', 'mo', '1M', '1mo7d', '-1d', '1y'])('"%s" is none', (text) => {
    expect(parseWindowLength(text)).toBeNull();
  });
});
