import { stat } from 'node:fs/promises';
import { quoted } from '../../sql/quoted.ts';
import {
  checkTables,
  columnProblem,
  lostTables,
  type EntityName,
  type KnownTable,
  type PublicationText,
  type TablesReader,
} from '../published-tables.ts';
import { nothingChecked, type TargetCheck } from '../target.ts';
import { ownTypes } from './fields.ts';
import { catalogOf, incompatible, openDuckdb, type Duckdb } from './open-duckdb.ts';

/** Manifests of a file that is there, by their numbers. */
export async function readPublications({
  path,
  first,
  limit,
}: {
  readonly path: string;
  readonly first: number | null;
  readonly limit: number;
}): Promise<readonly PublicationText[]> {
  using db = await openDuckdb(path, 'read');
  if (!(await isTarget(db, path))) return [];
  return await publicationsOf(
    db,
    first === null
      ? 'ORDER BY number DESC LIMIT 1'
      : `WHERE number >= ${first} ORDER BY number LIMIT ${limit}`,
  );
}

export async function publicationsOf(db: Duckdb, which: string): Promise<readonly PublicationText[]> {
  const rows = await db.rows<Omit<PublicationText, 'number'> & { readonly number: bigint }>(
    `SELECT number, manifest::VARCHAR AS manifest, sha256 FROM main._publications ${which}`,
  );
  return rows.map(({ number, ...publication }) => ({ number: Number(number), ...publication }));
}

/**
 * False for a file without any table. Throws `SyncError` TARGET_INCOMPATIBLE for one with tables, and none of a
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

/** Compares the tables with what was published. */
export async function checkFile({ path }: { readonly path: string }): Promise<TargetCheck> {
  using db = await openDuckdb(path, 'read');
  const { size: bytes } = await stat(path);
  if (!(await isTarget(db, path))) return { ...nothingChecked, files: 1, bytes };
  return { ...(await checkTables(await tablesReader(db))), files: 1, bytes };
}

/** What a publication that continues these entities would miss. */
export async function lostInFile({
  path,
  entities,
}: {
  readonly path: string;
  readonly entities: readonly EntityName[];
}): Promise<readonly string[]> {
  using db = await openDuckdb(path, 'read');
  return await lostTables(await tablesReader(db), entities);
}

interface ListedTable extends KnownTable {
  /** Their names, as JSON. */
  readonly columns: string;
}

async function tablesReader(db: Duckdb): Promise<TablesReader<ListedTable>> {
  const catalog = await catalogOf(db);
  const count = async ({ connector, entity }: EntityName, more = ''): Promise<number> => {
    const table = [catalog, connector, entity].map(quoted).join('.');
    const [found] = await db.rows<{ readonly count: bigint }>(
      `SELECT count(*) AS count${more} FROM ${table}`,
    );
    return Number(found?.count);
  };
  return {
    nameOf: ({ connector, entity }) => `${connector}.${entity}`,
    mostCounted: Number.POSITIVE_INFINITY,
    publications: async (first, limit) =>
      await publicationsOf(db, `WHERE number >= ${first} ORDER BY number LIMIT ${limit}`),
    known: async (entity) => {
      const which = entity === null ? '' : 'WHERE connector = $connector AND entity = $entity';
      const tables = await db.rows<EntityName & { readonly columns: string; readonly rows: bigint }>(
        `SELECT connector, entity, columns::VARCHAR AS columns, live_rows AS rows FROM main._published_tables ${which} ORDER BY ALL`,
        entity === null ? {} : { connector: entity.connector, entity: entity.entity },
      );
      return tables.map((one) => ({ ...one, rows: [Number(one.rows)] }));
    },
    problemsOf: async ({ connector, entity, columns }) => {
      const there = await typesThere(db, connector, entity);
      const names = JSON.parse(columns) as readonly string[];
      const needed = [...names.map((name) => [name, null] as const), ...ownTypes];
      const ofTable = there.size === 0 ? 'is gone' : columnProblem(needed, there);
      return { ofTable, others: [], isCountable: there.has('_seq') };
    },
    // With a sum of a column its blocks are read, and their checksums compared.
    count: async (known) => ({ rows: [await count(known, ', sum(_seq) AS sum')], bytes: 0 }),
    // DuckDB counts without reading them.
    countUpTo: async (known) => await count(known),
  };
}

/** Types of the columns of a table by their names; none where there is no such table. */
export async function typesThere(
  db: Duckdb,
  schema: string,
  table: string,
): Promise<ReadonlyMap<string, string>> {
  const rows = await db.rows<{ readonly name: string; readonly type: string }>(
    `SELECT column_name AS name, data_type AS type FROM duckdb_columns()
     WHERE database_name = current_database() AND schema_name = $schema AND table_name = $table`,
    { schema, table },
  );
  return new Map(
    rows.map(({ name, type }) => [name, type.replace('TIMESTAMP WITH TIME ZONE', 'TIMESTAMPTZ')]),
  );
}
