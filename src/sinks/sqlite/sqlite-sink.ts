import type Database from 'better-sqlite3';
import { openFileSink } from '../file-ledger/file-sink.ts';
import type { RecordStore } from '../file-ledger/record-store.ts';
import { tableName } from '../decisions/stored-table.ts';
import type { OpenHow } from '../sink-access.ts';
import type { Sink } from '../sink.ts';
import { sqliteCopies } from './copy-rows.ts';
import { viewNames } from '../decisions/current-view.ts';
import { dropOwnView, renewCurrentViews } from './current-views.ts';
import { ensureTable, widenTable, wouldFit } from './ensure-table.ts';
import { quoted } from '../../sql/quoted.ts';
import { openSqliteTable } from './sqlite-table.ts';

/** Records as tables of one SQLite file, which holds the ledger too. */
export async function openSqliteSink(options: OpenHow & { readonly file: string }): Promise<Sink> {
  return await openFileSink({ ...options, kind: 'sqlite', openStore: openSqliteStore });
}

/** The rows live in the ledger's own file, so its transaction is all there is: nothing to flush, cut or repair. */
function openSqliteStore(db: Database.Database): RecordStore {
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
    fitting: (connector, entity, columns) =>
      columns.filter((column) => wouldFit(db, tableName(connector, entity), column)),
    evolve: (place) => {
      widenTable(db, place, place.filled);
      return openSqliteTable(db, place);
    },
    renewViews: (connector) => renewCurrentViews(db, connector),
    drop: (connector, entity) => {
      for (const view of viewNames(tableName(connector, entity), new Set())) dropOwnView(db, view);
      db.exec(`DROP TABLE IF EXISTS ${quoted(tableName(connector, entity))}`);
    },
    copies: sqliteCopies(db),
    release: () => undefined,
  };
}
