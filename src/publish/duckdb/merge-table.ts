import type { DuckDBAppender, DuckDBDataChunk } from '@duckdb/node-api';
import { quoted } from '../../sql/quoted.ts';
import { planTable } from '../tables/plan-table.ts';
import { keepNewest, sameKey } from '../tables/target-tables.ts';
import { duckdbTables } from './duckdb-tables.ts';
import { charsOf, fieldsOf, type BuiltEntity, type BuiltRow, type Field } from './fields.ts';
import { catalogOf, incompatible, type Duckdb } from './open-duckdb.ts';

/** A table beside one that has rows already, where the next ones come to. It ends with the connection. */
const stage = 'temp.main.stage';

/** The table of an entity that rows are coming for. */
export interface BuiltTable {
  readonly entity: BuiltEntity;
  /** It holds nothing of earlier publications. */
  readonly isNew: boolean;
  /** As statements name it. */
  readonly table: string;
  /** Filled again and again: what it holds outside of the heap is seen by no garbage collection. */
  readonly chunk: DuckDBDataChunk;
  /**
   * Appends rows: to a new table itself, else to the stage. Their characters are counted.
   */
  readonly held: { appender: DuckDBAppender; chars: number };
  readonly fields: readonly Field[];
}

/**
 * Makes the table, or adds the columns that it lacks. Throws `SyncError` TARGET_INCOMPATIBLE as `planTable` does, and
 * for a name that DuckDB has for itself.
 */
export async function openTable(db: Duckdb, path: string, entity: BuiltEntity): Promise<BuiltTable> {
  const { connector, entity: name, key } = entity;
  if (connector === 'information_schema' || connector === 'pg_catalog') {
    throw incompatible(
      path,
      `DuckDB has a schema ${connector} of its own`,
      'Give the connector another name.',
    );
  }
  const tables = await duckdbTables(db, path);
  const { kind, added } = await planTable(tables, entity);
  const table = tables.sqlName(entity);
  const fields = fieldsOf(entity);
  const isNew = kind !== 'keep';
  const { connection, library } = db;
  const chunk = library.DuckDBDataChunk.create(fields.map(({ type }) => type(library)));
  if (isNew) {
    const catalog = await catalogOf(db);
    await db.run(`CREATE SCHEMA IF NOT EXISTS ${quoted(catalog)}.${quoted(connector)}`);
    await db.run(`CREATE OR REPLACE TABLE ${table} (${columnsSql(fields, key)})`);
    const appender = await connection.createAppender(name, connector, catalog);
    return { entity, isNew, table, fields, chunk, held: { appender, chars: 0 } };
  }
  for (const { name: column, type } of added) {
    await db.run(`ALTER TABLE ${table} ADD COLUMN ${quoted(column)} ${tables.typeOf(type)}`);
  }
  const appender = await openStage(db, fields, key);
  return { entity, isNew, table, fields, chunk, held: { appender, chars: 0 } };
}

function columnsSql(fields: readonly Field[], key: readonly string[]): string {
  return fields
    .map(({ name, sql }) => `${quoted(name)} ${sql}${key.includes(name) ? ' NOT NULL' : ''}`)
    .join(', ');
}

/** DuckDB's vectors hold as many. */
const chunkRows = 2_048;
/** What an appender holds is beside DuckDB's memory, and what is merged at once may be held twice in it. */
const heldChars = 32 * 1024 * 1024;

export async function appendRows(db: Duckdb, built: BuiltTable, rows: readonly BuiltRow[]): Promise<void> {
  const { fields, chunk, held } = built;
  for (let first = 0; first < rows.length; first += chunkRows) {
    const some = rows.slice(first, first + chunkRows);
    chunk.reset();
    chunk.setColumns(
      fields.map(({ read }, index) =>
        some.map((row) => {
          const value = row[index] ?? null;
          return value === null ? null : read(value, db.library);
        }),
      ),
    );
    held.appender.appendDataChunk(chunk);
  }
  for (const row of rows) held.chars += charsOf(row);
  if (held.chars < heldChars) return;
  if (built.isNew) held.appender.flushSync();
  else await mergeStage(db, built);
  held.chars = 0;
}

/** The newest `_seq` of each key wins; deleted rows go. */
export async function mergeTable(db: Duckdb, built: BuiltTable): Promise<void> {
  const { entity, isNew, table, held } = built;
  if (isNew) {
    held.appender.closeSync();
    await keepNewest(db, table, entity.key);
    await db.run(`DELETE FROM ${table} WHERE _deleted`);
  } else {
    await mergeStage(db, built);
    held.appender.closeSync();
    await db.run(`DROP TABLE ${stage}`);
  }
  await noteTable(db, entity, table);
}

/** The rows that have come so far; a new stage is there for the next ones. */
async function mergeStage(db: Duckdb, { entity: { key }, table, fields, held }: BuiltTable): Promise<void> {
  held.appender.closeSync();
  await keepNewest(db, stage, key);
  const same = sameKey(key);
  const columns = fields.map((field) => quoted(field.name)).join(', ');
  await db.run(`DELETE FROM ${table} AS t USING ${stage} AS s WHERE ${same} AND t._seq < s._seq`);
  await db.run(
    `DELETE FROM ${stage} AS s WHERE _deleted OR EXISTS (SELECT 1 FROM ${table} AS t WHERE ${same})`,
  );
  // Without a join, which would hold long rows.
  await db.run(`INSERT INTO ${table} (${columns}) SELECT ${columns} FROM ${stage}`);
  held.appender = await openStage(db, fields, key);
}

/** An empty one, in place of the one before. */
async function openStage(
  { connection }: Duckdb,
  fields: readonly Field[],
  key: readonly string[],
): Promise<DuckDBAppender> {
  await connection.run(`CREATE OR REPLACE TEMPORARY TABLE stage (${columnsSql(fields, key)})`);
  return await connection.createAppender('stage', 'main', 'temp');
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
