import type Database from 'better-sqlite3';
import type { ConnectorName, EntityName } from '../../core/names.ts';
import { createViewSql, isOwnView } from '../sqlite-next/records/view-sql.ts';
import { shownDerived, viewNames } from '../decisions/current-view.ts';
import { tableName } from '../decisions/stored-table.ts';
import { parseColumns, parseDescribed } from '../stored-json.ts';
import { quoted } from '../../sql/quoted.ts';

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
export function renewCurrentViews(db: Database.Database, connector: ConnectorName): void {
  const tables = db
    .prepare<[string], TableRow>(
      `SELECT entity, stored, described, current_view AS currentView FROM _sync_tables
       WHERE connector = ? ORDER BY entity`,
    )
    .all(connector);
  const names = new Set(tables.map(({ entity }) => tableName(connector, entity)));
  for (const { entity, stored, described, currentView } of tables) {
    const table = tableName(connector, entity);
    const columns = parseColumns(stored);
    const derived = shownDerived(parseDescribed(described).derived, columns);
    const view = makeView(db, viewNames(table, names), (name) =>
      createViewSql(name, table, columns, derived),
    );
    if (view !== currentView) {
      db.prepare('UPDATE _sync_tables SET current_view = ? WHERE connector = ? AND entity = ?').run(
        view,
        connector,
        entity,
      );
    }
  }
}

/** In front of its table's end, or of a table that needs its name. */
export function dropOwnView(db: Database.Database, view: string): void {
  if (isOwnView(sqlOf(db, view))) db.exec(`DROP VIEW ${quoted(view)}`);
}

/** Where a view of an earlier name is still right, it stays; the first name that is free or ours, else. Null: none is. */
function makeView(
  db: Database.Database,
  names: readonly string[],
  sqlFor: (name: string) => string,
): string | null {
  const there = names.map((name) => ({ name, sql: sqlOf(db, name) }));
  const own = there.find(({ sql }) => isOwnView(sql)) ?? there.find(({ sql }) => sql === undefined);
  if (own === undefined) return null;
  const sql = sqlFor(own.name);
  if (own.sql === sql) return own.name;
  dropOwnView(db, own.name);
  db.exec(sql);
  return own.name;
}

function sqlOf(db: Database.Database, name: string): string | undefined {
  return db
    .prepare<[string], string>("SELECT coalesce(sql, '') FROM sqlite_schema WHERE name = ? COLLATE NOCASE")
    .pluck()
    .get(name);
}
