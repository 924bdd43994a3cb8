import type Database from 'better-sqlite3';
import type { Instant } from '../../core/clock.ts';
import type { RunId } from '../../core/names.ts';
import type { ColumnValue } from '../../core/records.ts';
import type { CopiedRecord } from '../copies.ts';
import { onePage } from '../copies/in-pages.ts';
import { tableName } from '../decisions/stored-table.ts';
import type { RecordCopies } from '../file-ledger/record-store.ts';
import { createTable } from './ensure-table.ts';
import { quoted } from '../../sql/quoted.ts';

const own = `_row, _extra, _first_seen_at, _changed_at, _run_id, _seq, _hash, _volatile_hash, _deleted_at, _partition`;
const ownCount = own.split(',').length;

/** Rows of a table with all that it keeps of them, for a copy. */
export function sqliteCopies(db: Database.Database): RecordCopies {
  const columnsOf = ({ stored }: { readonly stored: readonly { readonly name: string }[] }): string =>
    [own, ...stored.map(({ name }) => quoted(name))].join(', ');
  return {
    read: (connector, table, after, limit) => {
      const rows = db
        .prepare<[number, number], RawRow>(
          `SELECT ${columnsOf(table)} FROM ${quoted(tableName(connector, table.entity))} WHERE _row > ? ORDER BY _row LIMIT ?`,
        )
        .raw()
        .safeIntegers();
      return onePage(copiedRecords(rows.iterate(after, limit)));
    },
    make: (connector, { entity, key, stored }) => {
      createTable(db, tableName(connector, entity), { columns: stored, key });
    },
    write: (connector, table, rows) => {
      const marks = Array.from({ length: ownCount + table.stored.length }, () => '?').join(', ');
      const insert = db.prepare<[readonly ColumnValue[], readonly ColumnValue[]]>(
        `INSERT INTO ${quoted(tableName(connector, table.entity))} (${columnsOf(table)}) VALUES (${marks})`,
      );
      for (const row of rows) insert.run(ownValues(row), row.values);
    },
    lastRow: (connector, entity) =>
      db
        .prepare<[], number>(`SELECT coalesce(max(_row), 0) FROM ${quoted(tableName(connector, entity))}`)
        .pluck()
        .get() ?? 0,
  };
}

type RawRow = [
  row: bigint,
  extra: string | null,
  firstSeenAt: Instant,
  changedAt: Instant,
  run: RunId,
  seq: bigint,
  hash: string,
  volatileHash: string | null,
  deletedAt: Instant | null,
  home: bigint | null,
  ...values: ColumnValue[],
];

function* copiedRecords(rows: Iterable<RawRow>): Generator<CopiedRecord> {
  for (const row of rows) yield copiedRecord(row);
}

function copiedRecord(raw: RawRow): CopiedRecord {
  const [row, extra, firstSeenAt, changedAt, run, seq, hash, volatileHash, deletedAt, home, ...values] = raw;
  return {
    row: Number(row),
    firstSeenAt,
    changedAt,
    run,
    seq: Number(seq),
    hash,
    volatileHash,
    deletedAt,
    home: home === null ? null : Number(home),
    extra,
    values,
  };
}

function ownValues(record: CopiedRecord): readonly ColumnValue[] {
  const { row, extra, firstSeenAt, changedAt, run, seq, hash, volatileHash, deletedAt, home } = record;
  return [row, extra, firstSeenAt, changedAt, run, seq, hash, volatileHash, deletedAt, home];
}
