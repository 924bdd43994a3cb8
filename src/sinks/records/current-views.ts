import type { DerivedColumn, Column } from '../../core/records.ts';
import type { ConnectorName, EntityName } from '../../core/names.ts';
import type { Tx } from '../../sql/database.ts';
import { quoted } from '../../sql/quoted.ts';
import { noteView, viewedTables } from '../ledger/tables.ts';
import { isJsonColumn } from '../decisions/stored-table.ts';
import { parseColumns, parseDescribed } from '../stored-json.ts';

/** How a database makes views. */
export interface Views {
  readonly tableName: (connector: ConnectorName, entity: EntityName) => string;
  /** What has these names, by the names that were asked for. */
  readonly findViews: (tx: Tx, names: readonly string[]) => Promise<ReadonlyMap<string, FoundView>>;
  /** Makes the view, or brings it up to date with its table. */
  readonly putView: (tx: Tx, view: ShownView, found: FoundView | undefined) => void;
}

/** What has the name of a view: a view or something else. */
export interface FoundView {
  readonly name: string;
  /** Whether this program made it. A view of another person is left alone. */
  readonly isOwn: boolean;
  /** Says how it was made. */
  readonly text: string;
  /** Those that cannot be changed; absent: all can. */
  readonly columns?: readonly Readonly<Record<'name' | 'type', string>>[];
  /** Whether another view is made of it: then it cannot be dropped. */
  readonly isUsed?: boolean;
}

export interface ShownView {
  readonly name: string;
  readonly connector: ConnectorName;
  readonly entity: EntityName;
  readonly columns: readonly Column[];
  readonly derived: readonly DerivedColumn[];
}

/**
 * Makes and renews the views of the connector's tables: rows that are not deleted, without the sink's own columns.
 * Nothing is written where nothing has changed. Where something else has the name there is no view.
 */
export async function renewCurrentViews(
  tx: Tx,
  { tableName, findViews, putView }: Views,
  connector: ConnectorName,
): Promise<void> {
  const tables = await viewedTables(tx, connector);
  const names = new Set(tables.map(({ entity }) => tableName(connector, entity)));
  const namesOf = (entity: EntityName): readonly string[] => viewNames(tableName(connector, entity), names);
  const found = await findViews(
    tx,
    tables.flatMap(({ entity }) => namesOf(entity)),
  );
  for (const { entity, stored, described, currentView } of tables) {
    const existing = namesOf(entity).map((name) => ({ name, view: found.get(name) }));
    // A view of an earlier name stays where it is still right.
    const chosen =
      existing.find(({ view }) => view?.isOwn === true) ?? existing.find(({ view }) => view === undefined);
    if (chosen !== undefined) {
      const columns = parseColumns(stored);
      const derived = shownDerived(parseDescribed(described).derived, columns);
      putView(tx, { name: chosen.name, connector, entity, columns, derived }, chosen.view);
    }
    const name = chosen?.name ?? null;
    if (name !== currentView) await noteView(tx, { connector, entity, view: name });
  }
}

/** Before their tables are dropped, or a table takes the name. Fails where another view is made of one. */
export async function dropOwnViews(
  tx: Tx,
  { findViews }: Pick<Views, 'findViews'>,
  names: readonly string[],
): Promise<void> {
  for (const { name, isOwn } of (await findViews(tx, names)).values()) {
    if (isOwn) tx.put(`DROP VIEW ${quoted(name)}`);
  }
}

/** Drops the views that these tables may have, in the same way. */
export async function dropViewsOf(
  tx: Tx,
  views: Pick<Views, 'findViews'>,
  tables: readonly string[],
): Promise<void> {
  const names = tables.flatMap((table) => viewNames(table, new Set()));
  await dropOwnViews(tx, views, names);
}

/**
 * The name of a table's view of current rows: `<table>_current`, or `<table>__current` where another entity's table has
 * that name. No table has two underscores there, and both names are short enough for every server.
 */
function viewNames(table: string, tables: ReadonlySet<string>): readonly string[] {
  return [`${table}_current`, `${table}__current`].filter((name) => !tables.has(name));
}

/** Those that no stored column hides, and that can be made of columns that are there: of JSON, to look into one. */
function shownDerived(
  derived: readonly DerivedColumn[],
  stored: readonly Column[],
): readonly DerivedColumn[] {
  const names = new Set(stored.map(({ name }) => name));
  const jsonNames = new Set(stored.filter(({ type }) => isJsonColumn(type)).map(({ name }) => name));
  return derived
    .filter(({ name }) => !names.has(name))
    .map((column) => {
      const usable = column.path.length === 0 ? names : jsonNames;
      return { ...column, from: column.from.filter((name) => usable.has(name)) };
    })
    .filter(({ from }) => from.length > 0);
}

/** The columns that a derived one is made of, as one expression. */
export function sourceOf({ from }: DerivedColumn): string {
  return from.length === 1 ? from.map(quoted).join('') : `coalesce(${from.map(quoted).join(', ')})`;
}
