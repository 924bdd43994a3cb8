import { sqliteDdl } from '../../sql/sqlite/sqlite-ddl.ts';
import { ledgerSql } from '../ledger/schema.ts';
import { catalogSql } from './catalog-sql.ts';
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
export const tablesSql = `${metaSql}${sqliteDdl(ledgerSql)}`;

/** The ledger of a SQLite sink. */
export const sqliteFormat: LedgerFormat = {
  kind: 'sqlite',
  version: schemaVersion,
  oldest: schemaVersion,
  sql: `${tablesSql}${catalogSql}`,
  migrate: () => undefined,
};
