import { quoted } from '../../sql/quoted.ts';
import type { EntityName, TargetTables } from '../tables/target-tables.ts';
import { fieldTypes, ownTypes } from './fields.ts';
import { catalogOf, incompatible, type Duckdb } from './open-duckdb.ts';

/** The tables of an open file. */
export async function duckdbTables(db: Duckdb, path: string): Promise<TargetTables> {
  const catalog = await catalogOf(db);
  const sqlName = ({ connector, entity }: EntityName): string =>
    [catalog, connector, entity].map(quoted).join('.');
  return {
    db,
    at: 'main.',
    valueMark: '$',
    typeOf: (type) => fieldTypes[type].sql,
    ownTypes,
    nameOf: ({ connector, entity }) => `${connector}.${entity}`,
    sqlName,
    typesThere: async (entity) => await typesThere(db, entity),
    keyProblem: () => Promise.resolve(null),
    lostWith: () => Promise.resolve([]),
    isOwnView: () => Promise.resolve(false),
    // With a sum of a column its blocks are read, and their checksums compared: to count, DuckDB reads none.
    countSql: (entity) => `SELECT count(*) AS live, sum(_seq) AS sum FROM ${sqlName(entity)}`,
    mostCounted: null,
    order: 'connector, entity',
    placeName: 'path',
    isReplaced: true,
    incompatible: (found, advice) => incompatible(path, found, advice),
  };
}

async function typesThere(
  db: Duckdb,
  { connector, entity }: EntityName,
): Promise<ReadonlyMap<string, string> | null> {
  const columns = await db.rows<{ readonly name: string; readonly type: string }>(
    `SELECT column_name AS name, data_type AS type FROM duckdb_columns()
     WHERE database_name = current_database() AND schema_name = $connector AND table_name = $entity`,
    { connector, entity },
  );
  if (columns.length === 0) return null;
  return new Map(
    columns.map(({ name, type }) => [name, type.replace('TIMESTAMP WITH TIME ZONE', 'TIMESTAMPTZ')]),
  );
}
