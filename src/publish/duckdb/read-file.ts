import { stat } from 'node:fs/promises';
import { checkTables, lostTables } from '../tables/check-tables.ts';
import { publicationsOf, type PublicationText } from '../tables/table-publications.ts';
import type { EntityName } from '../tables/target-tables.ts';
import { nothingChecked, type TargetCheck } from '../target.ts';
import { duckdbTables } from './duckdb-tables.ts';
import { incompatible, openDuckdb, type Duckdb } from './open-duckdb.ts';

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
export async function checkFile({ path }: FileGiven): Promise<TargetCheck> {
  using db = await openDuckdb(path, 'read');
  const { size: bytes } = await stat(path);
  const checked = (await isTarget(db, path))
    ? await checkTables(await duckdbTables(db, path))
    : nothingChecked;
  return { ...checked, files: 1, bytes };
}

/** What a publication that continues these entities would miss. */
export async function lostInFile({
  path,
  entities,
}: FileGiven & { readonly entities: readonly EntityName[] }): Promise<readonly string[]> {
  using db = await openDuckdb(path, 'read');
  return await lostTables(await duckdbTables(db, path), entities);
}
