import { expect, it } from 'vitest';
import type { ConnectorName, EntityName } from '../../../src/core/names.ts';
import type { Column, FieldType } from '../../../src/core/records.ts';
import { declareTable, tableName, withAdded } from '../../../src/sinks/decisions/stored-table.ts';

const news = 'news-eu' as ConnectorName;
const members = 'members' as EntityName;
const column = (name: string, type: FieldType = 'string'): Column => ({ name, type });
const table = { entity: members, key: ['id'], columns: [column('id'), column('name')] };
const first = declareTable(news, table, undefined).columns;

it('names a table after its connector and entity', () => {
  expect(tableName(news, members)).toBe('news_eu__members');
});

it('has nothing stored and nothing to fill in a new table', () => {
  expect(declareTable(news, table, undefined)).toEqual({
    columns: { key: ['id'], declared: table.columns, stored: table.columns, evolved: [] },
    stored: [],
    filled: [],
    retyped: [],
  });
});

it('keeps columns that are no longer declared, and fills those that are declared again', () => {
  const next = { ...table, columns: [column('id'), column('nick')] };
  const second = declareTable(news, next, first);
  expect(second.columns.stored.map(({ name }) => name)).toEqual(['id', 'name', 'nick']);
  expect(second.filled).toEqual([column('nick')]);
  expect(declareTable(news, table, second.columns).filled).toEqual([column('name')]);
});

it('takes an added column for a declared one once the definition declares it', () => {
  const nick: Column = { ...column('nick'), isEvolved: true };
  const added = withAdded(first, [nick]);
  expect(added).toMatchObject({ evolved: [nick], declared: [...table.columns, nick] });
  const kept = declareTable(news, { ...table, columns: [...table.columns, nick] }, added);
  expect(kept).toMatchObject({ columns: { evolved: [nick] }, filled: [] });
  const declared = declareTable(news, { ...table, columns: [...table.columns, column('nick')] }, added);
  expect(declared).toMatchObject({ columns: { evolved: [] }, filled: [] });
});

it('refuses another key and a column of another type, save for JSON of another kind', () => {
  expect(() => declareTable(news, { ...table, key: ['name'] }, first)).toThrow('keyed by (id)');
  const other = { ...table, columns: [column('id', 'integer'), column('name')] };
  expect(() => declareTable(news, other, first)).toThrow('column "id" holds string values');
  const json = (type: FieldType) => ({
    ...table,
    columns: [column('id'), column('name'), column('tags', type)],
  });
  const before = declareTable(news, json('array'), first).columns;
  expect(() => declareTable(news, json('object'), before)).not.toThrow();
});

it('refuses a key of numbers that is declared as text', () => {
  const numbered = { ...table, columns: [column('id', 'integer'), column('name', 'integer')] };
  const before = declareTable(news, numbered, undefined).columns;
  const named = { ...numbered, columns: [column('id', 'integer'), column('name')] };
  expect(declareTable(news, named, before).retyped).toEqual([column('name', 'integer')]);
  expect(() => declareTable(news, table, before)).toThrow('column "id" holds integer values');
});
