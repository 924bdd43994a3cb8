import type { Column } from '../../core/records.ts';
import { quoted } from '../../sql/quoted.ts';
import { beganAt, beganWith } from './close-versions.ts';

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
