import type { ConnectorName, EntityName } from '../../core/names.ts';
import { quoted } from '../../sql/quoted.ts';
import type { Connection } from '../../sql/sqlite/open-sqlite.ts';
import { tableName } from '../decisions/stored-table.ts';
import { fromVersion7, readVersion7 } from './from-version-7.ts';
import { ledgerSql } from '../ledger/schema.ts';
import { sqliteCatalogSql } from '../ledger/catalog-sql.ts';
import type { LedgerFormat } from './open-database.ts';

/** Raised with every change of the ledger's tables, which needs a migration. */
export const schemaVersion = 8;

/** `seq` is the change counter of the whole file. */
const metaSql = `
CREATE TABLE _sync_meta (
  one INTEGER PRIMARY KEY CHECK (one = 1),
  sink_id TEXT NOT NULL,
  kind TEXT NOT NULL,
  created_at TEXT NOT NULL,
  seq INTEGER NOT NULL
) STRICT;
`;

/**
 * The ledger's tables in SQLite. The index of listings inside trees also says which are due, as it did in earlier
 * versions of the file: each of them that is sealed asks for one that is not yet, and a tree may have many thousands.
 */
export const sqliteLedgerSql = sqliteDdl(ledgerSql).replace(
  'ON _sync_partitions (tree) WHERE',
  'ON _sync_partitions (tree, due_since) WHERE',
);

/** The tables of every ledger in a SQLite file. */
export const tablesSql = `${metaSql}${sqliteLedgerSql}`;

/** What every ledger in a SQLite file has. */
export const commonFormat = { version: schemaVersion, oldest: 7, readOlder: readVersion7 } as const;

/** The ledger of a SQLite sink. */
export const sqliteFormat: LedgerFormat = {
  ...commonFormat,
  kind: 'sqlite',
  sql: `${tablesSql}${sqliteCatalogSql}`,
  migrate: (db) => {
    // They name tables that are made anew.
    for (const view of ['_catalog_tables', '_catalog_columns', '_catalog_joins']) {
      db.exec(`DROP VIEW IF EXISTS ${view}`);
    }
    fromVersion7(db, sqliteLedgerSql, (connector, entity) => newestRow(db, connector, entity));
    // Of tables that only JSONL sinks fill.
    db.exec(`DROP TABLE IF EXISTS _sync_files; ${sqliteCatalogSql}`);
  },
};

/** Rows are never deleted: their newest one has the highest number that was given. */
function newestRow(db: Connection, connector: string, entity: string): number | undefined {
  const table = tableName(connector as ConnectorName, entity as EntityName);
  const isThere = db.prepare("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?").get(table);
  if (isThere === undefined) return undefined;
  return db
    .prepare<[], number>(`SELECT coalesce(max(_row), 0) FROM ${quoted(table)}`)
    .pluck()
    .get();
}

/**
 * Definitions of tables and indexes that are written for PostgreSQL, in the words of SQLite. Tables are STRICT; those
 * with a primary key of their own lie in its order. What says how PostgreSQL is to store something is left out. Nulls
 * come first by themselves.
 */
function sqliteDdl(sql: string): string {
  return sql
    .replace(/^ALTER TABLE .* SET STORAGE .*\n/gm, '')
    .replace(/ NULLS FIRST/g, '')
    .replace(/^CREATE TABLE [^;]*;/gm, tableOf);
}

function tableOf(sql: string): string {
  const isInOrder = sql.includes('PRIMARY KEY') && !sql.includes(' IDENTITY ');
  return sql
    .replace('BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY', 'INTEGER PRIMARY KEY AUTOINCREMENT')
    .replace('gen_random_uuid()::text', '(lower(hex(randomblob(16))))')
    .replace(/\bBIGINT\b/g, 'INTEGER')
    .replace(/\bBYTEA\b/g, 'BLOB')
    .replace(/\)(?: WITH \([^)]*\))?;$/, `) STRICT${isInOrder ? ', WITHOUT ROWID' : ''};`);
}
