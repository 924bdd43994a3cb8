import { expect, it } from 'vitest';
import type { Column, ColumnValue, EntityTable, RowContent } from '../../src/core/records.ts';
import type { EntityName } from '../../src/core/names.ts';
import {
  compileCompare,
  compileContentText,
  type ContentShape,
} from '../../src/engine/prepare/row-content.ts';

const declared: EntityTable = {
  entity: 'pages' as EntityName,
  key: ['id'],
  columns: [
    { name: 'id', type: 'string' },
    { name: 'url', type: 'string' },
    { name: 'likes', type: 'integer' },
    { name: 'social', type: 'integer' },
    { name: 'score', type: 'number' },
    { name: 'cover', type: 'object' },
    { name: 'request', type: 'string' },
  ],
};
const nick: Column = { name: 'nick', type: 'any', isEvolved: true };
const evolved = { ...declared, columns: [...declared.columns, nick] };
const volatile = [['request'], ['cover', 'expires'], ['*', 'signed']];
const filledFrom = new Map([['social', 'likes']]);

type Cells = Readonly<Record<string, ColumnValue>>;

function rowOf(cells: Cells, extra: string | null = null, columns: readonly Column[] = declared.columns) {
  return { columns, extra, values: columns.map(({ name }) => cells[name] ?? null) };
}

const cells = { id: '1', url: 'https://old/1', likes: 3, score: 0.5, cover: '{"at":[1],"expires":1}' };
const row = rowOf(cells);

/** How a row differs from another one, by `compare` in both directions, and by texts. */
function differences(one: RowContent, other: RowContent, change: Partial<ContentShape> = {}) {
  const shapes: readonly ContentShape[] = [
    { table: declared, volatile, filledFrom, ...change },
    { table: evolved, volatile, filledFrom, ...change },
  ];
  const found = shapes.flatMap((shape) => {
    const own = (given: RowContent): RowContent => {
      const { columns } = shape.table;
      return {
        ...given,
        columns,
        values: columns.map((column) => given.values[given.columns.indexOf(column)] ?? null),
      };
    };
    const pairs = [
      [one, other],
      [other, one],
    ] as const;
    const text = compileContentText(shape);
    const compare = compileCompare(shape);
    return pairs.flatMap(([left, right]) => {
      // Records have the columns of the shape, rows may have others.
      if (left.columns.length > shape.table.columns.length) return [];
      const difference = compare(own(left), right);
      expect(text(left) === text(right)).toBe(difference !== 'content');
      return [difference];
    });
  });
  return [...new Set(found)];
}

it.each<[string, RowContent, RowContent]>([
  ['another order of names', row, rowOf({ ...cells, cover: '{ "expires": 1, "at": [1] }' })],
  ['another spelling of a number', row, rowOf({ ...cells, cover: '{"at":[1.0e0],"expires":1.0}' })],
  ['another spelling of a text', rowOf(cells, '{"a":"\\u0041\\/"}'), rowOf(cells, '{"a":"A/"}')],
  ['a copy of another field', row, rowOf({ ...cells, social: 3 })],
  ['an integer that is long elsewhere', row, rowOf({ ...cells, likes: 3n })],
  ['no field without a column', row, rowOf(cells, '{}')],
  ['a null without a column', row, rowOf(cells, '{"nick":null}')],
  ['a sign of nothing', rowOf({ ...cells, score: -0 }), rowOf({ ...cells, score: 0 })],
  [
    'a column that was added since',
    rowOf(cells, '{"nick":{"b":0}}'),
    rowOf({ ...cells, nick: '{"b":-0.0}' }, null, evolved.columns),
  ],
  ['a column that is not stored yet', row, rowOf(cells, null, declared.columns.slice(0, -1))],
])('finds no difference in %s', (_what, one, other) => {
  expect(differences(one, other)).toEqual(['same']);
  expect(differences(one, other, { filledFrom: new Map() })).toEqual([
    _what.startsWith('a copy') ? 'content' : 'same',
  ]);
});

it.each<[string, RowContent, RowContent]>([
  ['a field', row, rowOf({ ...cells, request: 'another' })],
  ['a path', row, rowOf({ ...cells, cover: '{"at":[1],"expires":2}' })],
  ['a path without a column', rowOf(cells, '{"nick":{"signed":1}}'), rowOf(cells, '{"nick":{"signed":2}}')],
  [
    'an added column',
    rowOf(cells, '{"nick":{"signed":1}}'),
    rowOf({ ...cells, nick: '{"signed":2}' }, null, evolved.columns),
  ],
])('finds what is volatile in %s', (_what, one, other) => {
  expect(differences(one, other)).toEqual(['volatile']);
  expect(differences(one, other, { volatile: [] })).toEqual(['content']);
});

it('finds rows different in any value that counts', () => {
  const all = [
    row,
    rowOf(cells, '{"nick":1}'),
    rowOf(cells, '{"nick":"1"}'),
    rowOf(cells, '{"n'),
    rowOf({ ...cells, nick: '[1]' }, null, evolved.columns),
    ...[
      { url: 'https://old/2' },
      { likes: 4 },
      { likes: 9_007_199_254_740_993n },
      { likes: 9_007_199_254_740_992n },
      { social: 4 },
      { score: 0.500_000_000_000_000_1 },
      { score: null },
      { cover: '{"at":[2],"expires":1}' },
      { cover: '{"at":[1' },
    ].map((change) => rowOf({ ...cells, ...change })),
  ];
  for (const [index, one] of all.entries()) {
    for (const other of all.slice(index + 1)) expect(differences(one, other)).toEqual(['content']);
  }
});
