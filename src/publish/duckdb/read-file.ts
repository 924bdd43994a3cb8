import { stat } from 'node:fs/promises';
import { chainProblems, lostTables as unlistedTables, type PublicationText } from '../chain-problems.ts';
import type { TargetCheck } from '../target.ts';
import { ownNames } from './fields.ts';
import { catalogOf, incompatible, openDuckdb, quoted, type Duckdb } from './open-duckdb.ts';

interface StoredPublication {
  readonly number: bigint;
  readonly manifest: string;
  readonly sha256: string;
}

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
  const rows = await db.rows<StoredPublication>(
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

interface KnownTable {
  readonly connector: string;
  readonly entity: string;
  /** Their names, as JSON. */
  readonly columns: string;
  readonly rows: bigint;
}

/**
 * Compares every table, its columns and how many rows it has with what was published, and follows the chain of
 * manifests.
 */
export async function checkFile({ path }: { readonly path: string }): Promise<TargetCheck> {
  using db = await openDuckdb(path, 'read');
  const { size: bytes } = await stat(path);
  if (!(await isTarget(db, path))) return { publications: 0, files: 1, rows: 0, bytes, problems: [] };
  const chain = chainProblems();
  const problems: string[] = [];
  let publications = 0;
  let newest: PublicationText | null = null;
  for (let last = -1; ;) {
    const some = await publicationsOf(db, `WHERE number > ${last} ORDER BY number LIMIT 20`);
    for (const publication of some) problems.push(...chain.next(publication));
    publications += some.length;
    newest = some.at(-1) ?? newest;
    last = some.at(-1)?.number ?? last;
    if (some.length < 20) break;
  }
  let rows = 0;
  const catalog = await catalogOf(db);
  const tables = await db.rows<KnownTable>(
    'SELECT connector, entity, columns::VARCHAR AS columns, live_rows AS rows FROM main._published_tables ORDER BY ALL',
  );
  problems.push(...unlistedTables(newest, new Set(tables.map((one) => `${one.connector}/${one.entity}`))));
  for (const known of tables) {
    const { connector, entity, rows: expected } = known;
    const { problem, names } = await shapeOf(db, known);
    if (problem !== null) problems.push(problem);
    if (!names.has('_seq')) continue;
    // With a sum of a column its blocks are read, and their checksums compared.
    const [found] = await db.rows<{ readonly count: bigint; readonly sum: bigint | null }>(
      `SELECT count(*) AS count, sum(_seq) AS sum FROM ${[catalog, connector, entity].map(quoted).join('.')}`,
    );
    rows += Number(found?.count);
    if (found?.count !== expected) {
      problems.push(
        `table ${connector}.${entity} should have ${expected} rows, and has ${String(found?.count)}`,
      );
    }
  }
  return { publications, files: 1, rows, bytes, problems };
}

async function shapeOf(
  db: Duckdb,
  { connector, entity, columns }: Pick<KnownTable, 'connector' | 'entity' | 'columns'>,
): Promise<{ readonly problem: string | null; readonly names: ReadonlySet<string> }> {
  const there = await db.rows<{ readonly name: string }>(
    'SELECT column_name AS name FROM duckdb_columns() WHERE database_name = current_database() AND schema_name = $connector AND table_name = $entity',
    { connector, entity },
  );
  const names = new Set(there.map(({ name }) => name));
  if (there.length === 0) return { problem: `table ${connector}.${entity} is gone`, names };
  const needed = [...(JSON.parse(columns) as readonly string[]), ...ownNames];
  const lost = needed.find((name) => !names.has(name));
  return {
    problem: lost === undefined ? null : `table ${connector}.${entity} has lost its column ${lost}`,
    names,
  };
}

/**
 * Tables of these entities that are gone, have lost a column, or have fewer rows than were published. DuckDB counts
 * without reading them.
 */
export async function lostTables({
  path,
  entities,
}: {
  readonly path: string;
  readonly entities: readonly Pick<KnownTable, 'connector' | 'entity'>[];
}): Promise<readonly string[]> {
  using db = await openDuckdb(path, 'read');
  const catalog = await catalogOf(db);
  const lost: string[] = [];
  for (const { connector, entity } of entities) {
    const [known] = await db.rows<Pick<KnownTable, 'columns' | 'rows'>>(
      'SELECT columns::VARCHAR AS columns, live_rows AS rows FROM main._published_tables WHERE connector = $connector AND entity = $entity',
      { connector, entity },
    );
    if (known === undefined) {
      lost.push(`_published_tables does not list ${connector}.${entity}, which was published`);
      continue;
    }
    const { problem } = await shapeOf(db, { connector, entity, columns: known.columns });
    if (problem !== null) {
      lost.push(problem);
      continue;
    }
    const table = [catalog, connector, entity].map(quoted).join('.');
    const [found] = await db.rows<{ readonly count: bigint }>(`SELECT count(*) AS count FROM ${table}`);
    if ((found?.count ?? 0n) < known.rows) {
      lost.push(`table ${connector}.${entity} should have ${known.rows} rows, and has ${found?.count ?? 0}`);
    }
  }
  return lost;
}
