import { expect, it } from 'vitest';
import type { Column, ColumnValue, EntityTable, RowContent } from '../../src/core/records.ts';
import type { EntityName } from '../../src/core/names.ts';
import { compileCompare, compileContentText } from '../../src/engine/prepare/row-content.ts';

const nick: Column = { name: 'nick', type: 'any', isEvolved: true };
const columns: readonly Column[] = [
  { name: 'id', type: 'string' },
  { name: 'url', type: 'string' },
  { name: 'likes', type: 'integer' },
  { name: 'social', type: 'integer' },
  { name: 'score', type: 'number' },
  { name: 'cover', type: 'object' },
  { name: 'request', type: 'string' },
];
const table: EntityTable = { entity: 'pages' as EntityName, key: ['id'], columns: [...columns, nick] };
const cells = { id: '1', url: 'https://old/1', likes: 3, score: 0.5, cover: '{"at":[1],"expires":1}' };

function row(
  change: Readonly<Record<string, ColumnValue>> = {},
  extra: string | null = null,
  stored = columns,
): RowContent {
  const all: Readonly<Record<string, ColumnValue>> = { ...cells, ...change };
  return { columns: stored, extra, values: stored.map(({ name }) => all[name] ?? null) };
}

/** How two rows differ, whichever of them is the record. Their texts agree. */
function differences(
  one: RowContent,
  other: RowContent,
  volatile: readonly string[][] = [['request'], ['cover', 'expires'], ['*', 'signed']],
) {
  const shape = { table, volatile, filledFrom: new Map([['social', 'likes']]) };
  const [compare, text] = [compileCompare(shape), compileContentText(shape)];
  const valuesOf = (of: RowContent) =>
    table.columns.map((column) => of.values[of.columns.indexOf(column)] ?? null);
  const found = [
    compare({ ...one, values: valuesOf(one) }, other),
    compare({ ...other, values: valuesOf(other) }, one),
  ];
  expect(text(one) === text(other)).toBe(!found.includes('content'));
  return [...new Set(found)];
}

it.each<[string, RowContent, RowContent]>([
  ['another order of names', row(), row({ cover: '{ "expires": 1, "at": [1] }' })],
  ['another spelling of a number', row(), row({ cover: '{"at":[1.0e0],"expires":1.0}' })],
  ['another spelling of a text', row({}, '{"a":"\\u0041\\/"}'), row({}, '{"a":"A/"}')],
  ['a copy of another field', row(), row({ social: 3 })],
  ['an integer that is long elsewhere', row(), row({ likes: 3n })],
  ['no field without a column', row(), row({}, '{}')],
  ['a null without a column', row(), row({}, '{"nick":null}')],
  ['the sign of zero', row({ score: -0 }), row({ score: 0 })],
  ['an added column', row({}, '{"nick":{"b":0}}'), row({ nick: '{"b":-0.0}' }, null, table.columns)],
  ['a column that is not stored yet', row(), row({}, null, columns.slice(0, -1))],
])('finds no difference in %s', (_what, one, other) => {
  expect(differences(one, other)).toEqual(['same']);
});

it.each<[string, RowContent, RowContent]>([
  ['a field', row(), row({ request: 'another' })],
  ['a path', row(), row({ cover: '{"at":[1],"expires":2}' })],
  ['an added column', row({}, '{"nick":{"signed":1}}'), row({ nick: '{"signed":2}' }, null, table.columns)],
])('finds what is volatile in %s', (_what, one, other) => {
  expect(differences(one, other)).toEqual(['volatile']);
  expect(differences(one, other, [])).toEqual(['content']);
});

it('finds rows different in any value that counts', () => {
  const changes: readonly Readonly<Record<string, ColumnValue>>[] = [
    {},
    { url: 'https://old/2' },
    { likes: 4 },
    { likes: 9_007_199_254_740_993n },
    { social: 4 },
    { score: 0.500_000_000_000_000_1 },
    { score: null },
    { cover: '{"at":[2],"expires":1}' },
    { cover: '{"at":[1' },
  ];
  const extras = ['{"nick":1}', '{"nick":"1"}', '{"n'].map((extra) => row({}, extra));
  const all = [...changes.map((change) => row(change)), ...extras, row({ nick: '[1]' }, null, table.columns)];
  for (const [index, one] of all.entries()) {
    for (const other of all.slice(index + 1)) expect(differences(one, other)).toEqual(['content']);
  }
});
