import { readVersion7, sqliteFromVersion7 } from './from-version-7.ts';
import { ledgerSql, rememberedBytesSql, watchedSql } from '../ledger/schema.ts';
import { sqliteCatalogSql, sqliteColumnsSql } from '../ledger/catalog-sql.ts';
import { commitsSql, metaSql } from './meta.ts';
import type { Connection } from '../../sql/sqlite/open-sqlite.ts';
import type { LedgerFormat } from './open-database.ts';

/** Raised with every change of the ledger's tables, which needs a migration. */
export const schemaVersion = 11;

/**
 * The ledger's tables in SQLite. The index of listings inside trees also says which are due, as it did in earlier
 * versions of the file: each of them that is sealed asks for one that is not yet, and a tree may have many thousands.
 */
export const sqliteLedgerSql = sqliteDdl(ledgerSql).replace(' (tree) WHERE', ' (tree, due_since) WHERE');

/** The tables of every ledger in a SQLite file. */
export const tablesSql = `${metaSql}${sqliteLedgerSql}`;

/** What every ledger in a SQLite file has. */
export const commonFormat = { version: schemaVersion, oldest: 7, readOlder } as const;

/** The ledger of a SQLite sink. */
export const sqliteFormat: LedgerFormat = {
  ...commonFormat,
  kind: 'sqlite',
  sql: `${tablesSql}${sqliteCatalogSql}`,
  migrate: (db, version) => {
    if (version === 7) sqliteFromVersion7(db, sqliteLedgerSql, sqliteCatalogSql);
    fromVersion8(db, version);
    if (version > 7) db.exec(`DROP VIEW _catalog_columns; ${sqliteColumnsSql}`);
  },
};

/** What readers need of version 8 and later is as it is now; they look for the tables that version 9 lacks. */
function readOlder(db: Connection, version: number): void {
  if (version === 7) readVersion7(db);
}

/** Brings the tables of a file of version 8 or 9 to version 10, in the transaction of the caller. */
export function fromVersion8(db: Connection, version: number): void {
  if (version < 9) db.exec(sqliteDdl(rememberedBytesSql));
  if (version < 10) db.exec(`${sqliteDdl(watchedSql)}${commitsSql}`);
}

/**
 * Definitions of tables and indexes that are written for PostgreSQL, in SQLite's dialect. Tables are STRICT; those with
 * their own primary key are stored in its order. PostgreSQL's storage parameters are omitted. Nulls come first by
 * themselves.
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
