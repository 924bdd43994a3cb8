import { constants } from 'node:fs';
import { chmod, copyFile, stat } from 'node:fs/promises';
import type { DuckDBAppender } from '@duckdb/node-api';
import { SyncError } from '../../core/errors.ts';
import { synced } from '../folder-store.ts';
import {
  checkTables,
  keepNewest,
  lostTables,
  planTable,
  publicationsOf,
  sameKey,
  type EntityName,
  type PublicationText,
  type TablePlan,
  type TargetTables,
} from '../tables/target-tables.ts';
import { nothingChecked, type TargetCheck } from '../target.ts';
import { quoted } from '../../sql/database.ts';
import {
  allowMoreMemory,
  catalogOf,
  charsOf,
  fieldsOf,
  fieldTypes,
  incompatible,
  longChars,
  openDuckdb,
  ownTypes,
  quotedText,
  type BuiltEntity,
  type BuiltRow,
  type Duckdb,
} from './open-duckdb.ts';

/** The tables of an open file. */
export async function duckdbTables(db: Duckdb, path: string): Promise<TargetTables> {
  const catalog = await catalogOf(db);
  const sqlName = ({ connector, entity }: EntityName): string =>
    [catalog, connector, entity].map(quoted).join('.');
  return {
    db,
    at: 'main.',
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

/** The table for the next rows of a table that has rows already. It ends with the connection. */
const stage = 'temp.main.stage';

/** The size of DuckDB's vectors. */
const chunkRows = 2_048;
/**
 * Characters of rows to append before a merge. An appender holds them outside DuckDB's memory, and a merge may hold
 * them twice within it.
 */
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
  const { kind, added, dropped, columns } = await planTable(tables, entity);
  const table = tables.sqlName(entity);
  const fields = fieldsOf(entity);
  const columnsSql = fields
    .map((field) => `${quoted(field.name)} ${field.sql}${key.includes(field.name) ? ' NOT NULL' : ''}`)
    .join(', ');
  /** It holds nothing of earlier publications. */
  const isNew = kind !== 'keep';
  const { connection, library } = db;
  // Reused, because the garbage collector does not see the memory that it holds outside the heap.
  const chunk = library.DuckDBDataChunk.create(fields.map(({ type }) => type(library)));

  /** Creates an empty stage in place of the previous one. */
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
  for (const column of dropped) await db.run(`ALTER TABLE ${table} DROP COLUMN ${quoted(column)}`);
  for (const { name: column, type } of added) {
    await db.run(`ALTER TABLE ${table} ADD COLUMN ${quoted(column)} ${tables.typeOf(type)}`);
  }
  /** Appends rows: to a new table itself, else to the stage. */
  let appender = isNew ? await openNew() : await openStage();
  /** Characters of the rows that it holds. */
  let chars = 0;

  /** Merges the rows that have come so far, and opens a new stage for the next ones. */
  const mergeStage = async (): Promise<void> => {
    appender.closeSync();
    await keepNewest(db, stage, key);
    const same = sameKey(key);
    const names = fields.map((field) => quoted(field.name)).join(', ');
    await db.run(`DELETE FROM ${table} AS t USING ${stage} AS s WHERE ${same} AND t._seq < s._seq`);
    await db.run(
      `DELETE FROM ${stage} AS s WHERE _deleted OR EXISTS (SELECT 1 FROM ${table} AS t WHERE ${same})`,
    );
    // Without a join, which would hold long rows.
    await db.run(`INSERT INTO ${table} (${names}) SELECT ${names} FROM ${stage}`);
    appender = await openStage();
  };

  return {
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
      await noteTable(db, { ...entity, columns }, table);
    },
  };
}

async function noteTable(
  db: Duckdb,
  { connector, entity, generation, key, columns }: Omit<BuiltEntity, 'columns'> & Pick<TablePlan, 'columns'>,
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
      columns: JSON.stringify(columns),
    },
  );
}

interface FileGiven {
  readonly path: string;
}

/** Manifests of a file that is there, as `publicationsOf` gives them. */
export async function readPublications({
  path,
  first,
  limit,
}: FileGiven & { readonly first: number | null; readonly limit: number }): Promise<
  readonly PublicationText[]
> {
  using db = await openDuckdb(path, 'read');
  return (await isTarget(db, path)) ? await publicationsOf({ db, at: 'main.' }, first, limit) : [];
}

/**
 * False for a file without any table. Throws `SyncError` TARGET_INCOMPATIBLE for a file that has tables but no
 * publication.
 */
export async function isTarget(db: Duckdb, path: string): Promise<boolean> {
  const tables = await db.rows<{ readonly schema: string; readonly name: string }>(
    'SELECT schema_name AS schema, table_name AS name FROM duckdb_tables() WHERE NOT internal AND NOT temporary',
  );
  if (tables.some(({ schema, name }) => schema === 'main' && name === '_publications')) return true;
  if (tables.length === 0) return false;
  throw incompatible(
    path,
    `it holds ${tables.length} tables of another program, and no publication`,
    'Name another path.',
  );
}

/** Compares the tables with the publications. */
export async function checkFile({ path }: FileGiven): Promise<TargetCheck> {
  using db = await openDuckdb(path, 'read');
  const { size: bytes } = await stat(path);
  const checked = (await isTarget(db, path))
    ? await checkTables(await duckdbTables(db, path))
    : nothingChecked;
  return { ...checked, files: 1, bytes };
}

/** Losses that would break a publication that continues these entities. */
export async function lostInFile({
  path,
  entities,
}: FileGiven & { readonly entities: readonly EntityName[] }): Promise<readonly string[]> {
  using db = await openDuckdb(path, 'read');
  return await lostTables(await duckdbTables(db, path), entities);
}

interface BuiltPublication extends PublicationText {
  readonly createdAt: string;
  /** SHA-256 of the manifest before; null: there is none. */
  readonly previousSha256: string | null;
}

/**
 * Tables with this many columns get more memory. With 210,000 rows of random numbers, 100 columns fitted and 150 did
 * not.
 */
const manyColumns = 64;

export interface BuiltFiles {
  /** The file to copy; null: start with an empty one. */
  readonly from: string | null;
  /** Must not exist. */
  readonly to: string;
  /** Copies only the existing rows, without free blocks, which hold data of removed ones. */
  readonly isErasing: boolean;
}

interface BuildEnd {
  readonly publication: BuiltPublication | null;
  /** Manifests that were not the newest one at this instant or later are removed; null: none is. */
  readonly keepFrom: string | null;
}

export type FileBuild = Awaited<ReturnType<typeof buildFile>>;

/** Builds a file with the content of `from`, in one transaction of DuckDB. */
export async function buildFile({ from, to, isErasing }: BuiltFiles) {
  const db = from === null ? await openDuckdb(to, 'write') : await openCopy(from, to, isErasing);
  await db.run('BEGIN');
  await db.run(
    `CREATE TABLE IF NOT EXISTS main._publications (number BIGINT NOT NULL, created_at TIMESTAMPTZ NOT NULL, manifest JSON NOT NULL,
       sha256 VARCHAR NOT NULL)`,
  );
  await db.run(
    `CREATE TABLE IF NOT EXISTS main._published_tables (connector VARCHAR NOT NULL, entity VARCHAR NOT NULL, generation BIGINT NOT NULL,
       key JSON NOT NULL, columns JSON NOT NULL, live_rows BIGINT NOT NULL)`,
  );
  let table: BuiltTable | null = null;
  return {
    /** Prepares the table of an entity. */
    entity: async (entity: BuiltEntity): Promise<void> => {
      if (entity.columns.length >= manyColumns) await allowMoreMemory(db);
      table = await openTable(db, from ?? to, entity);
    },
    /** Rows of that entity. */
    rows: async (rows: readonly BuiltRow[]): Promise<void> => {
      if (table === null || rows.length === 0) return;
      if (rows.some((row) => charsOf(row) >= longChars)) await allowMoreMemory(db);
      await table.append(rows);
    },
    /** Called when all rows have come. */
    merge: async (): Promise<void> => {
      await table?.merge();
      table = null;
    },
    /**
     * Adds the manifest, removes old ones, and closes the file. `done`: the file is complete and on the disk; `taken`:
     * it does not hold the publication that this one follows.
     */
    finish: async ({ publication, keepFrom }: BuildEnd): Promise<'done' | 'taken'> => {
      if (publication !== null && !(await addPublication(db, publication))) return 'taken';
      if (keepFrom !== null) await forgetPublications(db, keepFrom);
      // Needed whatever rows came: rows that were in the file already may be written again.
      await allowMoreMemory(db);
      await db.run('COMMIT');
      await db.run('CHECKPOINT');
      db[Symbol.dispose]();
      await synced(to);
      return 'done';
    },
  };
}

/** Keeps the old file open for reading during the copy, so that no other process writes to it. */
async function openCopy(from: string, to: string, isErasing: boolean): Promise<Duckdb> {
  using old = await openDuckdb(from, 'read');
  await isTarget(old, from);
  if (isErasing) return await openCompacted(from, to);
  await copyFile(from, to, constants.COPYFILE_EXCL | constants.COPYFILE_FICLONE);
  return await openDuckdb(to, 'write');
}

/** Copies table by table. DuckDB copies those of others without regard to their foreign keys. */
async function openCompacted(from: string, to: string): Promise<Duckdb> {
  const db = await openDuckdb(to, 'write');
  try {
    await db.run(`ATTACH ${quotedText(from)} AS copied_from (READ_ONLY)`);
    await db.run(`COPY FROM DATABASE copied_from TO ${quoted(await catalogOf(db))}`);
    await db.run('DETACH copied_from');
    await chmod(to, (await stat(from)).mode);
    return db;
  } catch {
    db[Symbol.dispose]();
    throw new SyncError(
      `${from} cannot be written table by table: tables of others in it refer to each other. Remove it, then publish again.`,
      { code: 'TARGET_FAILED', recovery: 'stop', context: { path: from } },
    );
  }
}

async function addPublication(db: Duckdb, publication: BuiltPublication): Promise<boolean> {
  const { number, manifest, sha256, createdAt, previousSha256 } = publication;
  const [newest] = await publicationsOf({ db, at: 'main.' }, null, 1);
  if ((newest?.sha256 ?? null) !== previousSha256 || (newest?.number ?? 0) >= number) return false;
  await db.run(
    'INSERT INTO main._publications VALUES ($number, $createdAt::TIMESTAMPTZ, $manifest, $sha256)',
    {
      number,
      createdAt,
      manifest,
      sha256,
    },
  );
  return true;
}

async function forgetPublications(db: Duckdb, keepFrom: string): Promise<void> {
  await db.run(
    `DELETE FROM main._publications WHERE number < (SELECT max(number) FROM main._publications WHERE created_at < $keepFrom::TIMESTAMPTZ)`,
    { keepFrom },
  );
}
