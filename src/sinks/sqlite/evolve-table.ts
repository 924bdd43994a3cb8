import type Database from 'better-sqlite3';
import type { Column } from '../../core/records.ts';
import type { ConnectorName, EntityName } from '../../core/names.ts';
import { tableName, type TablePlace } from '../ledger/record-store.ts';
import { columnsMissingIn } from '../ledger/tables.ts';
import { fillFromExtra, sqlType, wouldFit } from './fill-columns.ts';
import { quoted } from './quoted.ts';

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
export function fittingColumns(
  db: Database.Database,
  { connector, entity }: { readonly connector: ConnectorName; readonly entity: EntityName },
  columns: readonly Column[],
): readonly Column[] {
  return columns.filter((column) => wouldFit(db, tableName(connector, entity), column));
}
