import { quoted } from '../../../sql/quoted.ts';
import { tableName } from '../../decisions/stored-table.ts';
import type { FoundName, ShownView, Views } from '../../records/current-views.ts';
import { derivedSql } from './derived-sql.ts';

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
  const types = new Map(columns.map(({ name: column, type }) => [column, type]));
  const shown = [
    ...columns.map((column) => quoted(column.name)),
    ...derived.map((column) => `${derivedSql(column, types)} AS ${quoted(column.name)}`),
  ];
  const table = quoted(tableName(connector, entity));
  return `CREATE VIEW ${quoted(name)} AS ${made} SELECT ${shown.join(', ')} FROM ${table} WHERE _deleted_at IS NULL`;
}
