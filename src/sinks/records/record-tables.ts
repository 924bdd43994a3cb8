import type { Column, EntityTable, DerivedColumn, ColumnValue } from '../../core/records.ts';
import { type Tx, quoted, type Cells } from '../../sql/database.ts';
import { columnsMissingIn, isJsonColumn } from '../decisions/stored-table.ts';
import type { CellType, RecordTables, RecordTable, Stamp, TablePlace } from '../ledger/driver.ts';
import {
  closeVersionsOf,
  historySelect,
  markRows,
  newestRows,
  type Marks,
  type NewestRow,
  columnValue,
} from './mark-rows.ts';
import {
  historyName,
  indexSuffixes,
  rowOwn,
  versionedOwn,
  versionOwn,
  versionsName,
  type OwnColumn,
  rowsTable,
  selectCells,
} from './own-names.ts';
import type { ConnectorName, EntityName } from '../../core/names.ts';
import { noteView, storedTables } from '../ledger/tables.ts';
import { parseDescribed } from '../stored-json.ts';
import { canonicalJson, toColumnValue } from '../../core/canonical-json.ts';
import {
  memberOf,
  type JsonObject,
  type JsonValue,
  readFields,
  readJson,
  writeJson,
} from '../../core/json.ts';

type SqlTypes = Readonly<Record<CellType, string>>;

/** Definition of record tables in a database. All other rules about them are the same everywhere. */
export interface TableDialect extends Views, Pick<RecordTables, 'insertRows'> {
  /** Finds and writes rows of a table. */
  readonly rows: (place: TablePlace, name: string, marks: Marks) => FoundRows;
  readonly types: SqlTypes;
  /** Text after the columns of a new table. */
  readonly tableEnding: string;
  /** Own columns of rows that this database alone has. */
  readonly moreOwn: readonly OwnColumn[];
  /** Columns by which rows are found. */
  readonly keyColumns: (table: EntityTable) => readonly string[];
  /** Columns of the index by which live rows of an owner are found, so that the index alone answers. */
  readonly ownerIndex: string;
  /** Whether a view is replaced with more columns while other views depend on it; otherwise it is created again. */
  readonly replacesViews: boolean;
  /** Adds columns that may be null. */
  readonly addColumns: (tx: Tx, quotedName: string, definitions: readonly string[]) => void;
}

interface FoundRows extends Omit<RecordTable, keyof Marks | 'write'> {
  /** Stores new rows and replaces others, whose versions have ended by then. */
  readonly put: (tx: Tx, rows: readonly NewestRow[], stamp: Stamp) => Promise<void>;
}

export function recordTables(dialect: TableDialect): RecordTables {
  const { types } = dialect;
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
          const changing = newest.filter(({ owner }) => owner === undefined);
          close(tx, changing, stamp.now);
          await put(tx, newest, stamp);
        },
      };
    },
    ensure: async (tx, place) => {
      const { table, stored } = place;
      const name = nameOf(place);
      const missing = columnsMissingIn(table.columns, stored);
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
  };
}

/** The statements that make an entity's table. */
export function createTableSql(
  { types, moreOwn, tableEnding, keyColumns, ownerIndex }: TableDialect,
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
    `CREATE ${index(indexSuffixes.owner)} ${ownerIndex}`,
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
async function renewCurrentViews(tx: Tx, { tableName, findViews, putView }: Views, connector: ConnectorName) {
  const tables = await storedTables(tx, connector);
  const names = new Set(tables.map(({ entity }) => tableName(connector, entity)));
  const namesOf = (entity: EntityName): readonly string[] => viewNames(tableName(connector, entity), names);
  const candidates = tables.flatMap(({ entity }) => namesOf(entity));
  const found = await findViews(tx, candidates);
  for (const { entity, stored, described, currentView } of tables) {
    const existing = namesOf(entity).map((name) => ({ name, view: found.get(name) }));
    // A view of an earlier name stays where it is still right.
    const chosen =
      existing.find(({ view }) => view?.isOwn === true) ?? existing.find(({ view }) => view === undefined);
    if (chosen !== undefined) {
      const derived = shownDerived(parseDescribed(described).derived, stored);
      putView(tx, { name: chosen.name, connector, entity, columns: stored, derived }, chosen.view);
    }
    const name = chosen?.name ?? null;
    if (name !== currentView) await noteView(tx, { connector, entity, view: name });
  }
}

/** Before their tables are dropped, or a table takes the name. Fails where another view is made of one. */
async function dropOwnViews(tx: Tx, { findViews }: Pick<Views, 'findViews'>, names: readonly string[]) {
  for (const { name, isOwn } of (await findViews(tx, names)).values()) {
    if (isOwn) tx.put(`DROP VIEW ${quoted(name)}`);
  }
}

/** Drops the views that these tables may have, in the same way. */
async function dropViewsOf(tx: Tx, views: Pick<Views, 'findViews'>, tables: readonly string[]) {
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
function shownDerived(derived: readonly DerivedColumn[], stored: readonly Column[]) {
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

/** Rows held at once. */
const batchRows = 250;

/**
 * Moves values of these columns out of `_extra`, each row as one change; those that do not fit stay. Outside of the
 * database: PostgreSQL's functions refuse whole documents for one odd text in them. A tombstoned row keeps the number,
 * time and run of its deletion, by which it can be taken back.
 */
export async function fillFromExtra(
  tx: Tx,
  records: Pick<RecordTables, 'tableName' | 'insertRows'>,
  place: TablePlace,
  columns: readonly Column[],
  { now, run, takeSeqs }: Stamp,
): Promise<void> {
  const { connector, table, stored, versions } = place;
  const rowsOf = rowsTable(records, connector, {
    ...table,
    // A column that has just got another type is stored with its old one.
    stored: [...table.columns, ...columnsMissingIn(stored, table.columns)],
    hasVersions: versions !== undefined,
  });
  const name = quoted(rowsOf.name);
  const close = closeVersionsOf(name, quoted(versionsName(rowsOf.name)), place);
  for await (const rows of rowsWithExtra(tx, name, columns)) {
    const moved = rows.flatMap(({ row, members, isLive }) => {
      const fitting = columns.flatMap((column) => {
        const value = fittedValue(column, memberOf(members, column.name));
        return value === undefined ? [] : [[column.name, value] as const];
      });
      if (fitting.length === 0) return [];
      const names = new Set<string>(fitting.map(([name]) => name));
      const left = Object.entries(members).filter(([name]) => !names.has(name));
      const extra = left.length === 0 ? null : canonicalJson(Object.fromEntries(left));
      return [{ row, isLive, changed: new Map<string, ColumnValue>([...fitting, ['_extra', extra]]) }];
    });
    if (moved.length === 0) continue;
    const live = moved.filter(({ isLive }) => isLive);
    const first = live.length === 0 ? 0 : await takeSeqs(live.length);
    const seqs = live.map(({ row }, index) => ({ row, seq: first + index, isSame: false }));
    close(tx, seqs, now);
    for (const [index, { changed }] of live.entries()) {
      changed
        .set('_seq', first + index)
        .set('_changed_at', now)
        .set('_run_id', run);
    }
    const numbers = moved.map(({ row }) => row);
    const found = await tx.rows(selectCells(rowsOf, '_row IN {numbers bigint}'), { numbers });
    await tx.run(`DELETE FROM ${name} WHERE _row IN {numbers bigint}`, { numbers });
    const changedOf = new Map(moved.map(({ row, changed }) => [row, changed]));
    const filled = found.map((cells): Cells => {
      const values = Object.values(cells).map(columnValue);
      const changed = changedOf.get(Number(values[0]));
      return rowsOf.columns.map((column, index) => {
        const value = changed?.get(column.name);
        return value === undefined ? values[index] : value;
      });
    });
    await records.insertRows(tx, rowsOf, filled);
  }
}

/** Columns whose type fits every value that `_extra` holds for them. */
export async function fittingColumns(tx: Tx, name: string, columns: readonly Column[]) {
  let fitting = columns;
  for await (const rows of rowsWithExtra(tx, name, columns)) {
    fitting = fitting.filter((column) =>
      rows.every(({ members }) => {
        const value = memberOf(members, column.name);
        return value === undefined || fittedValue(column, value) !== undefined;
      }),
    );
    if (fitting.length === 0) return [];
  }
  return fitting;
}

/** Rows whose `_extra` may hold any of the columns, by row number. */
async function* rowsWithExtra(tx: Tx, name: string, columns: readonly Column[]) {
  if (columns.length === 0) return;
  // Declared names are always written without an escape. The condition also finds texts that only look like a name.
  const holds = columns.map((_, index) => `CAST(_extra AS TEXT) LIKE :name${index}`).join(' OR ');
  const names = Object.fromEntries(columns.map((column, index) => [`name${index}`, `%"${column.name}"%`]));
  for (let after = 0; ;) {
    const found = await tx.rows<{ row: number; extra: string; isLive: boolean }>(
      `SELECT _row AS row, _extra AS extra, _deleted_at IS NULL AS is_live FROM ${name}
       WHERE _row > :after AND _extra IS NOT NULL AND (${holds}) ORDER BY _row LIMIT :limit`,
      { ...names, after, limit: batchRows },
    );
    // `as`: objects are stored there.
    yield found.map(({ row, extra, isLive }) => ({ row, members: readFields(extra) as JsonObject, isLive }));
    const last = found.at(-1);
    if (last === undefined || found.length < batchRows) return;
    after = last.row;
  }
}

/**
 * Converts a value for the column; undefined where there is none, or it does not fit. A column that was added for an
 * undeclared field also takes null, so that the value leaves `_extra` entirely, as it does when the record comes again.
 * For a declared column the next sync does that, which compares the column.
 */
function fittedValue(column: Column, value: JsonValue | undefined): ColumnValue | undefined {
  if (value === undefined || (value === null && column.isEvolved !== true)) return undefined;
  return toColumnValue(column, value);
}

interface RetypedTable {
  /** Name without quotes. */
  readonly name: string;
  readonly number: '_row' | '_seq_to';
}

/**
 * Turns columns of these types into texts, or integers into numbers, in the rows of a table and in its closed versions
 * if there are any. No view may depend on them. Change numbers stay, because rows keep their meaning. `type`: the new
 * type as the database names it.
 */
export async function retypeColumns(
  tx: Tx,
  { name, isVersioned }: { readonly name: string; readonly isVersioned: boolean },
  columns: readonly Column[],
  type: string,
): Promise<void> {
  const rows: RetypedTable = { name, number: '_row' };
  const closed: RetypedTable = { name: versionsName(name), number: '_seq_to' };
  for (const table of isVersioned ? [rows, closed] : [rows]) {
    for (const [index] of columns.entries()) {
      tx.put(`ALTER TABLE ${quoted(table.name)} ADD COLUMN _text${index} ${type}`);
    }
    await writeTexts(tx, table, columns, type);
    for (const [index, { name }] of columns.entries()) {
      tx.put(`ALTER TABLE ${quoted(table.name)} DROP COLUMN ${quoted(name)}`);
      tx.put(`ALTER TABLE ${quoted(table.name)} RENAME COLUMN _text${index} TO ${quoted(name)}`);
    }
  }
}

async function writeTexts(tx: Tx, { name, number }: RetypedTable, columns: readonly Column[], type: string) {
  const table = quoted(name);
  const cells = columns.map((column, index) => `, ${quoted(column.name)} AS c${index}`).join('');
  const isAny = columns.map((column) => `${quoted(column.name)} IS NOT NULL`).join(' OR ');
  const sets = columns
    .map((_, index) => `_text${index} = CAST(v.c${index} AS ${type.replace(/ COLLATE.*/, '')})`)
    .join(', ');
  const given = columns.map((_, index) => `, c${index} text`).join('');
  for (let after = 0; ;) {
    const rows = await tx.rows<Readonly<Record<string, unknown>>>(
      `SELECT ${number} AS number${cells} FROM ${table}
       WHERE ${number} > :after AND (${isAny}) ORDER BY ${number} LIMIT :limit`,
      { after, limit: batchRows },
    );
    const v = rows.map((row) => ({
      ...Object.fromEntries(
        columns.map((column, index) => [`c${index}`, textOf(column, columnValue(row[`c${index}`]))]),
      ),
      number: Number(row['number']),
    }));
    if (v.length > 0) {
      await tx.run(`UPDATE ${table} SET ${sets} FROM {v: number bigint${given}} WHERE ${number} = v.number`, {
        v,
      });
    }
    const last = v.at(-1);
    if (last === undefined || rows.length < batchRows) return;
    after = last.number;
  }
}

function textOf({ type }: Column, value: ColumnValue): string | null {
  if (value === null) return null;
  if (type === 'boolean') return Number(value) === 0 ? 'false' : 'true';
  if (type === 'number') return writeJson(Number(value));
  const text = String(value);
  const read = isJsonColumn(type) ? readJson(text) : null;
  return typeof read === 'string' ? read.toWellFormed() : text;
}
