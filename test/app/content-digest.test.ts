import { expect, it } from 'vitest';
import { compileDigest } from '../../src/app/refetch-record.ts';
import type { Column, ColumnValue, EntityTable } from '../../src/core/records.ts';
import type { EntityName } from '../../src/core/names.ts';
import type { RecordShape } from '../../src/engine/prepare/prepare-record.ts';

const entity = 'pages' as EntityName;
const declared: EntityTable = {
  entity,
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
const shape: RecordShape = {
  table: declared,
  ignored: new Set(),
  volatile: [['request'], ['cover', 'expires']],
  filledFrom: new Map([['social', 'likes']]),
  explodedField: null,
};

function digest(
  values: Readonly<Record<string, ColumnValue>>,
  extra: string | null = null,
  more: readonly Column[] = [],
): string {
  const table = { ...declared, columns: [...declared.columns, ...more] };
  return compileDigest(
    shape,
    table,
  )({ values: table.columns.map(({ name }) => values[name] ?? null), extra });
}

const row = { id: '1', url: 'https://old/1', likes: 3, score: 0.5, cover: '{"at":[1],"expires":1}' };

it('finds rows equal that differ in what does not count, or in where a sink keeps it', () => {
  const same: readonly string[] = [
    digest({ ...row, request: 'another', cover: '{ "expires": 2, "at": [1] }' }),
    digest({ ...row, social: 3 }),
    digest({ ...row, likes: 3n }),
    digest(row, '{}'),
  ];
  expect(new Set(same)).toEqual(new Set([digest(row)]));
  const evolved: Column = { name: 'nick', type: 'any', isEvolved: true };
  expect(digest({ ...row, nick: '{"b":-0.0}' }, null, [evolved])).toBe(digest(row, '{"nick":{"b":0}}'));
  expect(digest({ ...row, score: -0 })).toBe(digest({ ...row, score: 0 }));
});

it('finds rows different in any value that counts', () => {
  const others = [
    { ...row, url: 'https://old/2' },
    { ...row, likes: 4 },
    { ...row, social: 4 },
    { ...row, score: 0.500_000_000_000_000_1 },
    { ...row, score: null },
    { ...row, cover: '{"at":[2],"expires":1}' },
    { ...row, cover: '{"at":[1' },
  ].map((values) => digest(values));
  const all = [
    digest(row),
    digest(row, '{"nick":1}'),
    digest(row, '{"nick":"1"}'),
    digest(row, '{"n'),
    ...others,
  ];
  expect(new Set(all).size).toBe(all.length);
});
