import type Database from 'better-sqlite3';
import type { Instant } from '../../core/clock.ts';
import type { RunId } from '../../core/names.ts';
import { type ColumnValue, type EntityTable, type PreparedRecord, keyTextOf } from '../../core/records.ts';
import { keyPartsOf } from '../../core/json-text.ts';
import type {
  HomedRow,
  KeyedRow,
  ReadRow,
  RecordTable,
  RowReader,
  TablePlace,
  WriteStamp,
} from '../file-ledger/record-store.ts';
import type { StoredRow } from '../decisions/meet-record.ts';
import { tableName, columnsMissingIn } from '../decisions/stored-table.ts';
import { homeIndexName, keyCondition } from '../sqlite-next/records/table-sql.ts';
import { quoted } from '../../sql/quoted.ts';

type Bound = ColumnValue | Instant | undefined;

export function openSqliteTable(db: Database.Database, place: TablePlace): RecordTable {
  return { ...writeRecords(db, place), ...markRows(db, place) };
}

/** What every record of a page costs: a look for its key, and a write where it is new or another. */
function writeRecords(
  db: Database.Database,
  { connector, table, stored }: TablePlace,
): Pick<RecordTable, 'find' | 'insert' | 'update'> {
  const name = quoted(tableName(connector, table.entity));
  const columns = table.columns.map((column) => quoted(column.name));
  const keyIndexes = indexesOf(table, (column) => table.key.includes(column));
  const restIndexes = indexesOf(table, (column) => !table.key.includes(column));
  // Key columns are not set by an update: naming them would touch their index. Undeclared columns lose their old value.
  const sets = [
    ...restIndexes.map((index) => `${columns[index]} = ?`),
    ...columnsMissingIn(stored, table.columns).map((column) => `${quoted(column.name)} = NULL`),
  ];
  const find = db.prepare<Bound[], StoredRow>(
    `SELECT _row AS row, _hash AS hash, _volatile_hash AS volatileHash, _changed_at AS changedAt,
       _deleted_at AS deletedAt, _partition AS home
     FROM ${name} WHERE ${keyIndexes.map((index) => `${columns[index]} = ?`).join(' AND ')}`,
  );
  const insert = db.prepare<[readonly Bound[], ...Bound[]]>(
    `INSERT INTO ${name} (${columns.join(', ')}, _extra, _first_seen_at, _changed_at, _run_id, _seq, _hash,
       _volatile_hash, _partition)
     VALUES (${columns.map(() => '?').join(', ')}, ?, ?, ?, ?, ?, ?, ?, ?)`,
  );
  const update = db.prepare<[readonly Bound[], ...Bound[]]>(
    `UPDATE ${name} SET ${[...sets, '_extra = ?'].join(', ')}, _changed_at = ?, _run_id = ?, _seq = ?, _hash = ?,
       _volatile_hash = ?, _deleted_at = NULL
     WHERE _row = ?`,
  );
  const [onlyKey] = keyIndexes;
  type Keyed = Pick<PreparedRecord, 'values'>;
  const keyOf =
    onlyKey !== undefined && keyIndexes.length === 1
      ? (record: Keyed): Bound[] => [record.values[onlyKey]]
      : (record: Keyed): Bound[] => keyIndexes.map((index) => record.values[index]);

  return {
    find: (record) => find.get(...keyOf(record)),
    insert: ({ values, extra, hash, volatileHash }, home, { now, run, nextSeq }) =>
      Number(insert.run(values, extra, now, now, run, nextSeq(), hash, volatileHash, home).lastInsertRowid),
    update: (row: number, record: PreparedRecord, { now, run, nextSeq }: WriteStamp) => {
      const rest = restIndexes.map((index) => record.values[index]);
      update.run(rest, record.extra, now, run, nextSeq(), record.hash, record.volatileHash, row);
    },
  };
}

/** Homes and tombstones. A key is read with whole integers, so that its text is to the digit what was prepared. */
function markRows(
  db: Database.Database,
  { connector, table }: TablePlace,
): Omit<RecordTable, 'find' | 'insert' | 'update'> {
  const plain = tableName(connector, table.entity);
  const name = quoted(plain);
  const keyed = `SELECT _row, _changed_at, _deleted_at, _partition, ${table.key.map(quoted).join(', ')} FROM ${name}`;
  const stamped = '_changed_at = ?, _run_id = ?, _seq = ? WHERE _row = ?';
  const setHome = db.prepare<[number, number]>(`UPDATE ${name} SET _partition = ? WHERE _row = ?`);
  const liveRows = db.prepare<[number, number, number], HomedRow>(liveRowsSql(plain));
  const liveBefore = db
    .prepare<[Instant, number, number], number>(
      `SELECT _row FROM ${name} WHERE _first_seen_at < ? AND _row > ? AND _deleted_at IS NULL ORDER BY _row LIMIT ?`,
    )
    .pluck();
  const row = db.prepare<[number], RawRow>(`${keyed} WHERE _row = ?`).raw().safeIntegers();
  const rowOf = db
    .prepare<ColumnValue[], RawRow>(`${keyed} WHERE ${keyCondition(table)}`)
    .raw()
    .safeIntegers();
  const tombstone = db.prepare<[Instant, Instant, RunId, number, number]>(
    `UPDATE ${name} SET _deleted_at = ?, ${stamped}`,
  );
  const revive = db.prepare<[Instant, RunId, number, number]>(
    `UPDATE ${name} SET _deleted_at = NULL, ${stamped}`,
  );
  const tombstonedBy = db
    .prepare<[RunId, number], number>(
      `SELECT _row FROM ${name} WHERE _deleted_at IS NOT NULL AND _run_id = ? ORDER BY _row LIMIT ?`,
    )
    .pluck();
  return {
    setHome: (row, home) => void setHome.run(home, row),
    liveRows: (home, after, limit) => liveRows.all(home, after, limit),
    liveBefore: (at, after, limit) => liveBefore.all(at, after, limit),
    row: (number) => readRow(row.get(number)),
    rowOf: (keyText) => {
      const parts = keyPartsOf(keyText, table.key.length);
      return parts === null ? undefined : readRow(rowOf.get(...parts));
    },
    tombstone: (row, { now, run, nextSeq }) => void tombstone.run(now, now, run, nextSeq(), row),
    revive: (row, { now, run, nextSeq }) => void revive.run(now, run, nextSeq(), row),
    tombstonedBy: (run, limit) => tombstonedBy.all(run, limit),
    // Records and ledger are one file: it has both or neither.
    lost: () => 0,
    giveUpLost: () => undefined,
  };
}

type RawRow = [
  row: bigint,
  changedAt: Instant,
  deletedAt: Instant | null,
  home: bigint | null,
  ...key: ColumnValue[],
];

function readRow(raw: RawRow | undefined): KeyedRow | undefined {
  if (raw === undefined) return undefined;
  const [row, changedAt, deletedAt, home, ...key] = raw;
  return {
    row: Number(row),
    keyText: keyTextOf(key),
    changedAt,
    deletedAt,
    home: home === null ? null : Number(home),
  };
}

function indexesOf({ columns }: EntityTable, isWanted: (name: string) => boolean): readonly number[] {
  return columns.flatMap(({ name }, index) => (isWanted(name) ? [index] : []));
}

function liveRowsSql(table: string): string {
  return `SELECT _row AS row, _changed_at AS changedAt FROM ${quoted(table)} INDEXED BY ${quoted(homeIndexName(table))}
          WHERE _partition = ? AND _row > ? AND _deleted_at IS NULL ORDER BY _row LIMIT ?`;
}

/** Rows as their tables say, for a connection that may only read. */
export function openSqliteRows(db: Database.Database): RowReader {
  return {
    keyOf: (connector, { entity, key }, row) => {
      const name = quoted(tableName(connector, entity));
      const parts = db
        .prepare<[number], ColumnValue[]>(`SELECT ${key.map(quoted).join(', ')} FROM ${name} WHERE _row = ?`)
        .raw()
        .safeIntegers()
        .get(row);
      return parts === undefined ? undefined : keyTextOf(parts);
    },
    row: (connector, table, keyText) => {
      const parts = keyPartsOf(keyText, table.key.length);
      if (parts === null) return undefined;
      const rows = db.prepare<ColumnValue[], ReadRow>(
        `SELECT _row AS row, _first_seen_at AS firstSeenAt, _changed_at AS changedAt, _run_id AS run,
           _deleted_at AS deletedAt, _seq AS seq, _partition AS home
         FROM ${quoted(tableName(connector, table.entity))} WHERE ${keyCondition(table)}`,
      );
      return rows.get(...parts);
    },
    liveRows: (connector, entity, ...range) =>
      db.prepare<[number, number, number], HomedRow>(liveRowsSql(tableName(connector, entity))).all(...range),
  };
}
