import type { DerivedColumn } from '../../../core/described-table.ts';
import type { Column } from '../../../core/records.ts';
import { quoted } from '../../../sql/quoted.ts';

/** A view of another person has no such beginning, and is left alone. */
const made = '/* Made by connector-sync, and made anew when its table changes. */';

/** Rows that are not deleted, without the sink's own columns. */
export function createViewSql(
  view: string,
  table: string,
  columns: readonly Column[],
  derived: readonly DerivedColumn[],
): string {
  const shown = [
    ...columns.map(({ name }) => quoted(name)),
    ...derived.map((column) => `${derivedSql(column)} AS ${quoted(column.name)}`),
  ];
  return `CREATE VIEW ${quoted(view)} AS ${made} SELECT ${shown.join(', ')} FROM ${quoted(table)} WHERE _deleted_at IS NULL`;
}

/** Whether this program made what a schema says of a name. */
export function isOwnView(sql: string | undefined): boolean {
  return sql?.startsWith('CREATE VIEW ') === true && sql.includes(made);
}

/**
 * Texts in the order of the document. Only objects and arrays are looked into: another value would be taken
 * for JSON.
 */
function derivedSql({ from, path }: DerivedColumn): string {
  const source = from.length === 1 ? quoted(from[0] ?? '') : `coalesce(${from.map(quoted).join(', ')})`;
  let [value, type] = [source, `json_type(${source})`];
  const loops: string[] = [];
  const wanted: string[] = [];
  for (const [depth, step] of path.entries()) {
    loops.push(`json_each(CASE WHEN ${type} IN ('object', 'array') THEN ${value} END) AS e${depth}`);
    if (step !== '*') wanted.push(`e${depth}.key = '${step.replaceAll("'", "''")}'`);
    [value, type] = [`e${depth}.value`, `e${depth}.type`];
  }
  const texts = `SELECT ${value} AS found FROM ${loops.join(' CROSS JOIN ')} WHERE ${[...wanted, `${type} = 'text'`].join(' AND ')}`;
  return `(SELECT group_concat(found, '') FROM (${texts}))`;
}
