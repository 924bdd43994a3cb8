import type { ConnectorName, EntityName } from '../../../core/names.ts';
import type { Tx } from '../../../sql/database.ts';
import { quoted } from '../../../sql/quoted.ts';
import { shownDerived, viewNames } from '../../decisions/current-view.ts';
import { tableName } from '../../decisions/stored-table.ts';
import { parseColumns, parseDescribed } from '../../stored-json.ts';
import { createViewSql, isOwnView } from './view-sql.ts';

interface TableRow {
  readonly entity: EntityName;
  readonly stored: string;
  readonly described: string;
  readonly currentView: string | null;
}

/**
 * Makes and renews the views of the connector's tables: rows that are not deleted, without the sink's own columns. Nothing is written where nothing has
 * changed. Where something else has the name there is no view.
 */
export async function renewCurrentViews(tx: Tx, connector: ConnectorName): Promise<void> {
  const tables = await tx.rows<TableRow>(
    `SELECT entity, stored, described, current_view FROM _sync_tables WHERE connector = :connector ORDER BY entity`,
    { connector },
  );
  const names = new Set(tables.map(({ entity }) => tableName(connector, entity)));
  for (const { entity, stored, described, currentView } of tables) {
    const table = tableName(connector, entity);
    const columns = parseColumns(stored);
    const derived = shownDerived(parseDescribed(described).derived, columns);
    const view = await makeView(tx, viewNames(table, names), (name) =>
      createViewSql(name, table, columns, derived),
    );
    if (view === currentView) continue;
    await tx.run(
      'UPDATE _sync_tables SET current_view = :view WHERE connector = :connector AND entity = :entity',
      { view, connector, entity },
    );
  }
}

/** In front of its table's end, or of a table that needs its name. */
export async function dropOwnView(tx: Tx, view: string): Promise<void> {
  if (isOwnView(await sqlOf(tx, view))) await tx.run(`DROP VIEW ${quoted(view)}`);
}

/** Where a view of an earlier name is still right, it stays; the first name that is free or ours, else. Null: none is. */
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
