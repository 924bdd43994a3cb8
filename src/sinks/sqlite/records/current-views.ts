import type { ConnectorName } from '../../../core/names.ts';
import type { Tx } from '../../../sql/database.ts';
import { quoted } from '../../../sql/quoted.ts';
import { shownDerived, viewNames } from '../../decisions/current-view.ts';
import { tableName } from '../../decisions/stored-table.ts';
import { noteView, viewedTables } from '../../ledger/tables.ts';
import { parseColumns, parseDescribed } from '../../stored-json.ts';
import type { DerivedColumn } from '../../../core/described-table.ts';
import type { Column } from '../../../core/records.ts';

/**
 * Makes and renews the views of the connector's tables: rows that are not deleted, without the sink's own columns.
 * Nothing is written where nothing has changed. Where something else has the name there is no view.
 */
export async function renewCurrentViews(tx: Tx, connector: ConnectorName): Promise<void> {
  const tables = await viewedTables(tx, connector);
  const names = new Set(tables.map(({ entity }) => tableName(connector, entity)));
  for (const { entity, stored, described, currentView } of tables) {
    const table = tableName(connector, entity);
    const columns = parseColumns(stored);
    const derived = shownDerived(parseDescribed(described).derived, columns);
    const view = await makeView(tx, viewNames(table, names), (name) =>
      createViewSql(name, table, columns, derived),
    );
    if (view === currentView) continue;
    await noteView(tx, { connector, entity, view });
  }
}

/** In front of its table's end, or of a table that needs its name. */
export async function dropOwnView(tx: Tx, view: string): Promise<void> {
  if (isOwnView(await sqlOf(tx, view))) await tx.run(`DROP VIEW ${quoted(view)}`);
}

/**
 * Where a view of an earlier name is still right, it stays; the first name that is free or ours, else. Null: none is.
 */
async function makeView(
  tx: Tx,
  names: readonly string[],
  sqlFor: (name: string) => string,
): Promise<string | null> {
  const there: { readonly name: string; readonly sql: string | undefined }[] = [];
  for (const name of names) there.push({ name, sql: await sqlOf(tx, name) });
  const own = there.find(({ sql }) => isOwnView(sql)) ?? there.find(({ sql }) => sql === undefined);
  if (own === undefined) return null;
  const sql = sqlFor(own.name);
  if (own.sql === sql) return own.name;
  await dropOwnView(tx, own.name);
  await tx.run(sql);
  return own.name;
}

async function sqlOf(tx: Tx, name: string): Promise<string | undefined> {
  const found = await tx.first<{ sql: string }>(
    `SELECT coalesce(sql, '') AS sql FROM sqlite_schema WHERE name = :name COLLATE NOCASE`,
    { name },
  );
  return found?.sql;
}

/** A view of another person has no such beginning, and is left alone. */
const made = '/* Made by connector-sync, and made anew when its table changes. */';

/** Rows that are not deleted, without the sink's own columns. */
function createViewSql(
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
