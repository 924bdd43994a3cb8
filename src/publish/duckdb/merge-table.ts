import type { DuckDBAppender } from '@duckdb/node-api';
import { quoted } from '../../sql/quoted.ts';
import { planTable } from '../tables/plan-table.ts';
import { keepNewest, sameKey } from '../tables/target-tables.ts';
import { duckdbTables } from './duckdb-tables.ts';
import { charsOf, fieldsOf, type BuiltEntity, type BuiltRow } from './fields.ts';
import { catalogOf, incompatible, type Duckdb } from './open-duckdb.ts';

/** A table beside one that has rows already, where the next ones come to. It ends with the connection. */
const stage = 'temp.main.stage';

/** DuckDB's vectors hold as many. */
const chunkRows = 2_048;
/** What an appender holds is beside DuckDB's memory, and what is merged at once may be held twice in it. */
const heldChars = 32 * 1024 * 1024;

export type BuiltTable = Awaited<ReturnType<typeof openTable>>;

/**
 * The table of an entity that rows are coming for: makes it, or adds the columns that it lacks. Throws `SyncError`
 * TARGET_INCOMPATIBLE as `planTable` does, and for a name that DuckDB has for itself.
 */
export async function openTable(db: Duckdb, path: string, entity: BuiltEntity) {
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
  const columnsSql = fields
    .map((field) => `${quoted(field.name)} ${field.sql}${key.includes(field.name) ? ' NOT NULL' : ''}`)
    .join(', ');
  /** It holds nothing of earlier publications. */
  const isNew = kind !== 'keep';
  const { connection, library } = db;
  // Filled again and again: what it holds outside of the heap is seen by no garbage collection.
  const chunk = library.DuckDBDataChunk.create(fields.map(({ type }) => type(library)));

  /** An empty one, in place of the one before. */
  const openStage = async (): Promise<DuckDBAppender> => {
    await connection.run(`CREATE OR REPLACE TEMPORARY TABLE stage (${columnsSql})`);
    return await connection.createAppender('stage', 'main', 'temp');
  };
  const openNew = async (): Promise<DuckDBAppender> => {
    const catalog = await catalogOf(db);
    await db.run(`CREATE SCHEMA IF NOT EXISTS ${quoted(catalog)}.${quoted(connector)}`);
    await db.run(`CREATE OR REPLACE TABLE ${table} (${columnsSql})`);
    return await connection.createAppender(name, connector, catalog);
  };
  for (const { name: column, type } of added) {
    await db.run(`ALTER TABLE ${table} ADD COLUMN ${quoted(column)} ${tables.typeOf(type)}`);
  }
  /** Appends rows: to a new table itself, else to the stage. */
  let appender = isNew ? await openNew() : await openStage();
  /** Characters of the rows that it holds. */
  let chars = 0;

  /** The rows that have come so far; a new stage is there for the next ones. */
  const mergeStage = async (): Promise<void> => {
    appender.closeSync();
    await keepNewest(db, stage, key);
    const same = sameKey(key);
    const columns = fields.map((field) => quoted(field.name)).join(', ');
    await db.run(`DELETE FROM ${table} AS t USING ${stage} AS s WHERE ${same} AND t._seq < s._seq`);
    await db.run(
      `DELETE FROM ${stage} AS s WHERE _deleted OR EXISTS (SELECT 1 FROM ${table} AS t WHERE ${same})`,
    );
    // Without a join, which would hold long rows.
    await db.run(`INSERT INTO ${table} (${columns}) SELECT ${columns} FROM ${stage}`);
    appender = await openStage();
  };

  return {
    entity,
    append: async (rows: readonly BuiltRow[]): Promise<void> => {
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
      for (const row of rows) chars += charsOf(row);
      if (chars < heldChars) return;
      if (isNew) appender.flushSync();
      else await mergeStage();
      chars = 0;
    },
    /** The newest `_seq` of each key wins; deleted rows go. */
    merge: async (): Promise<void> => {
      if (isNew) {
        appender.closeSync();
        await keepNewest(db, table, key);
        await db.run(`DELETE FROM ${table} WHERE _deleted`);
      } else {
        await mergeStage();
        appender.closeSync();
        await db.run(`DROP TABLE ${stage}`);
      }
      await noteTable(db, entity, table);
    },
  };
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
