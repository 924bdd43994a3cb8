import { expect } from 'vitest';
import type { DerivedKind } from '../../src/core/records.ts';

type Wanted = Partial<Record<DerivedKind, unknown>>;

/** Databases round parts of a millisecond differently. */
const belowMs: unknown = expect.any(String);

/** JSON of a value, and what becomes of it as each type; what is not named becomes null. */
export const values: readonly (readonly [json: string, Wanted])[] = [
  ['"2024-02-29T10:00:00+02:00"', { timestamp: '2024-02-29T08:00:00.000Z' }],
  ['"2024-02-29T10:00:00Z"', { timestamp: '2024-02-29T10:00:00.000Z' }],
  ['"2024-02-29T10:00:00.125Z"', { timestamp: '2024-02-29T10:00:00.125Z' }],
  ['"2024-02-29 10:00"', { timestamp: '2024-02-29T10:00:00.000Z' }],
  ['"2024-02-29"', { timestamp: '2024-02-29T00:00:00.000Z' }],
  ['"1969-12-31T23:59:59-01:30"', { timestamp: '1970-01-01T01:29:59.000Z' }],
  ...['+0000', '+00', ' +0000', ' UTC', 'UTC', ' GMT', 'Z', ''].map(
    (zone) =>
      [JSON.stringify(`2026-03-04 05:06:07${zone}`), { timestamp: '2026-03-04T05:06:07.000Z' }] as const,
  ),
  ['"2026-03-04T10:36:07.125+0530"', { timestamp: '2026-03-04T05:06:07.125Z' }],
  ['"2026-03-04T05:06:07,125Z"', { timestamp: '2026-03-04T05:06:07.125Z' }],
  ['"2026-03-04T05:06+00"', { timestamp: '2026-03-04T05:06:00.000Z' }],
  ['"2026-03-04T05:06 UTC"', { timestamp: '2026-03-04T05:06:00.000Z' }],
  ['"2026-03-04T05:06:07 CET"', {}],
  ...[
    '2023-02-29',
    '2024-04-31',
    '2024-13-01',
    '2024-01-00',
    '0000-01-01',
    '2024-1-1',
    '2024-01-01T24:00',
  ].map((text) => [JSON.stringify(text), {}] as const),
  ...['2024-01-01T10:60', '2024-01-01T10:00:61Z', 'now', 'yesterday', '', ' ', '12:00', '2024-01-01 now'].map(
    (text) => [JSON.stringify(text), {}] as const,
  ),
  ['"2024-01-01T10:00:00+99:00"', {}],
  ['"2024-01-01\'; DROP TABLE x; --"', {}],
  ['"infinity"', {}],
  ['7', { integer: 7, number: 7, unix: at(7), unixMs: at(0.007) }],
  ['"7"', { integer: 7, number: 7, unix: at(7), unixMs: at(0.007) }],
  ['1', { integer: 1, number: 1, boolean: 1, unix: at(1), unixMs: at(0.001) }],
  ['1.5', { number: 1.5, unix: at(1.5), unixMs: belowMs }],
  ['-12.50', { number: -12.5, unix: at(-12.5), unixMs: belowMs }],
  [
    '1700000000',
    { integer: 1_700_000_000, number: 1_700_000_000, unix: at(1_700_000_000), unixMs: at(1_700_000) },
  ],
  ['1e3', { number: 1000, unix: at(1000), unixMs: at(1) }],
  ['"007"', {}],
  ['"1-2"', {}],
  ['"٧"', {}],
  ['"1e999"', {}],
  ['9223372036854775807', { integer: 2 ** 63, number: 2 ** 63 }],
  ['9223372036854775808', { number: 2 ** 63 }],
  ['true', { boolean: 1 }],
  ['"false"', { boolean: 0 }],
  ['null', {}],
  ['{"a":1}', {}],
  ['[1]', {}],
  ['"x\\u0000y"', {}],
];

export function at(seconds: number): string {
  return new Date(Math.round(seconds * 1000)).toISOString();
}

/** As this program writes times, whatever the database gives. */
export function comparable(value: unknown): unknown {
  if (value instanceof Date) return value.toISOString();
  if (typeof value === 'boolean') return Number(value);
  if (typeof value !== 'string') return typeof value === 'bigint' ? Number(value) : value;
  if (/^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}$/.test(value)) return `${value.replace(' ', 'T')}Z`;
  return /^-?\d{1,19}$/.test(value) ? Number(value) : value;
}
