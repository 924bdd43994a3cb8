import { describe, expect, it } from 'vitest';
import { timeFormat, timeFormatFault } from '../../src/core/time-format.ts';

const timeMs = Date.parse('2026-03-09T08:07:06.543Z');

describe('a format of times', () => {
  it.each([
    ['iso', '2026-03-09T08:07:06+00:00', '2026-03-09T08:07:06Z'],
    ['unix', '1773043626', '2026-03-09T08:07:06Z'],
    ['unixMs', '1773043626543', '2026-03-09T08:07:06.543Z'],
    ['%Y', '2026', '2026-01-01T00:00:00Z'],
    ['%Y-%m', '2026-03', '2026-03-01T00:00:00Z'],
    ['%Y%m%d', '20260309', '2026-03-09T00:00:00Z'],
    ['%d.%m.%Y', '09.03.2026', '2026-03-09T00:00:00Z'],
    ['%Y-%m-%dT%H:%M:%SZ', '2026-03-09T08:07:06Z', '2026-03-09T08:07:06Z'],
    ['%Y-%m-%d %H:%M:%S.%f %z', '2026-03-09 08:07:06.543000 +0000', '2026-03-09T08:07:06.543Z'],
    ['%s', '1773043626', '2026-03-09T08:07:06Z'],
    ['since:%s (UTC)', 'since:1773043626 (UTC)', '2026-03-09T08:07:06Z'],
  ])('%s writes a time, and reads what it has written', (format, text, floor) => {
    expect(timeFormatFault(format)).toBeNull();
    const { write, readMs } = timeFormat(format);
    expect(write(timeMs)).toBe(text);
    expect(readMs(text)).toBe(Date.parse(floor));
  });

  it.each([
    ['%Y-%m-%d', '2026-02-30', null],
    ['%Y-%m-%d', '2026-3-9', null],
    ['%Y-%m-%d', 'x2026-03-09', null],
    ['%Y-%m-%d', null, null],
    ['%Y.%m', '2026-03', null],
    ['%Y%m%d', 20_260_309, '2026-03-09T00:00:00Z'],
    ['%Y-%m-%dT%H:%M%z', '2026-03-09T08:07+02:00', '2026-03-09T06:07:00Z'],
    ['%Y-%m-%dT%H:%M%z', '2026-03-09T08:07-0230', '2026-03-09T10:37:00Z'],
    ['%Y-%m-%dT%H:%M%z', '2026-03-09T08:07Z', '2026-03-09T08:07:00Z'],
    ['%s.%f', '1773043626.5', '2026-03-09T08:07:06.500Z'],
  ])('%s reads %s as %s', (format, value, expected) => {
    expect(timeFormat(format).readMs(value)).toBe(expected === null ? null : Date.parse(expected));
  });

  it.each([
    ['', 'expected iso, unix, unixMs or a pattern of %Y %m %d %H %M %S %f %z %s, such as "%Y-%m-%d"'],
    ['YYYY-MM-DD', 'expected iso, unix, unixMs or a pattern'],
    ['%y-%m-%d', 'expected iso, unix, unixMs or a pattern'],
    ['%Y-%m-%d%', 'expected iso, unix, unixMs or a pattern'],
    ['%Y-%d', 'expected %m beside the others'],
    ['%m-%d', 'expected %Y beside the others'],
    ['%Y-%m-%d %f', 'expected %H beside the others'],
    ['%Y %Y', '%Y is named twice'],
    ['%s %Y', 'expected %s or %Y, not both'],
  ])('%s is refused', (format, expected) => {
    expect(timeFormatFault(format)).toContain(expected);
  });
});
