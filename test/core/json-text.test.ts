import { expect, it } from 'vitest';
import type { JsonValue } from '../../src/core/json.ts';
import { readJson, writeJson } from '../../src/core/json-text.ts';

it('writes equal values as equal texts, whatever the order of their members', () => {
  expect(writeJson({ b: [1, { d: null, c: true }], a: 'x' })).toBe('{"a":"x","b":[1,{"c":true,"d":null}]}');
});

it('leaves out members that are undefined', () => {
  expect(writeJson({ a: undefined, b: 1 })).toBe('{"b":1}');
});

it.each<[string, JsonValue]>([
  ['integers beyond 2^53', [9_007_199_254_740_993n, -9_007_199_254_740_993n, 10n ** 40n]],
  [
    'doubles that are long integers',
    [2 ** 53, 2 ** 60, -(2 ** 63), 1e20, 1e21, 1.7976931348623157e308, 5e-324],
  ],
  [
    'long digits in texts and names',
    { '9007199254740993': '9007199254740993', deep: ['-9007199254740993,', '"1'] },
  ],
  [
    'texts that look like the mark of a big integer',
    ['#9007199254740993', '##', 9_007_199_254_740_993n, '\\"#'],
  ],
  ['lone surrogates and control characters', ['\ud800', '\u0000\u001f\u2028', 9_007_199_254_740_993n]],
  ['decimals with many digits', [1 / 3, 14 / 15, -1 / 97, 1234567890123456.5, -2.220446049250313e-16]],
])('reads back %s as they were', (_what, value) => {
  expect(readJson(writeJson(value))).toEqual(value);
});

it('keeps a member named __proto__ a member', () => {
  const read = readJson('{"__proto__":{"polluted":9007199254740993}}');
  expect(Object.keys(read as object)).toEqual(['__proto__']);
  expect(({} as { polluted?: unknown }).polluted).toBeUndefined();
});
