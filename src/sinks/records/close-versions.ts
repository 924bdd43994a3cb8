import type { Instant } from '../../core/clock.ts';
import type { Column } from '../../core/records.ts';
import type { Tx } from '../../sql/database.ts';
import { quoted } from '../../sql/quoted.ts';
import { columnsMissingIn } from '../decisions/stored-table.ts';
import type { TablePlace } from '../ledger/record-table.ts';
import { versionOwn } from './own-names.ts';

/** A row that is about to change. */
export interface ChangingRow {
  readonly row: number;
  /** The number of the change. */
  readonly seq: number;
  /** Of what the row will hold; null: something else than now. */
  readonly hash: string | null;
}

/**
 * Keeps what the rows hold now as closed versions. Called before each statement that gives rows a new change number,
 * with all of them.
 */
export type CloseVersions = (tx: Tx, rows: readonly ChangingRow[], now: Instant) => void;

/** When the open version of a row of `t` began, and with which change. A row that never changed says so itself. */
export const beganAt = 'coalesce(t._valid_from, t._changed_at)';
export const beganWith = 'coalesce(t._valid_seq, t._seq)';

/** Volatile fields alone are no new version: the hash does not count them. A row that comes back is one. */
const isChanged = '(v.hash IS NULL OR t._hash <> v.hash OR t._deleted_at IS NOT NULL)';
const rowsGiven = '{v: row bigint, seq bigint, hash text}';

/**
 * The open version of a row is the row itself; `versions` is the table of closed ones. `_valid_from` and `_valid_seq`
 * are null while a row is as its newest change has left it. They say otherwise when its version began where the row was
 * written again without another content, or where the clock did not go on: each version ends after it began.
 */
export function closeVersionsOf(name: string, versions: string, place: TablePlace): CloseVersions {
  const { table, stored, versions: kept } = place;
  if (kept === undefined) return () => undefined;
  const columns = [...stored, ...columnsMissingIn(table.columns, stored)].map((column) =>
    quoted(column.name),
  );
  const close = `INSERT INTO ${versions} (${[...versionOwn.map((column) => column.name), ...columns].join(', ')})
    SELECT v.seq, t._row, ${beganWith}, ${beganAt}, CASE WHEN :now > ${beganAt} THEN :now ELSE {next ${beganAt}} END,
      t._run_id, t._deleted_at, t._hash, t._extra${columns.map((column) => `, t.${column}`).join('')}
    FROM ${rowsGiven} JOIN ${name} AS t ON t._row = v.row
    WHERE ${isChanged}`;
  const begin = `UPDATE ${name} AS t SET
      _valid_from = CASE WHEN NOT ${isChanged} THEN ${beganAt} WHEN :now <= ${beganAt} THEN {next ${beganAt}} END,
      _valid_seq = CASE WHEN NOT ${isChanged} THEN ${beganWith} END
    FROM ${rowsGiven} WHERE t._row = v.row
      AND (NOT ${isChanged} OR t._valid_from IS NOT NULL OR t._valid_seq IS NOT NULL OR :now <= t._changed_at)`;
  return (tx, rows, now) => {
    if (rows.length === 0) return;
    if (kept.isOn) tx.put(close, { v: rows, now });
    tx.put(begin, { v: rows, now });
  };
}

/**
 * Every version of every row: the closed ones, and the rows as the open ones. What a view shows may only grow at its
 * end, so the columns of records come last, in the order in which they were added.
 */
export function historySelect(name: string, versions: string, columns: readonly Column[]): string {
  const rest = columns.map((column) => `, t.${quoted(column.name)}`).join('');
  const common = `t._run_id, t._deleted_at, t._extra${rest}`;
  return `SELECT t._row, t._seq, t._seq_to, t._valid_from, t._valid_to, ${common} FROM ${versions} AS t
    UNION ALL SELECT t._row, ${beganWith}, NULL, ${beganAt}, NULL, ${common} FROM ${name} AS t`;
}
