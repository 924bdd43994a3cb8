import { sqliteCatalogSql, ledgerSql, migrations } from '../ledger/ledger-schema.ts';
import { metaSql, type LedgerFormat } from './open-database.ts';

/* Apart from `open-database.ts`, which every sync loads before it opens a sink: the texts are long. */

/**
 * The tables of every ledger in a SQLite file. The index of listings inside trees also says which are due: each of them
 * that is sealed asks for one that is not yet, and a tree may have many thousands.
 */
export const tablesSql = `${metaSql}${sqliteDdl(ledgerSql).replace(' (tree) WHERE', ' (tree, due_since) WHERE')}`;

/** Migrations of every ledger in a SQLite file. */
export const sqliteMigrations: readonly string[] = migrations.map(sqliteDdl);

/** The ledger of a SQLite sink. */
export const sqliteFormat: LedgerFormat = {
  kind: 'sqlite',
  sql: `${tablesSql}${sqliteCatalogSql}`,
  migrations: sqliteMigrations,
};

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
