import type { EntityName, RunId } from '../../../src/core/names.ts';
import type { ColumnValue, EntityTable, FieldType } from '../../../src/core/records.ts';
import type { StoredRecord } from '../../../src/sinks/record-reader.ts';
import { seededRandom } from '../seeded-random.ts';

/** Names that a field of a service may have, with a column of every type among them. */
const columns: readonly (readonly [string, FieldType])[] = [
  ['id', 'string'],
  ['n"o', 'integer'],
  ['select', 'string'],
  ['a.b', 'integer'],
  ["it's", 'number'],
  ['is on', 'boolean'],
  ['größe', 'object'],
  ['😀,\t{}', 'array'],
  ['__proto__', 'any'],
  ['line\nbreak', 'string'],
  [' ', 'number'],
  ['constructor', 'boolean'],
  ['never set', 'string'],
];

export const hostileTable: EntityTable = {
  entity: 'things' as EntityName,
  columns: columns.map(([name, type]) => ({ name, type })),
  key: ['id', 'n"o'],
};

const nested = `${'['.repeat(200)}"deep"${']'.repeat(200)}`;

/** What a sink may hold in a column of the type. */
const valuesOf: Readonly<Record<FieldType, readonly Exclude<ColumnValue, null>[]>> = {
  string: [
    '',
    ' ',
    'null',
    'NULL',
    '\u0000',
    'a\u0000b',
    '"',
    '""',
    "'",
    '\\',
    '\\N',
    '\r\n',
    '\n',
    ',',
    'a,"b"\r\n',
    '\ufeffbom',
    '\u2028',
    '\u007f\u0001',
    '😀👩‍👩‍👧‍👦',
    '\uffff\ue000𐀀',
    '\u{10ffff}'.repeat(20),
    'é'.repeat(17),
    '=1+1',
    '0012',
    '-0',
    'true',
    '2026-01-01',
    '{"a":1}',
  ],
  integer: [
    0n,
    1n,
    -1,
    7,
    9_007_199_254_740_993n,
    -9_007_199_254_740_993n,
    2n ** 63n - 1n,
    -(2n ** 63n),
    Number.MAX_SAFE_INTEGER,
  ],
  number: [
    0,
    -0,
    1,
    1n,
    -1.5,
    0.1,
    1 / 3,
    5e-324,
    -5e-324,
    2.2250738585072014e-308,
    1.7976931348623157e308,
    -1.7976931348623157e308,
    2 ** 53,
    2 ** 63,
    1e21,
    1e-7,
    123456789.12345679,
  ],
  boolean: [0, 1, 0n, 1n],
  object: [
    '{}',
    '{"":null}',
    '{"a":9007199254740993,"b":-0.0}',
    '{"x":{"y":[1,"\\ud800",null]}}',
    '{"n":"\\u0000"}',
    '{"\\\\ud800":"\\ud83d\\ude00\\udfff"}',
  ],
  array: ['[]', '[null,true,"a,\\"b\\""]', nested, '["😀","\\r\\n"]'],
  any: ['"text"', '""', '0', '12345678901234567890', 'true', '{"a":[]}', '[1.50]', '"\\udc00"', '-0.0'],
};

const instants = [
  '1970-01-01T00:00:00.000Z',
  '1969-12-31T23:59:59.999Z',
  '0001-01-01T00:00:00.000Z',
  '1582-10-14T12:00:00.001Z',
  '2026-02-28T23:59:59.999Z',
  '9999-12-31T23:59:59.999Z',
] as const;

/** The same rows for the same seed; each value of every list is in the first of them. */
export function hostileRows(count: number, seed: number): readonly StoredRecord[] {
  const random = seededRandom(seed);
  const oneOf = <Value>(list: readonly Value[]): Value => list[Math.floor(random() * list.length)] as Value;
  const valueAt = (type: FieldType, at: number): ColumnValue => {
    const list = valuesOf[type];
    if (at < list.length) return list[at] ?? null;
    if (random() < 0.2) return null;
    if (random() < 0.5) return oneOf(list);
    switch (type) {
      case 'string':
        return Array.from({ length: Math.floor(random() * 20) }, () => randomCharacter(random)).join('');
      case 'integer':
        return BigInt.asIntN(
          64,
          BigInt(Math.floor(random() * 2 ** 32)) * 4_294_967_291n * BigInt(1 + (at % 7)),
        );
      case 'number':
        return randomDouble(random);
      case 'boolean':
      case 'object':
      case 'array':
      case 'any':
        return oneOf(list);
    }
  };
  return Array.from({ length: count }, (_, at) => {
    const values = columns.map(([name, type]) => (name === 'never set' ? null : valueAt(type, at)));
    values[0] = `${at} ${String(values[0] ?? '')}`;
    values[1] ??= 0n;
    return {
      isDeleted: at % 11 === 10,
      seq: at * 3 + 1,
      changedAt: instants[at % instants.length] ?? instants[0],
      run: '01JD0000000000000000000000' as RunId,
      values,
      extra: at % 3 === 0 ? null : `{"big":123456789012345678901234567890,"half":"\\ud83d","at":${at}}`,
    };
  });
}

function randomCharacter(random: () => number): string {
  const code = Math.floor(random() * (random() < 0.5 ? 0x80 : 0x10ffff));
  return code >= 0xd800 && code <= 0xdfff ? '?' : String.fromCodePoint(code);
}

function randomDouble(random: () => number): number {
  const bits = new DataView(new ArrayBuffer(8));
  bits.setUint32(0, Math.floor(random() * 2 ** 32));
  bits.setUint32(4, Math.floor(random() * 2 ** 32));
  const value = bits.getFloat64(0);
  return Number.isFinite(value) ? value : 0.5;
}
