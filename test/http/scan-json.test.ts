import { describe, expect, it } from 'vitest';
import { scanPage, textOf, valueOf, type ScannedPage, memberWidth } from '../../src/http/scan-json.ts';
import { differenceOf } from '../support/check-scan.ts';
import { recorded } from '../support/recorded-records.ts';

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
    expect([objects?.count, objects?.members.length]).toEqual([100_000, 300_000]);
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
