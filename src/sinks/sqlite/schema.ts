import type { ConnectorName, EntityName } from '../../core/names.ts';
import { quoted } from '../../sql/quoted.ts';
import type { Connection } from '../../sql/sqlite/open-sqlite.ts';
import { tableName } from '../decisions/stored-table.ts';
import { sqliteLedgerSql } from './ledger-sql.ts';
import { catalogSql } from './catalog-sql.ts';
import { fromVersion7, readVersion7 } from './from-version-7.ts';
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

/** The tables of every ledger in a SQLite file. */
export const tablesSql = `${metaSql}${sqliteLedgerSql}`;

/** What every ledger in a SQLite file has. */
export const commonFormat = { version: schemaVersion, oldest: 7, readOlder: readVersion7 } as const;

/** The ledger of a SQLite sink. */
export const sqliteFormat: LedgerFormat = {
  ...commonFormat,
  kind: 'sqlite',
  sql: `${tablesSql}${catalogSql}`,
  migrate: (db) => {
    // They name tables that are made anew.
    for (const view of ['_catalog_tables', '_catalog_columns', '_catalog_joins']) {
      db.exec(`DROP VIEW IF EXISTS ${view}`);
    }
    fromVersion7(db, (connector, entity) => newestRow(db, connector, entity));
    // Of tables that only JSONL sinks fill.
    db.exec(`DROP TABLE IF EXISTS _sync_files; ${catalogSql}`);
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
