import { quoted } from '../../sql/quoted.ts';
import type { PostgresTx as Tx } from '../../sql/postgres/session.ts';
import { incompatible } from './target-error.ts';

/**
 * The tables of the target's own. `_publications`: the number is given once, which makes a publication happen exactly
 * once. `_published_tables`: each entity's table, the columns and the key that it was given, and how many rows it
 * should have.
 */
function schemaSql(at: string): readonly string[] {
  return [
    `CREATE TABLE ${at}_publications (
       number bigint PRIMARY KEY,
       created_at timestamptz NOT NULL,
       manifest json NOT NULL,
       sha256 text COLLATE "C" NOT NULL,
       attempt uuid NOT NULL)`,
    `CREATE TABLE ${at}_published_tables (
       connector text COLLATE "C" NOT NULL,
       entity text COLLATE "C" NOT NULL,
       table_name text COLLATE "C" NOT NULL UNIQUE,
       view_name text COLLATE "C",
       generation bigint NOT NULL,
       key json NOT NULL,
       columns json NOT NULL,
       has_long_keys boolean NOT NULL,
       live_rows bigint NOT NULL,
       deleted_rows bigint NOT NULL,
       PRIMARY KEY (connector, entity))`,
  ];
}

const ownColumns = ['number', 'created_at', 'manifest', 'sha256', 'attempt'];

/**
 * Whether a target is in the schema. Throws `SyncError` TARGET_INCOMPATIBLE where a sink is, a `_publications` of
 * another program, or half a target.
 */
export async function isTargetThere(tx: Tx, schema: string, place: string): Promise<boolean> {
  const found = await tx.rows<{ readonly name: string; readonly columns: readonly string[] }>(
    `SELECT c.relname::text AS name, array(SELECT a.attname::text FROM pg_catalog.pg_attribute AS a
         WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped) AS columns
     FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
     WHERE n.nspname = :schema AND c.relname IN ('_sync_meta', '_publications', '_published_tables')`,
    { schema },
  );
  if (found.some(({ name }) => name === '_sync_meta')) {
    throw incompatible(
      place,
      'the schema holds a sink of connector-sync',
      'Name a schema for the publications alone.',
    );
  }
  if (found.length === 0) return false;
  const publications = found.find(({ name }) => name === '_publications');
  if (publications !== undefined && !ownColumns.every((name) => publications.columns.includes(name))) {
    throw incompatible(
      place,
      'the schema has a table _publications of another program',
      'Name another schema.',
    );
  }
  if (found.length === 2) return true;
  const missing = publications === undefined ? '_publications' : '_published_tables';
  throw incompatible(
    place,
    `the table ${missing} of its schema is gone`,
    'Restore that table from a backup, or name another schema.',
  );
}

/** Makes the schema and the target's own tables where they are not there. Several processes may do so at once. */
export async function makeTarget(tx: Tx, schema: string, place: string): Promise<void> {
  await checkEncoding(tx, place);
  await tx.run('SELECT pg_advisory_xact_lock(hashtextextended(:lock, 0))', {
    lock: `connector-sync ${schema}`,
  });
  if (await isTargetThere(tx, schema, place)) return;
  // IF NOT EXISTS would ask for the right to make one, also where it is there.
  const known = await tx.rows('SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = :schema', { schema });
  if (known.length === 0) tx.put(`CREATE SCHEMA ${quoted(schema)}`);
  for (const statement of schemaSql(`${quoted(schema)}.`)) tx.put(statement);
}

/** A text has other characters than these encodings have. */
async function checkEncoding(tx: Tx, place: string): Promise<void> {
  const found = await tx.first<{ readonly encoding: string }>(
    `SELECT current_setting('server_encoding') AS encoding`,
  );
  if (found?.encoding === 'UTF8') return;
  throw incompatible(
    place,
    `the database is encoded as ${found?.encoding}`,
    "Create one with ENCODING 'UTF8'.",
  );
}
