import type Database from 'better-sqlite3';
import type { ConnectorName, EntityName } from '../../core/names.ts';
import type { Column } from '../../core/records.ts';
import { openFileSink } from '../ledger/file-sink.ts';
import type { RecordStore, TablePlace } from '../ledger/record-store.ts';
import { tableName, columnsMissingIn } from '../decisions/stored-table.ts';
import type { OpenHow } from '../sink-access.ts';
import type { Sink } from '../sink.ts';
import { ensureTable } from './ensure-table.ts';
import { fillFromExtra, sqlType, wouldFit } from './fill-columns.ts';
import { quoted } from './quoted.ts';
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

/** Adds the columns of `place.filled` to the entity's table, as far as it lacks them, and moves into them what `_extra` holds. */
export function evolveTable(db: Database.Database, place: TablePlace): void {
  const name = tableName(place.connector, place.table.entity);
  for (const column of columnsMissingIn(place.filled, place.stored)) {
    db.exec(`ALTER TABLE ${quoted(name)} ADD COLUMN ${quoted(column.name)} ${sqlType[column.type]}`);
  }
  for (const column of place.filled) {
    fillFromExtra(db, name, column, place.stamp);
  }
}

/** Those of the columns that every stored value would fit; a look over the table for each. */
function fittingColumns(
  db: Database.Database,
  { connector, entity }: { readonly connector: ConnectorName; readonly entity: EntityName },
  columns: readonly Column[],
): readonly Column[] {
  return columns.filter((column) => wouldFit(db, tableName(connector, entity), column));
}
