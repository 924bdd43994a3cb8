import { expect, it } from 'vitest';
import { canonicalJson } from '../../src/core/canonical-json.ts';
import { readFields } from '../../src/core/json.ts';
import type { EntityName } from '../../src/core/names.ts';
import type { ColumnValue, FieldType, PreparedRecord } from '../../src/core/records.ts';
import { compilePrepareBytes } from '../../src/engine/prepare/prepare-bytes.ts';
import { compilePrepare, type Prepared } from '../../src/engine/prepare/prepare-record.ts';
import { scanPage, valueOf } from '../../src/http/scan-json.ts';
import { unreadRecords } from '../../src/source/source.ts';
import { JsonSpellings } from '../support/json-spellings.ts';
import { recorded } from '../support/recorded-records.ts';
import { seededRandom } from '../support/seeded-random.ts';
import { repeats, startSeed } from '../support/trials.ts';

const types: Readonly<Record<string, FieldType>> = {
  place: 'string',
  id: 'any',
  name: 'string',
  a: 'integer',
  b: 'number',
  ab: 'boolean',
  '0': 'object',
  é: 'array',
  A: 'any',
  'a"': 'string',
};
const columns = Object.entries(types).map(([name, type]) => ({ name, type }));
const shape = {
  table: { entity: 'things' as EntityName, columns, key: ['place', 'id'] },
  ignored: new Set(['_', '1']),
  volatile: [],
  explodedField: null,
};
const prepare = compilePrepare(shape);
const prepareBytes = compilePrepareBytes(shape, () => '');
const inject = { place: 'here' };

/** The page's records, each from its bytes and from its value; null: its bytes are not enough. */
function bothOf(text: string | Buffer) {
  const page = scanPage(Buffer.from(text), [['result']], 1_000);
  if (page === null) return null;
  const records = unreadRecords(page);
  return Array.from({ length: page.count }, (_, index) => {
    const value = valueOf(page, page.starts[index] ?? 0, page.ends[index] ?? 0);
    const bytes = prepareBytes(page, { records, index, glance: value, row: null }, inject);
    return { bytes, value: prepare(value, inject) };
  });
}

/** All that is stored of a record, with its JSON as values. */
function contentOf(prepared: Prepared) {
  if (prepared.kind === 'refused') return prepared;
  const { record, drift, extraFields } = prepared;
  const cell = (value: ColumnValue, index: number): unknown => {
    const type = columns[index]?.type ?? 'any';
    if (value === null || !['object', 'array', 'any'].includes(type)) return value;
    return canonicalJson(readFields(String(value)));
  };
  const { keyText, values, extra } = record;
  // Members of one name differ where they are nested: both texts read as the same value.
  return {
    keyText,
    values: values.map(cell),
    extra: extra === null ? null : canonicalJson(readFields(extra)),
    drift: new Set(drift.map(({ field, kind, type }) => `${field} ${kind} ${type}`)),
    extraFields,
  };
}

it('prepares from its bytes what the value of a record gives', () => {
  const spellings = new JsonSpellings(seededRandom(startSeed()));
  let compared = 0;
  for (let trial = repeats('TRIALS', { share: 400, full: 100_000 }); trial > 0; trial -= 1) {
    const record = (): string => {
      const id = spellings.below(8) === 0 ? [] : [spellings.member('"id"', 0)];
      const others = Array.from({ length: spellings.below(8) }, () =>
        spellings.member(
          spellings.below(3) === 0 ? spellings.name() : spellings.column(Object.keys(types)),
          3,
        ),
      );
      return `{${[...id, ...others].join(',')}}`;
    };
    const text = `{"result":[${[record(), record(), spellings.value(2)].join(',')}]}`;
    for (const { bytes, value } of bothOf(text) ?? []) {
      if (bytes === null) continue;
      compared += 1;
      expect(contentOf(bytes), text).toEqual(contentOf(value));
      if (bytes.kind === 'refused' || value.kind === 'refused') throw new Error('expected records');
      const row = { ...value.record, columns };
      expect(bytes.record.compare(bytes.record, row), text).toBe('same');
    }
  }
  expect(compared).toBeGreaterThan(200);
});

it.each([
  ['a member that comes twice', '{"id":1,"name":"a","n\\u0061me":"b"}'],
  ['a key that does not fit', '{"id":null}'],
  ['no key', '{"name":"a"}'],
  ['no object', '[1]'],
  ['too many levels', `{"id":1,"0":{"a":${'['.repeat(200)}${']'.repeat(200)}}}`],
])('leaves to its value a record with %s', (_, record) => {
  expect(bothOf(`{"result":[${record}]}`)?.map(({ bytes }) => bytes)).toEqual([null]);
});

const valueIn =
  ({ values }: PreparedRecord) =>
  (name: string) =>
    values[columns.findIndex((column) => column.name === name)];

it('stores objects as they came, on one line and without letters as numbers', () => {
  const cells = (record: string): unknown => {
    const [both] = bothOf(`{"result":[${record}]}`) ?? [];
    return both?.bytes?.kind === 'record' ? ['0', 'é'].map(valueIn(both.bytes.record)) : both;
  };
  expect(cells('{"id":1,"0":{"z": 1.0, "a":"é"},"é":[ 1e2 ]}')).toEqual(['{"z": 1.0, "a":"é"}', '[ 1e2 ]']);
  expect(cells('{"id":1,"0":{"z":\n1.50},"é":["\\u00e9\\ud800"]}')).toEqual(['{"z":1.5}', '["é\\ud800"]']);
});

it('prepares the records that were recorded from real services', () => {
  for (const { record } of recorded) {
    const id = { ...record, id: 'one' };
    for (const indent of [0, 2]) {
      const [both] = bothOf(JSON.stringify({ result: [id] }, null, indent)) ?? [];
      if (both === undefined || both.bytes === null) throw new Error('expected a record');
      expect(contentOf(both.bytes)).toEqual(contentOf(both.value));
    }
  }
});
