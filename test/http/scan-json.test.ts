import { isUtf8 } from 'node:buffer';
import { describe, expect, it } from 'vitest';
import { scanPage, textOf, valueOf, type ScannedPage, memberWidth } from '../../src/http/scan-json.ts';
import { JsonSpellings } from '../support/json-spellings.ts';
import { recorded } from '../support/recorded-records.ts';
import { seededRandom } from '../support/seeded-random.ts';
import { repeats, startSeed } from '../support/trials.ts';
import { isDeepStrictEqual } from 'node:util';
import { isJsonArray, isJsonObject, memberOf, type JsonValue } from '../../src/core/json.ts';
import { parseJsonText } from '../../src/http/lossless-json.ts';

const paths = [['result'], ['result', 'data']];
const scan = (text: string | Buffer, maxDepth = 100) => scanPage(Buffer.from(text), paths, maxDepth);
/** An answer with one record that has one member. */
const withMember = (value: string) => `{"result":[{"a":${value}}]}`;

function membersOf(page: ScannedPage | null) {
  if (page === null) throw new Error('expected a page, got none');
  return Array.from({ length: page.members.length / memberWidth }, (_, index) => {
    const [name = 0, start = 0, end = 0] = page.members.subarray(index * memberWidth);
    return { name: page.names[name], text: textOf(page, start, end) };
  });
}

describe('the records of an answer', () => {
  it('are found by their places, and what is around them remains as text', () => {
    const text = '{ "next": "é", "result" : [ {"id":1}, 2 ,[3], {} ], "more":[0] }';
    const page = scan(text);
    expect(page).toMatchObject({
      rest: '{ "next": "é", "result" : [], "more":[0] }',
      count: 4,
      firstMember: Uint32Array.of(0, 1, 1, 1, 1),
      names: ['id'],
      isAscii: false,
      hasLongNumbers: false,
    });
    const values = Array.from({ length: 4 }, (_, index) =>
      page === null ? null : valueOf(page, page.starts[index] ?? 0, page.ends[index] ?? 0),
    );
    expect(values).toEqual([{ id: 1 }, 2, [3], {}]);
  });

  it.each([
    ['the answer itself', '[1,2]', [[]]],
    ['a member', '{"a":[9],"result":[1,2]}', paths],
    ['a member of a member', '{"result":{"other":[9],"data":[1,2]},"data":[9]}', paths],
    [
      'a member whose name is spelled otherwise',
      '{"_embedded":{"\\u006dembers":[1,2]}}',
      [['_embedded', 'members']],
    ],
    ['a member of two possible ones', '{"data":{"x":1},"result":[1,2]}', [['data'], ['result']]],
  ])('may be in %s', (_, text, places) => {
    expect(scanPage(Buffer.from(text), places, 10)?.count).toBe(2);
  });

  it.each([
    ['another place', '{"data":[1]}'],
    ['an array on the way', '{"result":[[1]]}', [['result', 'data']]],
    ['an object', '{"result":{}}'],
    ['a string', '"{\\"result\\":[1]}"'],
    ['two places', '{"a":[1],"b":[1]}', [['a'], ['b']]],
    ['a member that comes twice', '{"result":[1],"result":[2]}'],
    ['a member that comes twice, once spelled otherwise', '{"result":[1],"resul\\u0074":2}'],
    ['a member of a member that comes twice', '{"result":{"data":[1],"data":null}}'],
    ['a path through a member that comes twice', '{"result":{"data":[1]},"result":{}}'],
    ['no place', '{"result":[1]}', []],
  ])('are not read from %s', (_, text, places = paths) => {
    expect(() => JSON.parse(text)).not.toThrow();
    expect(scanPage(Buffer.from(text), places, 10)).toBeNull();
  });

  it('are whole in a buffer that is a part of another', () => {
    const memory = Buffer.from('[[{"result":[{"id":"x"}]}]]');
    expect(membersOf(scanPage(memory.subarray(2, -2), paths, 10))).toEqual([{ name: 'id', text: '"x"' }]);
  });

  it('have all members in their order, with one number for each name, however it is spelled', () => {
    const page = scan('{"result":[{"b":1,"a":2,"\\u0062":3},{"a":4,"x":5,"b":6},{"ab":7,"":8}]}');
    expect(page?.names).toEqual(['b', 'a', 'x', 'ab', '']);
    expect(membersOf(page).map(({ name, text }) => `${name}${text}`)).toEqual([
      'b1',
      'a2',
      'b3',
      'a4',
      'x5',
      'b6',
      'ab7',
      '8',
    ]);
  });

  it('have the values that were recorded from real services', () => {
    const records = recorded.map(({ record }) => record);
    for (const indent of [0, 2]) {
      const page = scan(JSON.stringify({ result: [...records, ...records] }, null, indent));
      expect(page?.count).toBe(records.length * 2);
      expect(page === null ? 'refused' : differenceOf(page, paths)).toBeUndefined();
    }
  });

  it('are more than the first tables hold', () => {
    const zeros = scan(`{"result":[${'0,'.repeat(999_999)}0]}`);
    expect([zeros?.count, zeros?.ends.at(-1), zeros?.firstMember.at(-1)]).toEqual([1_000_000, 2_000_010, 0]);
    const objects = scan(`{"result":[${'{"a":0},'.repeat(99_999)}{"a":0}]}`);
    expect([objects?.count, objects?.members.length]).toEqual([100_000, 100_000 * memberWidth]);
    expect(objects?.firstMember.at(-1)).toBe(100_000);
  });
});

describe('the limits of what is scanned', () => {
  it.each([
    ['around the records', (inner: string) => `{"a":${inner},"result":[]}`, 1],
    ['as records', (inner: string) => `{"result":[${inner}]}`, 2],
    ['in a record', (inner: string) => withMember(inner), 3],
  ])('count arrays and objects inside each other, those %s too', (_, answer, around) => {
    const nested = (levels: number) => answer('['.repeat(levels) + ']'.repeat(levels));
    expect(scan(nested(1_000 - around), 1_000)).not.toBeNull();
    expect(scan(nested(1_001 - around), 1_000)).toBeNull();
    for (const text of [nested(100_000), answer('['.repeat(100_000)), answer('{"a":'.repeat(100_000))]) {
      expect(scan(text, 1_000)).toBeNull();
    }
    expect(scan(nested(100_000), 200_000)).not.toBeNull();
  });

  it.each([
    [2, '{"result":[]}'],
    [3, '{"result":[{}]}'],
    [4, '{"result":{"data":[{}]}}'],
  ])('count the objects on the way: %j', (levels, text) => {
    expect(scan(text, levels)?.rest).toContain('[]');
    expect(scan(text, levels - 1)).toBeNull();
  });

  it('refuse records that have data for names', () => {
    const members = (count: number) => Array.from({ length: count }, (_, index) => `"n${index}":0`).join(',');
    expect(scan(`{"result":[{${members(10_000)}},{${members(10_000)}}]}`)?.names.length).toBe(10_000);
    for (const count of [10_001, 50_000]) expect(scan(`{"result":[{${members(count)}}]}`)).toBeNull();
    // Names elsewhere have no numbers.
    expect(scan(`{${members(50_000)},"result":[{"a":{${members(50_000)}}}]}`)).not.toBeNull();
  });

  it.each(['1e400', '1E+100', '-1.5e999999', '1e0000000001', '9'.repeat(201), `0.${'1'.repeat(199)}`])(
    'refuse a number that may be beyond the range of a double: %s',
    (number) => {
      for (const text of [withMember(number), `{"result":[],"a":[${number}]}`]) expect(scan(text)).toBeNull();
    },
  );
});

describe('what is known of a value', () => {
  it.each([
    ['9'.repeat(15), false],
    ['-999999999999999', false],
    ['0.12345678901234567', false],
    ['1e-400', false],
    ['"1234567890123456"', false],
    ['9007199254740993', true],
    ['-1000000000000000', true],
    ['9'.repeat(200), true],
  ])('is whether it has long numbers: %s', (value, hasLongNumbers) => {
    for (const text of [withMember(value), withMember(`[${value}]`), `{"result":[],"a":${value}}`]) {
      const page = scan(text);
      expect(page?.hasLongNumbers).toBe(hasLongNumbers);
      expect(page === null ? 'refused' : differenceOf(page, paths)).toBeUndefined();
    }
  });
});

describe('an answer that is no JSON', () => {
  it.each([
    '',
    ' ',
    '{',
    '[',
    '{"result":[',
    '{"result":[]',
    '{"result":[{}]}}',
    '{"result":[]}{}',
    '{"result":[1,]}',
    '{"result":[1 2]}',
    '{"result":[{]}',
    '{"result" []}',
    "{'result':[]}",
    '{"result":[],}',
    '{,"result":[]}',
    '{"result":[]"a":1}',
    '{"result":[{"a":1 "b":2}]}',
    '{"result":[{1:1}]}',
    '/**/{"result":[]}',
    '{"result":[]}//',
    '{"result":[/**/]}',
    '\0{"result":[]}',
    '﻿{"result":[]}',
    '\xA0{"result":[]}',
    '{"result":[\u2028]}',
    '\v{"result":[]}',
    '{"result":\f[]}',
  ])('gives no page: %j', (text) => {
    expect(() => JSON.parse(text)).toThrow(SyntaxError);
    expect(scan(text)).toBeNull();
  });

  const numbers =
    '01 -01 00 1. .5 -.5 +1 1e 1e+ 1E- - --1 1..2 1.e1 0x10 1_000 1e1.5 1n NaN Infinity -Infinity';
  const words = 'undefined True nul nulll tru fals falsy trueish';
  const strings = String.raw`" "a "\" "\ 'a' "\x" "\a" "\u" "\u12" "\u123g" "\U0041" "a"b" "a""b"`;
  const containers = String.raw`[ ] [1,] [,] [1 [1} {] {"b":1 {"b"} {"b":1,} {"b":1] {b:1} {"b":1;} [1:2] {"b",1} [[] []] {}} {"b":{} {"\q":1}`;
  const values = [
    ...[numbers, words, strings, containers].flatMap((texts) => texts.split(' ')),
    '',
    '- 1',
    '[1 2]',
    '"\\u 123"',
    '"\\\n"',
    '"\0"',
    '"\x1f"',
    '"a\nb"',
    '"a\tb"',
  ];
  it.each(values)('gives no page, whatever holds the value: %j', (value) => {
    for (const text of [
      withMember(value),
      `{"result":[${value}]}`,
      `{"result":[{"a":[${value}]}]}`,
      `{"result":[{"a":{"b":${value}}}]}`,
      `{"result":[],"a":${value}}`,
      `{"a":{"b":${value}},"result":[]}`,
    ]) {
      let isJson = true;
      try {
        JSON.parse(text);
      } catch {
        // As the value alone.
        isJson = false;
      }
      // An empty value leaves an empty array, which is one.
      if (value !== '') expect(isJson, text).toBe(false);
      expect(scan(text) !== null, text).toBe(isJson);
    }
  });

  it.each([
    ['a byte that begins nothing', [0xff]],
    ['a continuation alone', [0x80]],
    ['a cut letter', [0xc5]],
    ['a cut letter of four bytes', [0xf0, 0x9f, 0x98]],
    ['an overlong quote', [0xc0, 0xa2]],
    ['an overlong NUL', [0xc0, 0x80]],
    ['an overlong slash of three bytes', [0xe0, 0x80, 0xaf]],
    ['a surrogate', [0xed, 0xa0, 0x80]],
    ['a pair of surrogates', [0xed, 0xa0, 0xbd, 0xed, 0xb8, 0x80]],
    ['a letter beyond Unicode', [0xf4, 0x90, 0x80, 0x80]],
    ['ISO 8859-1', [0x62, 0xfc, 0x63]],
  ])('gives no page when a string has %s', (_, bytes) => {
    const around = (text: string) =>
      Buffer.concat([Buffer.from(text), Buffer.from(bytes), Buffer.from('"}]}')]);
    expect(scan(around('{"result":[{"a":"'))).toBeNull();
    expect(scan(around('{"a":"x').subarray(0, 7 + bytes.length))).toBeNull();
  });

  it.each(['utf16le', 'latin1'] as const)('gives no page in the encoding %s', (encoding) => {
    expect(scan(Buffer.from('{"result":[{"a":"é"}]}', encoding))).toBeNull();
  });

  it('gives no page wherever it was cut', () => {
    const text = ' {"a":[{}],"result":[{"a":"\\u00e9","b":[true,{"c":-1.5e3}]},null],"z":{}}';
    expect(scan(text)?.count).toBe(2);
    for (let length = 0; length < text.length; length += 1) expect(scan(text.slice(0, length))).toBeNull();
  });
});

const seed = startSeed();
const trials = repeats('TRIALS', { share: 1_500, full: 200_000 });

interface Answer {
  readonly text: string;
  readonly paths: Paths;
}

/** An answer with its records in one of the places that services have them in. */
function answerOf(spellings: JsonSpellings): Answer {
  const records = spellings.array(spellings.below(6), 4);
  const other = () => spellings.member(spellings.oneOf(['"more"', '"n\\u0065xt"', '"data"', '"é"']), 2);
  const others = () => Array.from({ length: spellings.below(3) }, other);
  const object = (name: string, value: string) =>
    `{${[...others(), spellings.member(name, 0, value), ...others()].join(',')}}`;
  const result = spellings.oneOf(['"result"', '"r\\u0065sult"']);
  const inSpace = (text: string) => spellings.space() + text + spellings.space();
  switch (spellings.below(4)) {
    case 0:
      return { text: inSpace(records), paths: [[]] };
    case 1:
      return {
        text: inSpace(object('"_embedded"', `{"members":${records}}`)),
        paths: [['_embedded', 'members']],
      };
    case 2:
      return { text: inSpace(object(result, records)), paths: [['result'], ['result', 'rows']] };
    default:
      return {
        text: inSpace(object(result, object('"rows"', records))),
        paths: [['result'], ['result', 'rows']],
      };
  }
}

/** Removes, adds or changes a few bytes. */
function edited(bytes: Buffer, spellings: JsonSpellings): Buffer {
  let result = bytes;
  for (let edits = 1 + spellings.below(2); edits > 0; edits -= 1) {
    const at = spellings.below(result.length + 1);
    const added = spellings.oneOf([
      ...Array.from('{}[],:"\\ 019.eE+-tu/\0'),
      '\u007f',
      '\t',
      'é',
      '\u00a0',
      '"a":1,',
      '1,',
    ]);
    const [before, behind] = [result.subarray(0, at), result.subarray(at + spellings.below(3))];
    result = spellings.oneOf([
      () => Buffer.concat([before, behind]),
      () => Buffer.concat([before, Buffer.from(added), result.subarray(at)]),
      () => Buffer.concat([before, Buffer.from(added), behind]),
      () => Buffer.concat([before, Buffer.of(spellings.below(256)), behind]),
      () => before,
    ])();
  }
  return result;
}

function isJson(bytes: Buffer): boolean {
  try {
    JSON.parse(bytes.toString());
    return isUtf8(bytes);
  } catch {
    // It is none.
    return false;
  }
}

/** Why an answer that is JSON may be refused all the same; an edit may also change names and numbers. */
function mayBeRefused(text: string, paths: Paths): boolean {
  const isRepeated = paths.flat().some((name) => text.split(`"${name}"`).length > 2);
  return isRepeated || /\\u|\d[eE]\+?\d{3}/.test(text) || arraysAt(JSON.parse(text), paths).length !== 1;
}

describe('a page that is scanned', () => {
  it(`has the values that JSON.parse reads, however they are spelled (seed ${seed})`, () => {
    const spellings = new JsonSpellings(seededRandom(seed));
    for (let trial = 0; trial < trials; trial += 1) {
      const { text, paths } = answerOf(spellings);
      const page = scanPage(Buffer.from(text), paths, 100);
      expect(page === null ? 'refused' : differenceOf(page, paths), text).toBeUndefined();
    }
  });

  it(`is none when some bytes were changed so that it is no JSON (seed ${seed})`, () => {
    const spellings = new JsonSpellings(seededRandom(seed + 1));
    const counts = { refused: 0, read: 0 };
    for (let trial = 0; trial < trials; trial += 1) {
      const { text, paths } = answerOf(spellings);
      for (let edits = 0; edits < 5; edits += 1) {
        const bytes = edited(Buffer.from(text), spellings);
        const page = scanPage(bytes, paths, 100);
        if (!isJson(bytes)) expect(page, bytes.toString()).toBeNull();
        else if (page !== null) expect(differenceOf(page, paths), bytes.toString()).toBeUndefined();
        else expect(mayBeRefused(bytes.toString(), paths), bytes.toString()).toBe(true);
        counts[page === null ? 'refused' : 'read'] += 1;
      }
    }
    expect(Math.min(counts.refused, counts.read)).toBeGreaterThan(trials / 2);
  });
});

type Paths = readonly (readonly string[])[];

/** What differs between a scanned page and the same answer read by `parseJsonText`: undefined if nothing. */
function differenceOf(page: ScannedPage, paths: Paths): string | undefined {
  const text = page.bytes.toString();
  const whole = parseJsonText(text);
  const rest = parseJsonText(page.rest);
  const [records, ...others] = arraysAt(whole, paths);
  if (records === undefined || others.length > 0) return 'an array that is not the only one';
  if (page.starts.length !== page.count || page.ends.length !== page.count) return 'the number of places';
  if (page.firstMember.length !== page.count + 1) return 'the number of first members';
  if (new Set(page.names).size !== page.names.length) return 'a name that comes twice';
  // oxlint-disable-next-line no-control-regex
  if (page.isAscii !== /^[\0-\u007f]*$/.test(text)) return 'isAscii';
  const elements: JsonValue[] = [];
  for (let index = 0; index < page.count; index += 1) {
    const [start = 0, end = 0] = [page.starts[index], page.ends[index]];
    if (!isTight(textOf(page, start, end))) return `the places of element ${index}`;
    const value = valueOf(page, start, end);
    const difference = differenceOfMembers(page, index, value);
    if (difference !== undefined) return `${difference} of element ${index}`;
    elements.push(value);
  }
  const [emptied] = arraysAt(rest, paths);
  if (emptied?.length !== 0) return 'an array that was not emptied';
  // `as`: `parseJsonText` made it, and nothing else has it.
  for (const element of elements) (emptied as JsonValue[]).push(element);
  return isDeepStrictEqual(rest, whole) ? undefined : 'the values';
}

/** The arrays at the paths of an answer. */
function arraysAt(whole: JsonValue, paths: Paths): readonly (readonly JsonValue[])[] {
  return paths.flatMap((path) => {
    let value: JsonValue | undefined = whole;
    for (const name of path) value = isJsonObject(value) ? memberOf(value, name) : undefined;
    return isJsonArray(value) ? [value] : [];
  });
}

function differenceOfMembers(page: ScannedPage, element: number, value: JsonValue): string | undefined {
  const [first = 0, next = 0] = page.firstMember.subarray(element, element + 2);
  const object: Record<string, JsonValue> = {};
  for (let member = first; member < next; member += 1) {
    const at = member * memberWidth;
    const [number = 0, start = 0, end = 0] = page.members.subarray(at, at + memberWidth);
    const name = page.names[number];
    if (name === undefined) return 'a name';
    const text = textOf(page, start, end);
    if (!isTight(text)) return `the places of "${name}"`;
    const memberValue = valueOf(page, start, end);
    Object.defineProperty(object, name, {
      value: memberValue,
      enumerable: true,
      configurable: true,
      writable: true,
    });
  }
  if (!isJsonObject(value)) return next === first ? undefined : 'members of no object';
  return isDeepStrictEqual(object, value) ? undefined : 'the members';
}

/** Without spaces around it. */
function isTight(text: string): boolean {
  return /^[^ \t\r\n]/.test(text) && /[^ \t\r\n]$/.test(text);
}
