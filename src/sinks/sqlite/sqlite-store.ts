import type Database from 'better-sqlite3';
import { tableName, type RecordStore } from '../ledger/record-store.ts';
import { ensureTable } from './ensure-table.ts';
import { evolveTable, fittingColumns } from './evolve-table.ts';
import { quoted } from './quoted.ts';
import { openSqliteTable } from './sqlite-table.ts';

/** The rows live in the ledger's own file, so its transaction is all there is: nothing to flush, cut or repair. */
export function openSqliteStore(db: Database.Database): RecordStore {
  return {
    recover: () => ({ hasLostRows: false }),
    findDamage: async () => () => ({ hasLostRows: false }),
    ensure: (place) => {
      ensureTable(db, place);
      return openSqliteTable(db, place);
    },
    endRun: () => undefined,
    flush: () => undefined,
    settle: () => undefined,
    discard: () => undefined,
    canUndelete: true,
    fitting: (connector, entity, columns) => fittingColumns(db, { connector, entity }, columns),
    evolve: (place) => {
      evolveTable(db, place);
      return openSqliteTable(db, place);
    },
    drop: (connector, entity) => {
      db.exec(`DROP TABLE IF EXISTS ${quoted(tableName(connector, entity))}`);
    },
    release: () => undefined,
  };
}
