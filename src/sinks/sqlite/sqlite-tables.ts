import {
  type ColumnValue,
  type EntityTable,
  type FieldType,
  type DerivedColumn,
  type DerivedKind,
  keyPartsOf,
} from '../../core/records.ts';
import { type Tx, quoted } from '../../sql/database.ts';
import { sqliteTx, type SqliteTx } from '../../sql/sqlite/sqlite-tx.ts';
import type { Stamp, FoundBy, KeyedRow, RecordTable, RowOwner, TablePlace } from '../ledger/driver.ts';
import { indexSuffixes } from '../records/own-names.ts';
import { recordTables, type TableDialect, sourceOf, type ShownView } from '../records/record-tables.ts';
import { storedHash, type StoredRow } from '../decisions/meet-record.ts';
import { columnsMissingIn, tableName, isJsonColumn } from '../decisions/stored-table.ts';
import { storedColumns, storedRow, type NewestRow, type StoredCells } from '../records/mark-rows.ts';

export const sqliteTableDialect: TableDialect = {
  tableName,
  findViews: async (tx, names) => {
    const found = await tx.rows<{ readonly name: string; readonly text: string }>(
      `SELECT name, coalesce(sql, '') AS text FROM sqlite_schema WHERE lower(name) IN {names text}`,
      { names: names.map(lowered) },
    );
    const byLowered = new Map(found.map((one) => [lowered(one.name), one]));
    return new Map(
      names.flatMap((name) => {
        const one = byLowered.get(lowered(name));
        if (one === undefined) return [];
        return [[name, { ...one, isOwn: one.text.startsWith('CREATE VIEW ') && one.text.includes(made) }]];
      }),
    );
  },
  putView: (tx, view, found) => {
    const sql = createViewSql(view);
    if (found?.text === sql) return;
    if (found !== undefined) tx.put(`DROP VIEW ${quoted(found.name)}`);
    if (sql.includes(timesView)) tx.put(timesSql);
    tx.put(sql);
  },
  types: {
    string: 'TEXT',
    integer: 'INTEGER',
    number: 'REAL',
    boolean: 'INTEGER',
    object: 'TEXT',
    array: 'TEXT',
    any: 'TEXT',
    time: 'TEXT',
    flag: 'INTEGER',
    bytes: 'BLOB',
  },
  tableEnding: ' STRICT',
  moreOwn: [],
  keyColumns: ({ key }) => key,
  ownerIndex: '(_partition, _row, _deleted_at)',
  replacesViews: false,
  rows: (place, name, marks) => ({ ...findAndPut(place, name), ...findRows(name, place.table, marks) }),
  addColumns: (tx, name, definitions) => {
    for (const definition of definitions) tx.put(`ALTER TABLE ${name} ADD COLUMN ${definition}`);
  },
  insertRows: async (tx, { name, columns }, rows) => {
    if (rows.length === 0) return;
    const statement = await sqliteTx(tx).prepared(
      `INSERT INTO ${quoted(name)} (${columns.map((column) => quoted(column.name)).join(', ')})
       VALUES (${columns.map(() => '?').join(', ')})`,
    );
    for (const cells of rows) statement.run(cells);
  },
};

/** Tables of records in the file that has the ledger. */
export const sqliteTables = recordTables(sqliteTableDialect);

/** The cost of every record of a page: a search for its key, and a write where it is new or changed. */
function findAndPut({ table, stored }: TablePlace, plain: string) {
  const name = quoted(plain);
  const columns = table.columns.map((column) => quoted(column.name));
  const rest = table.columns.flatMap((column, index) => (table.key.includes(column.name) ? [] : [index]));
  // Key columns are not set by an update: naming them would touch their index. Undeclared columns lose their old value.
  const sets = [
    ...rest.map((index) => `${columns[index]} = ?`),
    ...columnsMissingIn(stored, table.columns).map((column) => `${quoted(column.name)} = NULL`),
  ];
  const found = `SELECT ${storedColumns.join(', ')} FROM ${name} WHERE ${keyCondition(table)}`;
  const following = `SELECT ${[...storedColumns, ...table.key.map(quoted)].join(', ')} FROM ${name}
     WHERE _row > ? ORDER BY _row LIMIT ?`;
  const insert = `INSERT INTO ${name} (_row, ${columns.join(', ')}, _extra, _first_seen_at, _changed_at, _run_id, _seq, _hash, _partition)
     VALUES (?, ${columns.map(() => '?').join(', ')}, ?, ?, ?, ?, ?, ?, ?)`;
  const update = `UPDATE ${name} SET ${[...sets, '_extra = ?'].join(', ')}, _changed_at = ?, _run_id = ?, _seq = ?, _hash = ?,
       _deleted_at = NULL
     WHERE _row = ?`;
  const keyOf = keyReader(table);
  return {
    find: async (tx: Tx, records: readonly FoundBy[]) => {
      const byKey = new Map<string, StoredRow>();
      if (records.length === 0) return byKey;
      const statement = await sqliteTx(tx).prepared(found);
      const ahead = readAhead(await sqliteTx(tx).prepared(following));
      for (const record of records) {
        const key = keyOf(record);
        const cells = ahead.take(key) ?? (statement.get(key) as StoredCells | undefined);
        if (cells === undefined) continue;
        ahead.met(cells);
        byKey.set(record.keyText, storedRow(cells));
      }
      return byKey;
    },
    put: async (tx: Tx, rows: readonly NewestRow[], { now, run }: Stamp) => {
      const inserting = await sqliteTx(tx).prepared(insert);
      const updating = await sqliteTx(tx).prepared(update);
      for (const { row, record, seq, owner } of rows) {
        const { values, extra } = record;
        const hash = storedHash(record, now);
        if (owner === undefined) {
          const others = rest.map((index) => values[index]);
          updating.run(others, extra, now, run, seq, hash, row);
        } else {
          inserting.run(row, values, extra, now, now, run, seq, hash, owner);
        }
      }
    },
  };
}

const leastAhead = 16;
const mostAhead = 512;
/** Rows of records that have left the listing. */
const mostPassed = 8;

/**
 * Reads rows ahead. Listings mostly come in the order in which their rows were first stored: once a row directly
 * follows that of the previous record, the rows behind it are read in one statement, for a third of the cost of a
 * search for each key.
 */
function readAhead(following: Pick<Awaited<ReturnType<SqliteTx['prepared']>>, 'all'>) {
  let rows: readonly (readonly unknown[])[] = [];
  let at = 0;
  let last = Number.NaN;
  let size = leastAhead;
  return {
    /** The row of this key, where it is among the next of those that were read. */
    take: (key: Key): StoredCells | undefined => {
      for (let next = at; next < Math.min(at + mostPassed, rows.length); next += 1) {
        const cells = rows[next] ?? [];
        if (!isKeyIn(cells, key)) continue;
        at = next + 1;
        // `as`: as `following` selects them.
        return cells as StoredCells;
      }
      if (at < rows.length) size = leastAhead;
      rows = [];
      return undefined;
    },
    met: ([row]: StoredCells): void => {
      if (row === last + 1 && at >= rows.length) {
        rows = following.all(row, size) as unknown[][];
        at = 0;
        size = Math.min(size * 2, mostAhead);
      }
      last = row;
    },
  };
}

/** Compares the key's cells, which follow those of `StoredCells`. */
function isKeyIn(cells: readonly unknown[], key: Key): boolean {
  const width = storedColumns.length;
  return Array.isArray(key)
    ? key.every((part, index) => cells[width + index] === part)
    : cells[width] === key;
}

type Key = ColumnValue | undefined | readonly (ColumnValue | undefined)[];

/** Reads the bound key of a record: its value, or its values in the order of the table's key. */
function keyReader({ columns, key }: EntityTable): (record: FoundBy) => Key {
  const indexes = key.map((name) => columns.findIndex((column) => column.name === name));
  const [only] = indexes;
  if (only !== undefined && indexes.length === 1) return ({ values }) => values[only];
  return ({ values }) => indexes.map((index) => values[index]);
}

/** Finds rows by owner and by key. */
function findRows(
  plain: string,
  table: EntityTable,
  { rows }: Pick<RecordTable, 'rows'>,
): Pick<RecordTable, 'liveRows' | 'countLive' | 'rowsOf'> {
  const name = quoted(plain);
  const isInOwner = `FROM ${name} INDEXED BY ${quoted(`${plain}${indexSuffixes.owner}`)}
    WHERE _partition = ? AND _row > ? AND _deleted_at IS NULL`;
  return {
    liveRows: async (tx, owners, limit) => {
      const statement = await sqliteTx(tx).prepared(`SELECT _row ${isInOwner} ORDER BY _row LIMIT ?`);
      const live: RowOwner[] = [];
      for (const { owner, after } of owners) {
        if (live.length >= limit) break;
        const found = statement.all(owner, after, limit - live.length) as [number][];
        live.push(...found.map(([row]) => ({ row, owner })));
      }
      return live;
    },
    countLive: async (tx, owners, most) => {
      const statement = await sqliteTx(tx).prepared(`SELECT count(*) FROM (SELECT 1 ${isInOwner} LIMIT ?)`);
      const counts = new Map<number, number>();
      for (const { owner, after } of owners) {
        const [live] = statement.get(owner, after, most) as [number];
        if (live > 0) counts.set(owner, live);
      }
      return counts;
    },
    rowsOf: async (tx, keyTexts) => {
      const statement = await sqliteTx(tx).prepared(`SELECT _row FROM ${name} WHERE ${keyCondition(table)}`);
      const textOfRow = new Map<number, string>();
      for (const keyText of keyTexts) {
        const parts = keyValues(table, keyText);
        const found = parts === null ? undefined : (statement.get(...parts) as [number] | undefined);
        if (found !== undefined) textOfRow.set(found[0], keyText);
      }
      const byRow = await rows(tx, [...textOfRow.keys()]);
      return new Map([...byRow].map(([row, one]): [string, KeyedRow] => [textOfRow.get(row) ?? '', one]));
    },
  };
}

/** A row by its key, with `?` for each part. */
function keyCondition({ key }: EntityTable): string {
  return key.map((column) => `${quoted(column)} = ?`).join(' AND ');
}

/**
 * Values for `keyCondition`; null for a text that is no key of the table, such as one with an integer beyond 64 bits.
 */
function keyValues({ key }: EntityTable, keyText: string): readonly ColumnValue[] | null {
  const parts = keyPartsOf(keyText, key.length);
  const isStorable = (part: ColumnValue): boolean =>
    typeof part !== 'bigint' || BigInt.asIntN(64, part) === part;
  return parts?.every(isStorable) === true ? parts : null;
}

/** Lowers a name as SQLite does when it compares names. */
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

/** A column of a view as an expression. `types`: of the columns that it is made of. */
function derivedSql(column: DerivedColumn, types: ReadonlyMap<string, FieldType>): string {
  const { from, path, as } = column;
  const [first = ''] = from;
  const source = sourceOf(column);
  if (as === 'texts') {
    const { found, type, rows } = stepsInto(source, path);
    return `(SELECT group_concat(found, '') FROM (SELECT ${found} AS found ${rows} AND ${type} = 'text'))`;
  }
  const type = types.get(first) ?? 'string';
  const value = `SELECT ${scalar(source, path, type)}`;
  if (as !== 'timestamp') return `(SELECT ${converted[as]} FROM (${value}))`;
  const given = type === 'string' ? `json_array(${source})` : `(SELECT json_array(v) FROM (${value}))`;
  return `(SELECT utc FROM ${timesView} WHERE given = ${given})`;
}

/** In the order of the document. Only objects and arrays are looked into: another value would be taken for JSON. */
function stepsInto(source: string, path: readonly string[]) {
  let [found, type] = [source, `json_type(${source})`];
  const loops: string[] = [];
  const wanted: string[] = ['true'];
  for (const [depth, step] of path.entries()) {
    // A value below that is no object or array has no element with a key.
    const isKeyed = depth === 0 && step !== '*';
    const inside = isKeyed ? found : `CASE WHEN ${type} IN ('object', 'array') THEN ${found} END`;
    loops.push(`json_each(${inside}) AS e${depth}`);
    if (step !== '*') wanted.push(`e${depth}.key = '${step.replaceAll("'", "''")}'`);
    [found, type] = [`e${depth}.value`, `e${depth}.type`];
  }
  const rows = `${loops.length === 0 ? '' : `FROM ${loops.join(' CROSS JOIN ')} `}WHERE ${wanted.join(' AND ')}`;
  return { found, type, rows };
}

/** `v`: the value at a path that is no object and no array; a boolean is the text that JSON has for it. */
function scalar(source: string, path: readonly string[], type: FieldType): string {
  if (type === 'boolean') return `CASE ${source} WHEN 1 THEN 'true' WHEN 0 THEN 'false' END AS v`;
  if (!isJsonColumn(type)) return `${source} AS v`;
  const { found, type: of, rows } = stepsInto(source, path);
  const value = path.length === 0 ? `json_extract(${source}, '$')` : found;
  return `CASE WHEN ${of} IN ('true', 'false') THEN ${of} WHEN ${of} NOT IN ('object', 'array') THEN ${value} END AS v ${rows} LIMIT 1`;
}

/** A text counts as the number that JSON would read in it. */
const number = `CASE WHEN typeof(v) <> 'text' THEN v WHEN json_valid(v) THEN CASE WHEN json_type(v) IN ('integer', 'real') THEN json_extract(v, '$') END END`;
const time = "'%Y-%m-%d %H:%M:%f'";
/** Years 1 to 9999. */
const seconds = (value: string): string =>
  `(SELECT CASE WHEN n BETWEEN -62135596800 AND 253402300799 THEN strftime(${time}, n, 'unixepoch') END FROM (SELECT ${value} AS n))`;

/** A time as strftime takes it: an offset with minutes behind a colon, and no word for a zone. */
const spelled = `(SELECT CASE WHEN z GLOB '????????????????*[+-][0-9][0-9]' THEN z || ':00'
      WHEN z GLOB '????????????????*[+-][0-9][0-9][0-9][0-9]' THEN substr(z, 1, length(z) - 2) || ':' || substr(z, -2) ELSE z END
    FROM (SELECT replace(replace(replace(v, ',', '.'), 'UTC', 'Z'), 'GMT', 'Z') AS z))`;

/** Times in UTC as texts with milliseconds, which SQLite's own functions take and compare. */
const converted: Readonly<Record<Exclude<DerivedKind, 'texts' | 'timestamp'>, string>> = {
  string: 'CAST(v AS TEXT)',
  integer: `(SELECT CASE WHEN typeof(n) = 'integer' THEN n END FROM (SELECT ${number} AS n))`,
  number: `(SELECT CASE WHEN abs(n) <= 1e308 THEN CAST(n AS REAL) END FROM (SELECT ${number} AS n))`,
  boolean: "CASE WHEN v IN ('true', 1, '1') THEN 1 WHEN v IN ('false', 0, '0') THEN 0 END",
  unix: seconds(number),
  unixMs: seconds(`(${number}) / 1000.0`),
  date: "CASE WHEN v GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]' AND v NOT GLOB '0000*' AND strftime('%Y-%m-%d', v) = v THEN v END",
  // As text, because SQLite would make a double of it.
  decimal: `CASE WHEN (${number}) IS NOT NULL THEN CAST(v AS TEXT) END`,
};

/**
 * Converts times for all views of a file: each connection has the text of each view in memory. `given` is a JSON array
 * with one value. The text never changes: other conversions get another name.
 */
const timesView = '_current_times';
// strftime takes more than ISO 8601, and of a day that its month does not have it makes another one.
const timesSql = `CREATE VIEW IF NOT EXISTS ${timesView} AS SELECT given,
  CASE WHEN v GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]*' AND v NOT GLOB '0000*' AND v NOT GLOB '* '
    AND (length(v) = 10 OR v GLOB '??????????[T ][0-2][0-9]:*' AND substr(v, 12, 2) < '24')
    AND strftime('%Y-%m-%d', substr(v, 1, 10)) = substr(v, 1, 10) THEN strftime(${time}, ${spelled}) END AS utc
  FROM (SELECT json AS given, value AS v FROM json_each)`;
