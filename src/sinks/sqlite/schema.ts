import type { ConnectorName, EntityName } from '../../core/names.ts';
import { quoted } from '../../sql/quoted.ts';
import type { Connection } from '../../sql/sqlite/open-sqlite.ts';
import { tableName } from '../decisions/stored-table.ts';
import { fromVersion7, readVersion7 } from './from-version-7.ts';
import { sqliteDdl } from '../../sql/sqlite/sqlite-ddl.ts';
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
 * The ledger's tables in SQLite. The index of listings inside trees also says which are due, as it did in earlier versions of the file: each of them that is
 * sealed asks for one that is not yet, and a tree may have many thousands.
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
