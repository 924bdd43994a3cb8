import type { DerivedColumn } from '../../../core/described-table.ts';
import { quoted } from '../../../sql/quoted.ts';
import { tableName } from '../../decisions/stored-table.ts';
import type { FoundName, ShownView, Views } from '../../records/current-views.ts';

interface FoundSql extends FoundName {
  /** Empty for what SQLite makes by itself. */
  readonly sql: string;
}

export const views: Views<FoundSql> = {
  tableName,
  find: async (tx, names) => {
    const found = await tx.rows<FoundSql>(
      `SELECT name, coalesce(sql, '') AS sql FROM sqlite_schema WHERE lower(name) IN {names text}`,
      { names: names.map(lowered) },
    );
    const byLowered = new Map(found.map((one) => [lowered(one.name), one]));
    return new Map(
      names.flatMap((name) => {
        const one = byLowered.get(lowered(name));
        return one === undefined ? [] : [[name, one]];
      }),
    );
  },
  isOwn: ({ sql }) => sql.startsWith('CREATE VIEW ') && sql.includes(made),
  put: (tx, view, found) => {
    const sql = createViewSql(view);
    if (found?.sql === sql) return;
    if (found !== undefined) tx.put(`DROP VIEW ${quoted(found.name)}`);
    tx.put(sql);
  },
};

/** As SQLite compares names. */
function lowered(name: string): string {
  return name.replaceAll(/[A-Z]+/g, (letters) => letters.toLowerCase());
}

/** Begins each view of this program in the files of users: it cannot change. */
const made = '/* Made by connector-sync, and made anew when its table changes. */';

/** Rows that are not deleted, without the sink's own columns. */
function createViewSql({ name, connector, entity, columns, derived }: ShownView): string {
  const shown = [
    ...columns.map((column) => quoted(column.name)),
    ...derived.map((column) => `${derivedSql(column)} AS ${quoted(column.name)}`),
  ];
  const table = quoted(tableName(connector, entity));
  return `CREATE VIEW ${quoted(name)} AS ${made} SELECT ${shown.join(', ')} FROM ${table} WHERE _deleted_at IS NULL`;
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
