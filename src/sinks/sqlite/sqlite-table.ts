import type Database from 'better-sqlite3';
import type { Instant } from '../../core/clock.ts';
import type { RunId } from '../../core/names.ts';
import { keyTextOf, type ColumnValue, type EntityTable, type PreparedRecord } from '../../core/records.ts';
import { keyPartsOf } from '../ledger/key-text.ts';
import type {
  HomedRow,
  KeyedRow,
  RecordTable,
  StoredRow,
  TablePlace,
  WriteStamp,
} from '../ledger/record-store.ts';
import { recordSql, rowSql } from './table-sql.ts';

type Bound = ColumnValue | Instant | undefined;

/** One entity's table, with its statements prepared once. */
export function openSqliteTable(db: Database.Database, place: TablePlace): RecordTable {
  return { ...writeRecords(db, place), ...markRows(db, place) };
}

/** What every record of a page costs: a look for its key, and a write where it is new or another. */
function writeRecords(
  db: Database.Database,
  place: TablePlace,
): Pick<RecordTable, 'find' | 'insert' | 'update'> {
  const { table } = place;
  const sql = recordSql(place);
  const find = db.prepare<Bound[], StoredRow>(sql.find);
  const insert = db.prepare<[readonly Bound[], ...Bound[]]>(sql.insert);
  const update = db.prepare<[readonly Bound[], ...Bound[]]>(sql.update);
  const keyIndexes = indexesOf(table, (name) => table.key.includes(name));
  const restIndexes = indexesOf(table, (name) => !table.key.includes(name));
  const [onlyKey] = keyIndexes;
  type Keyed = Pick<PreparedRecord, 'values'>;
  const keyOf =
    onlyKey !== undefined && keyIndexes.length === 1
      ? (record: Keyed): Bound[] => [record.values[onlyKey]]
      : (record: Keyed): Bound[] => keyIndexes.map((index) => record.values[index]);

  return {
    find: (record) => find.get(...keyOf(record)),
    insert: (record, home, { now, run, nextSeq }) => {
      const { values, extra, hash, volatileHash } = record;
      const { lastInsertRowid } = insert.run(
        values,
        extra,
        now,
        now,
        run,
        nextSeq(),
        hash,
        volatileHash,
        home,
      );
      return Number(lastInsertRowid);
    },
    update: (row: number, record: PreparedRecord, { now, run, nextSeq }: WriteStamp) => {
      const rest = restIndexes.map((index) => record.values[index]);
      update.run(rest, record.extra, now, run, nextSeq(), record.hash, record.volatileHash, row);
    },
  };
}

/** Homes and tombstones. A key is read with whole integers, so that its text is to the digit what was prepared. */
function markRows(db: Database.Database, place: TablePlace): Omit<RecordTable, 'find' | 'insert' | 'update'> {
  const sql = rowSql(place);
  const setHome = db.prepare<[number, number]>(sql.setHome);
  const liveRows = db.prepare<[number, number, number], HomedRow>(sql.liveRows);
  const liveBefore = db.prepare<[Instant, number, number], number>(sql.liveBefore).pluck();
  const row = db.prepare<[number], RawRow>(sql.row).raw().safeIntegers();
  const rowOf = db.prepare<ColumnValue[], RawRow>(sql.rowOf).raw().safeIntegers();
  const tombstone = db.prepare<[Instant, Instant, RunId, number, number]>(sql.tombstone);
  const revive = db.prepare<[Instant, RunId, number, number]>(sql.revive);
  const tombstonedBy = db.prepare<[RunId, number], number>(sql.tombstonedBy).pluck();
  return {
    setHome: (row, home) => void setHome.run(home, row),
    liveRows: (home, after, limit) => liveRows.all(home, after, limit),
    liveBefore: (at, after, limit) => liveBefore.all(at, after, limit),
    row: (number) => readRow(row.get(number)),
    rowOf: (keyText) => {
      const parts = keyPartsOf(keyText, place.table.key.length);
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
