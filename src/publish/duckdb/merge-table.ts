import type { DuckDBAppender, DuckDBDataChunk } from '@duckdb/node-api';
import { fieldsOf, type Field } from './fields.ts';
import type { BuiltEntity, BuiltRow } from './messages.ts';
import { incompatible, quoted, type Duckdb } from './open-duckdb.ts';

/** The table of an entity that rows are coming for. */
export interface BuiltTable {
  readonly entity: BuiltEntity;
  /** It holds nothing of earlier publications. */
  readonly isNew: boolean;
  /** As statements name it. */
  readonly table: string;
  /** Where the rows come to, as statements name it: a new table itself, else one beside it that ends with the connection. */
  readonly stage: string;
  readonly appender: DuckDBAppender;
  /** Filled again and again: what it holds outside of the heap is seen by no garbage collection. */
  readonly chunk: DuckDBDataChunk;
  readonly fields: readonly Field[];
}

/**
 * Makes the table, or adds the columns that it lacks. Throws `SyncError` TARGET_INCOMPATIBLE where another program's table is there, or somebody changed
 * ours so that it does not hold what was published, unless a new generation replaces it.
 */
export async function planTable(db: Duckdb, path: string, entity: BuiltEntity): Promise<BuiltTable> {
  const { connector, entity: name, key } = entity;
  if (connector === 'information_schema' || connector === 'pg_catalog') {
    throw incompatible(
      path,
      `DuckDB has a schema ${connector} of its own`,
      'Give the connector another name.',
    );
  }
  const [main] = await db.rows<{ readonly name: string }>('SELECT current_database() AS name');
  const catalog = main?.name ?? '';
  // With the name of the database: alone, that of a schema may be the database's too.
  const table = [catalog, connector, name].map(quoted).join('.');
  const fields = fieldsOf(entity);
  const there = await typesThere(db, connector, name);
  const [known] = await db.rows<{ readonly key: string; readonly columns: string }>(
    'SELECT key, columns FROM main._published_tables WHERE connector = $connector AND entity = $name',
    { connector, name },
  );
  if (known === undefined && there.size > 0) {
    throw incompatible(
      path,
      `it has a table ${connector}.${name} that is not of a publication`,
      'Rename that table, or name another path.',
    );
  }
  const isNew = known === undefined || entity.isNewGeneration;
  const { connection, library } = db;
  const chunk = library.DuckDBDataChunk.create(fields.map(({ type }) => type(library)));
  if (isNew) {
    await db.run(`CREATE SCHEMA IF NOT EXISTS ${quoted(catalog)}.${quoted(connector)}`);
    await db.run(`CREATE OR REPLACE TABLE ${table} (${columnsSql(fields, key)})`);
    const appender = await connection.createAppender(name, connector, catalog);
    return { entity, isNew, table, fields, chunk, appender, stage: table };
  }
  const had = JSON.parse(known.columns) as readonly string[];
  const problem = problemOf({ key: known.key, columns: had }, entity, fields, there);
  if (problem !== null) {
    throw incompatible(
      path,
      `its table ${connector}.${name} ${problem}`,
      'Undo that, or publish with --new-generation.',
    );
  }
  for (const { name: column, sql } of fields) {
    if (!there.has(column)) await db.run(`ALTER TABLE ${table} ADD COLUMN ${quoted(column)} ${sql}`);
  }
  await db.run(`CREATE OR REPLACE TEMPORARY TABLE stage (${columnsSql(fields, key)})`);
  const appender = await connection.createAppender('stage', 'main', 'temp');
  return { entity, isNew, table, fields, chunk, appender, stage: 'temp.main.stage' };
}

async function typesThere(db: Duckdb, schema: string, table: string): Promise<ReadonlyMap<string, string>> {
  const rows = await db.rows<{ readonly name: string; readonly type: string }>(
    `SELECT column_name AS name, data_type AS type FROM duckdb_columns()
     WHERE database_name = current_database() AND schema_name = $schema AND table_name = $table`,
    { schema, table },
  );
  return new Map(
    rows.map(({ name, type }) => [name, type.replace('TIMESTAMP WITH TIME ZONE', 'TIMESTAMPTZ')]),
  );
}

/** Why the table cannot take the rows; null where it can. */
function problemOf(
  had: { readonly key: string; readonly columns: readonly string[] },
  wanted: BuiltEntity,
  fields: readonly Field[],
  there: ReadonlyMap<string, string>,
): string | null {
  if (there.size === 0) return 'is gone';
  const key = JSON.stringify(wanted.key);
  if (had.key !== key) return `has the key ${had.key} and should have ${key}`;
  const lost = had.columns.find((name) => !there.has(name));
  if (lost !== undefined) return `has lost its column ${lost}`;
  const other = fields.find(({ name, sql }) => (there.get(name) ?? sql) !== sql);
  return other === undefined
    ? null
    : `has ${there.get(other.name)} in column ${other.name}, which should be ${other.sql}`;
}

function columnsSql(fields: readonly Field[], key: readonly string[]): string {
  return fields
    .map(({ name, sql }) => `${quoted(name)} ${sql}${key.includes(name) ? ' NOT NULL' : ''}`)
    .join(', ');
}

/** DuckDB's vectors hold as many. */
const chunkRows = 2_048;

export function appendRows(
  { library }: Pick<Duckdb, 'library'>,
  { fields, appender, chunk }: BuiltTable,
  rows: readonly BuiltRow[],
): void {
  for (let first = 0; first < rows.length; first += chunkRows) {
    const some = rows.slice(first, first + chunkRows);
    chunk.reset();
    chunk.setColumns(
      fields.map(({ read }, index) =>
        some.map((row) => {
          const value = row[index] ?? null;
          return value === null ? null : read(value, library);
        }),
      ),
    );
    appender.appendDataChunk(chunk);
  }
}

/** The newest `_seq` of each key wins; deleted rows go. Keys that differ for the sink may be equal here: lone surrogates, and the two zeros. */
export async function mergeTable(
  db: Duckdb,
  { entity, isNew, table, stage, appender, fields }: BuiltTable,
): Promise<void> {
  const { key } = entity;
  appender.closeSync();
  const names = key.map(quoted).join(', ');
  const same = key.map((one) => `t.${quoted(one)} = s.${quoted(one)}`).join(' AND ');
  const [twice] = await db.rows(`SELECT 1 FROM ${stage} GROUP BY ${names} HAVING count(*) > 1 LIMIT 1`);
  if (twice !== undefined) {
    await db.run(
      `DELETE FROM ${stage} AS t USING (SELECT ${names}, max(_seq) AS newest FROM ${stage} GROUP BY ${names}) AS s
       WHERE ${same} AND t._seq < s.newest`,
    );
  }
  if (isNew) {
    await db.run(`DELETE FROM ${table} WHERE _deleted`);
  } else {
    const columns = fields.map((field) => quoted(field.name)).join(', ');
    await db.run(`DELETE FROM ${table} AS t USING ${stage} AS s WHERE ${same} AND t._seq < s._seq`);
    await db.run(
      `INSERT INTO ${table} (${columns}) SELECT ${columns} FROM ${stage} AS s
       WHERE NOT _deleted AND NOT EXISTS (SELECT 1 FROM ${table} AS t WHERE ${same})`,
    );
    await db.run('DROP TABLE temp.main.stage');
  }
  await noteTable(db, entity, table);
}

async function noteTable(
  db: Duckdb,
  { connector, entity, generation, key, columns }: BuiltEntity,
  table: string,
): Promise<void> {
  await db.run('DELETE FROM main._published_tables WHERE connector = $connector AND entity = $entity', {
    connector,
    entity,
  });
  await db.run(
    `INSERT INTO main._published_tables
     SELECT $connector, $entity, $generation, $key, $columns, (SELECT count(*) FROM ${table})`,
    {
      connector,
      entity,
      generation,
      key: JSON.stringify(key),
      columns: JSON.stringify(columns.map(({ name }) => name)),
    },
  );
}
