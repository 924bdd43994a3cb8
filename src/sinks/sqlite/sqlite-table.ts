import type Database from 'better-sqlite3';
import type { Instant } from '../../core/clock.ts';
import type { ColumnValue, EntityTable, PreparedRecord } from '../../core/records.ts';
import {
  tableName,
  type RecordTable,
  type StoredRow,
  type TablePlace,
  type WriteStamp,
} from '../ledger/record-store.ts';
import { columnsMissingIn } from '../ledger/tables.ts';
import { quoted } from './quoted.ts';

type Bound = ColumnValue | Instant | undefined;

/** One entity's table, with its three statements prepared once. */
export function openSqliteTable(db: Database.Database, place: TablePlace): RecordTable {
  const { table } = place;
  const sql = statements(place);
  const find = db.prepare<Bound[], StoredRow>(sql.find);
  const insert = db.prepare<[readonly Bound[], ...Bound[]]>(sql.insert);
  const update = db.prepare<[readonly Bound[], ...Bound[]]>(sql.update);
  const keyIndexes = indexesOf(table, (name) => table.key.includes(name));
  const restIndexes = indexesOf(table, (name) => !table.key.includes(name));
  const [onlyKey] = keyIndexes;
  const keyOf =
    onlyKey !== undefined && keyIndexes.length === 1
      ? (record: PreparedRecord): Bound[] => [record.values[onlyKey]]
      : (record: PreparedRecord): Bound[] => keyIndexes.map((index) => record.values[index]);

  return {
    find: (record) => find.get(...keyOf(record)),
    insert: (record, { now, run, nextSeq }) => {
      const { values, extra, hash, volatileHash } = record;
      const { lastInsertRowid } = insert.run(values, extra, now, now, run, nextSeq(), hash, volatileHash);
      return Number(lastInsertRowid);
    },
    update: (row: number, record: PreparedRecord, { now, run, nextSeq }: WriteStamp) => {
      const rest = restIndexes.map((index) => record.values[index]);
      update.run(rest, record.extra, now, run, nextSeq(), record.hash, record.volatileHash, row);
    },
  };
}

/** Key columns are not set by an update: naming them would touch their index. Undeclared columns lose their old value. */
function statements({ connector, table, stored }: TablePlace): Record<'find' | 'insert' | 'update', string> {
  const name = quoted(tableName(connector, table.entity));
  const columns = table.columns.map((column) => quoted(column.name));
  const isKey = table.columns.filter((column) => table.key.includes(column.name));
  const rest = columnsMissingIn(table.columns, isKey);
  const gone = columnsMissingIn(stored, table.columns);
  const sets = [
    ...rest.map((column) => `${quoted(column.name)} = ?`),
    ...gone.map((column) => `${quoted(column.name)} = NULL`),
  ];
  const marks = columns.map(() => '?').join(', ');
  return {
    find: `SELECT _row AS row, _hash AS hash, _volatile_hash AS volatileHash, _changed_at AS changedAt,
             _deleted_at AS deletedAt
           FROM ${name} WHERE ${isKey.map((column) => `${quoted(column.name)} = ?`).join(' AND ')}`,
    insert: `INSERT INTO ${name} (${columns.join(', ')}, _extra, _first_seen_at, _changed_at, _run_id, _seq, _hash,
               _volatile_hash)
             VALUES (${marks}, ?, ?, ?, ?, ?, ?, ?)`,
    update: `UPDATE ${name} SET ${[...sets, '_extra = ?'].join(', ')}, _changed_at = ?, _run_id = ?, _seq = ?, _hash = ?,
               _volatile_hash = ?, _deleted_at = NULL
             WHERE _row = ?`,
  };
}

function indexesOf({ columns }: EntityTable, isWanted: (name: string) => boolean): readonly number[] {
  return columns.flatMap(({ name }, index) => (isWanted(name) ? [index] : []));
}
