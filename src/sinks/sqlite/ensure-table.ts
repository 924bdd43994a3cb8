import type Database from 'better-sqlite3';
import type { Column, EntityTable } from '../../core/records.ts';
import type { TablePlace, WriteStamp } from '../file-ledger/record-store.ts';
import { tableName, columnsMissingIn } from '../decisions/stored-table.ts';
import { fillingOf } from '../sqlite-next/records/filling.ts';
import { addColumnSql, createTableSql } from '../sqlite-next/records/table-sql.ts';
import { dropOwnView } from './current-views.ts';
import { quoted } from '../../sql/quoted.ts';

/** Creates the entity's table, or adds the columns it lacks and moves into them what `_extra` holds for them. */
export function ensureTable(db: Database.Database, place: TablePlace): void {
  const name = tableName(place.connector, place.table.entity);
  if (place.stored.length === 0) createTable(db, name, place.table);
  else widenTable(db, place, place.table.columns);
}

/** Adds those of the columns that the entity's table lacks, and moves into `place.filled` what `_extra` holds. */
export function widenTable(db: Database.Database, place: TablePlace, columns: readonly Column[]): void {
  const name = tableName(place.connector, place.table.entity);
  for (const column of columnsMissingIn(columns, place.stored)) {
    db.exec(addColumnSql(name, column));
  }
  for (const column of place.filled) fillFromExtra(db, name, column, place.stamp);
}

export function createTable(
  db: Database.Database,
  name: string,
  table: Pick<EntityTable, 'columns' | 'key'>,
): void {
  dropOwnView(db, name);
  for (const sql of createTableSql(name, table)) db.exec(sql);
}

/** Rows moved with one look for more: what is held of a table stays small, however long it is. */
const batchRows = 1_000;

/**
 * Moves a column's values out of `_extra`, each as a change of its row; those that do not fit (beyond 64 bits, lone surrogates) stay.
 * A tombstoned row keeps the number, time and run of its deletion: it is by them that it can be taken back.
 */
export function fillFromExtra(db: Database.Database, table: string, column: Column, stamp: WriteStamp): void {
  const { path, isThere, fits, value } = fillingOf(column);
  const rows = db
    .prepare<[number, number], number>(
      `SELECT _row FROM ${quoted(table)} WHERE _row > ? AND _extra IS NOT NULL
         AND ${isThere} AND (${fits}) ORDER BY _row LIMIT ?`,
    )
    .pluck();
  const move = db.prepare<[string, string, number, number]>(
    `UPDATE ${quoted(table)} SET ${quoted(column.name)} = ${value},
       _extra = nullif(json_remove(_extra, ${path}), '{}'), _changed_at = iif(_deleted_at IS NULL, ?, _changed_at),
       _run_id = iif(_deleted_at IS NULL, ?, _run_id), _seq = iif(_deleted_at IS NULL, ?, _seq)
     WHERE _row = ?`,
  );
  for (let last = 0; ;) {
    const batch = rows.all(last, batchRows);
    for (const row of batch) {
      move.run(stamp.now, stamp.run, stamp.nextSeq(), row);
      last = row;
    }
    if (batch.length < batchRows) return;
  }
}

/** True when every value that `_extra` holds for this column would fit it. */
export function wouldFit(db: Database.Database, table: string, column: Column): boolean {
  const { isThere, fits } = fillingOf(column);
  const misfit = db
    .prepare(
      `SELECT 1 FROM ${quoted(table)} WHERE _extra IS NOT NULL
         AND ${isThere} AND NOT (${fits}) LIMIT 1`,
    )
    .get();
  return misfit === undefined;
}
