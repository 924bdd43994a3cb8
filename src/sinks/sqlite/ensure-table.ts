import type Database from 'better-sqlite3';
import type { TablePlace } from '../ledger/record-store.ts';
import { tableName, columnsMissingIn } from '../decisions/stored-table.ts';
import { fillFromExtra, sqlType } from './fill-columns.ts';
import { quoted } from './quoted.ts';

/** Columns beside the declared ones, none of which starts with `_`. `_row`: number in the seen bitmap; `_partition`: home. */
const ownColumns = `
  _extra TEXT,
  _first_seen_at TEXT NOT NULL,
  _changed_at TEXT NOT NULL,
  _run_id TEXT NOT NULL,
  _seq INTEGER NOT NULL,
  _hash TEXT NOT NULL,
  _volatile_hash TEXT,
  _deleted_at TEXT,
  _partition INTEGER`;

/** Creates the entity's table, or adds the columns it lacks and moves into them what `_extra` holds for them. */
export function ensureTable(db: Database.Database, place: TablePlace): void {
  const name = tableName(place.connector, place.table.entity);
  if (place.stored.length === 0) {
    createTable(db, name, place);
    return;
  }
  for (const column of columnsMissingIn(place.table.columns, place.stored)) {
    db.exec(`ALTER TABLE ${quoted(name)} ADD COLUMN ${quoted(column.name)} ${sqlType[column.type]}`);
  }
  for (const column of place.filled) {
    fillFromExtra(db, name, column, place.stamp);
  }
}

/** Leads from a partition to its rows, by row number. */
export function homeIndexName(table: string): string {
  return `${table}__partition`;
}

function createTable(db: Database.Database, name: string, { table }: TablePlace): void {
  const key = new Set(table.key);
  const columns = table.columns.map(
    (column) => `${quoted(column.name)} ${sqlType[column.type]}${key.has(column.name) ? ' NOT NULL' : ''}`,
  );
  const keyColumns = table.key.map(quoted).join(', ');
  db.exec(
    `CREATE TABLE ${quoted(name)} (_row INTEGER PRIMARY KEY, ${columns.join(', ')}, ${ownColumns}) STRICT;
     CREATE UNIQUE INDEX ${quoted(`${name}__key`)} ON ${quoted(name)} (${keyColumns});
     CREATE INDEX ${quoted(`${name}__seq`)} ON ${quoted(name)} (_seq);
     CREATE INDEX ${quoted(homeIndexName(name))} ON ${quoted(name)} (_partition, _row);`,
  );
}
