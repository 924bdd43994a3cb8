import type { Column, EntityTable, DerivedColumn } from '../../core/records.ts';
import { type Tx, type Values, quoted } from '../../sql/database.ts';
import { columnsMissingIn, isJsonColumn } from '../decisions/stored-table.ts';
import type { CellType, RecordTables, RecordTable, Stamp, TablePlace } from '../ledger/driver.ts';
import {
  closeVersionsOf,
  historySelect,
  markRows,
  newestRows,
  rowFactsSql,
  type Marks,
  type NewestRow,
} from './mark-rows.ts';
import { fillFromExtra, fittingColumns, retypeColumns } from './fill-from-extra.ts';
import {
  historyName,
  indexSuffixes,
  rowOwn,
  versionedOwn,
  versionOwn,
  versionsName,
  type OwnColumn,
} from './own-names.ts';
import type { ConnectorName, EntityName } from '../../core/names.ts';
import { noteView, viewedTables } from '../ledger/tables.ts';
import { parseColumns, parseDescribed } from '../stored-json.ts';

type SqlTypes = Readonly<Record<CellType, string>>;

/** Definition of record tables in a database. All other rules about them are the same everywhere. */
export interface TableDialect extends Views, Pick<RecordTables, 'insertRows' | 'clear'> {
  /** Finds and writes rows of a table. */
  readonly rows: (place: TablePlace, name: string, marks: Marks) => FoundRows;
  readonly types: SqlTypes;
  /** Text after the columns of a new table. */
  readonly tableEnding: string;
  /** Own columns of rows that this database alone has. */
  readonly moreOwn: readonly OwnColumn[];
  /** Columns by which rows are found. */
  readonly keyColumns: (table: EntityTable) => readonly string[];
  /** Text after the columns of the index on owners. */
  readonly ownerIndexEnding: string;
  /** Whether a view is replaced with more columns while other views depend on it; otherwise it is created again. */
  readonly replacesViews: boolean;
  /** Adds columns that may be null. */
  readonly addColumns: (tx: Tx, quotedName: string, definitions: readonly string[]) => void;
  /** The condition for the row of a key; null for a text that is no key of the table. */
  readonly atKey: (table: EntityTable, keyText: string) => AtKey | null;
  /** The limits of a table; absent: there are none that count. */
  readonly room?: {
    /** Throws `SyncError` SINK_INCOMPATIBLE where these columns have no room. */
    check(tx: Tx, place: TablePlace, name: string, added: readonly Column[]): Promise<void>;
    /** Selects as many of the columns, from the first on, as there is room for. */
    fitting(tx: Tx, place: TablePlace, name: string, added: readonly Column[]): Promise<readonly Column[]>;
  };
}

interface FoundRows extends Omit<RecordTable, keyof Marks | 'write'> {
  /** Stores new rows and replaces others, whose versions have ended by then. */
  readonly put: (tx: Tx, rows: readonly NewestRow[], stamp: Stamp) => Promise<void>;
}

interface AtKey {
  readonly condition: string;
  readonly values: Values;
}

export function recordTables(dialect: TableDialect): RecordTables {
  const { types, room } = dialect;
  const nameOf = ({ connector, table }: TablePlace): string => dialect.tableName(connector, table.entity);
  const addColumns = (tx: Tx, name: string, columns: readonly OwnColumn[]): void => {
    if (columns.length > 0) dialect.addColumns(tx, quoted(name), definitions(columns, types));
  };
  const showVersions = (tx: Tx, name: string, columns: readonly Column[]): void => {
    const [history, versions] = [quoted(historyName(name)), quoted(versionsName(name))];
    const { replacesViews } = dialect;
    if (!replacesViews) hideVersions(tx, name);
    const make = replacesViews ? 'CREATE OR REPLACE' : 'CREATE';
    tx.put(`${make} VIEW ${history} AS ${historySelect(quoted(name), versions, columns)}`);
  };
  const hideVersions = (tx: Tx, name: string): void =>
    tx.put(`DROP VIEW IF EXISTS ${quoted(historyName(name))}`);
  const ensureVersions = (tx: Tx, place: TablePlace, missing: readonly Column[]): void => {
    const { stored, versions } = place;
    if (versions === undefined || (!versions.isNew && missing.length === 0)) return;
    const name = nameOf(place);
    const closed = versionsName(name);
    const columns = [...stored, ...missing];
    if (versions.isNew) {
      addColumns(tx, name, versionedOwn);
      const declared = definitions([...versionOwn, ...columns], types);
      tx.put(`CREATE TABLE ${quoted(closed)} (${declared.join(', ')})${dialect.tableEnding}`);
      tx.put(`CREATE UNIQUE INDEX ${quoted(`${name}__version`)} ON ${quoted(closed)} (_row, _seq)`);
    } else addColumns(tx, closed, missing);
    showVersions(tx, name, columns);
  };
  return {
    ...dialect,
    keepsVersions: true,
    open: (place) => {
      const name = nameOf(place);
      const versions = quoted(versionsName(name));
      const close = closeVersionsOf(quoted(name), versions, place);
      const marks = markRows(quoted(name), versions, place, close);
      const { put, ...found } = dialect.rows(place, name, marks);
      return {
        ...found,
        ...marks,
        write: async (tx, rows, stamp) => {
          if (rows.length === 0) return;
          const newest = newestRows(rows, await stamp.takeSeqs(rows.length));
          const changing = newest.flatMap(({ row, seq, record: { hash }, owner }) =>
            owner === undefined ? [{ row, seq, hash }] : [],
          );
          close(tx, changing, stamp.now);
          await put(tx, newest, stamp);
        },
      };
    },
    ensure: async (tx, place) => {
      const { table, stored, versions } = place;
      const name = nameOf(place);
      const missing = columnsMissingIn(table.columns, stored);
      if (missing.length > 0 || versions?.isNew === true) await room?.check(tx, place, name, missing);
      if (stored.length > 0) {
        addColumns(tx, name, missing);
      } else {
        await dropOwnViews(tx, dialect, [name]);
        for (const sql of createTableSql(dialect, name, table)) tx.put(sql);
      }
      ensureVersions(tx, place, missing);
    },
    retype: async (tx, place, columns, to) => {
      const { table, stored, versions } = place;
      const name = nameOf(place);
      const isVersioned = versions !== undefined;
      await dropViewsOf(tx, dialect, [name]);
      hideVersions(tx, name);
      await retypeColumns(tx, { name, isVersioned }, columns, types[to]);
      if (isVersioned) showVersions(tx, name, [...stored, ...columnsMissingIn(table.columns, stored)]);
    },
    fitting: async (tx, place, columns) => {
      const name = nameOf(place);
      const fitting = await fittingColumns(tx, quoted(name), columns);
      if (room === undefined) return fitting;
      const missing = columnsMissingIn(fitting, place.stored);
      const added = new Set(await room.fitting(tx, place, name, missing));
      return fitting.filter((column) => added.has(column) || !missing.includes(column));
    },
    fill: async (tx, place, columns, stamp) => await fillFromExtra(tx, dialect, place, columns, stamp),
    renewViews: async (tx, connector) => await renewCurrentViews(tx, dialect, connector),
    drop: async (tx, connector, entities) => {
      const names = entities.map((entity) => dialect.tableName(connector, entity)).toSorted();
      await dropViewsOf(tx, dialect, names);
      for (const name of names) {
        hideVersions(tx, name);
        tx.put(`DROP TABLE IF EXISTS ${quoted(versionsName(name))}`);
        tx.put(`DROP TABLE IF EXISTS ${quoted(name)}`);
      }
    },
    row: async (tx, connector, table, keyText) => {
      const at = dialect.atKey(table, keyText);
      if (at === null) return undefined;
      const name = quoted(dialect.tableName(connector, table.entity));
      return await tx.first(rowFactsSql(name, at.condition), at.values);
    },
  };
}

/** The statements that make an entity's table. */
export function createTableSql(
  { types, moreOwn, tableEnding, keyColumns, ownerIndexEnding }: TableDialect,
  name: string,
  table: EntityTable,
): readonly string[] {
  const declared = table.columns.map((column) => ({
    ...column,
    isRequired: table.key.includes(column.name),
  }));
  const columns = definitions([...rowOwn.slice(0, 1), ...declared, ...moreOwn, ...rowOwn.slice(1)], types);
  const index = (suffix: string): string => `INDEX ${quoted(`${name}${suffix}`)} ON ${quoted(name)}`;
  return [
    `CREATE TABLE ${quoted(name)} (${columns.join(', ')})${tableEnding}`,
    `CREATE UNIQUE ${index(indexSuffixes.key)} (${keyColumns(table).map(quoted).join(', ')})`,
    `CREATE ${index(indexSuffixes.seq)} (_seq)`,
    `CREATE ${index(indexSuffixes.owner)} (_partition, _row)${ownerIndexEnding}`,
  ];
}

function definitions(columns: readonly OwnColumn[], types: SqlTypes): readonly string[] {
  return columns.map(({ name, type, isKey, isRequired }) => {
    const ending = isKey === true ? ' PRIMARY KEY' : isRequired === true ? ' NOT NULL' : '';
    return `${quoted(name)} ${types[type]}${ending}`;
  });
}

/** Creation of views in a database. */
export interface Views {
  readonly tableName: (connector: ConnectorName, entity: EntityName) => string;
  /** Finds the relations with these names, keyed by the requested names. */
  readonly findViews: (tx: Tx, names: readonly string[]) => Promise<ReadonlyMap<string, FoundView>>;
  /** Makes the view, or brings it up to date with its table. */
  readonly putView: (tx: Tx, view: ShownView, found: FoundView | undefined) => void;
}

/** A relation with the name of a view: a view or something else. */
export interface FoundView {
  readonly name: string;
  /** Whether this program made it. A view of another person is left alone. */
  readonly isOwn: boolean;
  /** Says how it was made. */
  readonly text: string;
  /** Columns that cannot be changed; absent: all can. */
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
async function renewCurrentViews(
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
async function dropOwnViews(
  tx: Tx,
  { findViews }: Pick<Views, 'findViews'>,
  names: readonly string[],
): Promise<void> {
  for (const { name, isOwn } of (await findViews(tx, names)).values()) {
    if (isOwn) tx.put(`DROP VIEW ${quoted(name)}`);
  }
}

/** Drops the views that these tables may have, in the same way. */
async function dropViewsOf(
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

/** Derived columns that no stored column hides and whose source columns exist. A path needs a JSON column. */
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
