import type { Column } from '../../../core/records.ts';
import type { Tx } from '../../../sql/database.ts';
import { quoted } from '../../../sql/quoted.ts';
import { columnsMissingIn } from '../../decisions/stored-table.ts';
import type { TablePlace } from '../../ledger/record-table.ts';
import { historySelect } from '../../records/close-versions.ts';
import { asOfName, historyName, versionsName } from '../../records/version-names.ts';
import { addColumnSql, sqlType } from './table-sql.ts';

/**
 * Makes the table of closed versions and the views over all of them, or adds columns. In the order of their ends it
 * only grows at its end.
 */
export function ensureVersions(
  tx: Tx,
  name: string,
  { table, stored, versions }: Pick<TablePlace, 'table' | 'stored' | 'versions'>,
): void {
  const missing = columnsMissingIn(table.columns, stored);
  if (versions === undefined || (!versions.isNew && missing.length === 0)) return;
  const closed = versionsName(name);
  const columns = [...stored, ...missing];
  if (versions.isNew) {
    const own = `_seq_to INTEGER PRIMARY KEY, _row INTEGER NOT NULL, _seq INTEGER NOT NULL, _valid_from TEXT NOT NULL,
    _valid_to TEXT NOT NULL, _run_id TEXT NOT NULL, _deleted_at TEXT, _hash TEXT NOT NULL, _extra TEXT`;
    const declared = columns.map((column) => `${quoted(column.name)} ${sqlType[column.type]}`);
    tx.put(`ALTER TABLE ${quoted(name)} ADD COLUMN _valid_from TEXT`);
    tx.put(`ALTER TABLE ${quoted(name)} ADD COLUMN _valid_seq INTEGER`);
    tx.put(`CREATE TABLE ${quoted(closed)} (${[own, ...declared].join(', ')}) STRICT`);
    tx.put(`CREATE UNIQUE INDEX ${quoted(`${closed}__row`)} ON ${quoted(closed)} (_row, _seq)`);
  } else for (const column of missing) tx.put(addColumnSql(closed, column));
  dropViews(tx, name);
  createViews(tx, name, columns);
}

/** The views over all versions. */
export function createViews(tx: Tx, name: string, columns: readonly Column[]): void {
  const select = historySelect(quoted(name), quoted(versionsName(name)), columns);
  tx.put(`CREATE VIEW ${quoted(historyName(name))} AS ${select}`);
  tx.put(asOfSql(name));
}

export function dropViews(tx: Tx, name: string): void {
  for (const view of [asOfName(name), historyName(name)]) tx.put(`DROP VIEW IF EXISTS ${quoted(view)}`);
}

/**
 * `WHERE _as_of = unixepoch('2026-03-01')`: a view has no parameters, but a function in it takes what a query compares
 * its hidden column with.
 */
function asOfSql(name: string): string {
  const moment = `strftime('%Y-%m-%dT%H:%M:%fZ', at.value, 'unixepoch')`;
  return `CREATE VIEW ${quoted(asOfName(name))} AS
    SELECT h.*, at.json AS _as_of FROM json_each AS at CROSS JOIN ${quoted(historyName(name))} AS h
    WHERE h._valid_from <= ${moment} AND (h._valid_to > ${moment} OR h._valid_to IS NULL) AND h._deleted_at IS NULL`;
}
