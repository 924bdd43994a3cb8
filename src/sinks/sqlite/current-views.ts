import type Database from 'better-sqlite3';
import type { DerivedColumn } from '../../core/described-table.ts';
import type { ConnectorName, EntityName } from '../../core/names.ts';
import type { Column } from '../../core/records.ts';
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

/** A view of another person has no such beginning, and is left alone. */
const made = '/* Made by connector-sync, and made anew when its table changes. */';

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
    const select = selectCurrent(table, columns, shownDerived(parseDescribed(described).derived, columns));
    const view = makeView(db, viewNames(table, names), select);
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
  if (isOwn(sqlOf(db, view))) db.exec(`DROP VIEW ${quoted(view)}`);
}

/** Where a view of an earlier name is still right, it stays; the first name that is free or ours, else. Null: none is. */
function makeView(db: Database.Database, names: readonly string[], select: string): string | null {
  const there = names.map((name) => ({ name, sql: sqlOf(db, name) }));
  const own = there.find(({ sql }) => isOwn(sql)) ?? there.find(({ sql }) => sql === undefined);
  if (own === undefined) return null;
  const sql = `CREATE VIEW ${quoted(own.name)} AS ${made} ${select}`;
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

function isOwn(sql: string | undefined): boolean {
  return sql?.startsWith('CREATE VIEW ') === true && sql.includes(made);
}

function selectCurrent(table: string, columns: readonly Column[], derived: readonly DerivedColumn[]): string {
  const shown = [
    ...columns.map(({ name }) => quoted(name)),
    ...derived.map((column) => `${derivedSql(column)} AS ${quoted(column.name)}`),
  ];
  return `SELECT ${shown.join(', ')} FROM ${quoted(table)} WHERE _deleted_at IS NULL`;
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
