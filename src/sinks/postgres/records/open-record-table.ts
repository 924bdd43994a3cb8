import type { Instant } from '../../../core/clock.ts';
import type { ConnectorName } from '../../../core/names.ts';
import type { EntityTable, PreparedRecord } from '../../../core/records.ts';
import { columnsMissingIn } from '../../decisions/stored-table.ts';
import { postgresTx } from '../../../sql/postgres/session.ts';
import type { Tx } from '../../../sql/database.ts';
import type { Stamp, RecordTable, TablePlace, WrittenRow } from '../../ledger/record-table.ts';
import { textHash } from '../../../sql/text-hash.ts';
import {
  encodeArray,
  encodeRows,
  type BinaryType,
  type BinaryValue,
} from '../../../sql/postgres/encode-binary.ts';
import { markRows } from './mark-rows.ts';
import { tableAt } from './names.ts';
import { quoted } from '../../../sql/quoted.ts';
import type { StoredRow } from '../../decisions/meet-record.ts';
import { binaryType } from '../column-types.ts';

export function openRecordTable(at: string, place: TablePlace): RecordTable {
  return { ...findAndWrite(at, place), ...markRows(at, place) };
}

/** What every record of a page costs: a look for its key, and a write where it is new or another. */
function findAndWrite(at: string, place: TablePlace): Pick<RecordTable, 'find' | 'write'> {
  const { connector, table } = place;
  const name = tableAt(at, connector, table.entity);
  const found = `SELECT k.n, t._row, t._hash, t._volatile_hash, t._changed_at, t._deleted_at, t._partition
    FROM unnest(:keys::bytea[]) WITH ORDINALITY AS k(key, n) JOIN ${name} AS t ON t._key = k.key`;
  const inserting = insertOf(at, place);
  const updating = updateOf(at, place);
  return {
    find: async (tx, records) => {
      const keys = encodeArray(
        'bytea',
        records.map(({ keyText }) => textHash(keyText)),
      );
      const rows = await postgresTx(tx).arrays(found, { keys });
      return new Map((rows as FoundRow[]).map((row) => [records[row[0] - 1]?.keyText ?? '', storedRow(row)]));
    },
    write: async (tx, rows, stamp) => {
      if (rows.length === 0) return;
      const all = [...newestOf(rows, await stamp.takeSeqs(rows.length))];
      const isNew = (one: NewestRow): boolean => one.home !== undefined;
      inserting(tx, all.filter(isNew), stamp);
      updating(
        tx,
        all.filter((one) => !isNew(one)),
        stamp,
      );
    },
  };
}

type FoundRow = [
  n: number,
  row: number,
  hash: string,
  volatileHash: string | null,
  changedAt: Instant,
  deletedAt: Instant | null,
  home: number | null,
];

function storedRow([, row, hash, volatileHash, changedAt, deletedAt, home]: FoundRow): StoredRow {
  return { row, hash, volatileHash, changedAt, deletedAt, home };
}

interface NewestRow extends WrittenRow {
  readonly seq: number;
}

/** Each row once, as it was written last; a new row stays one. */
function newestOf(rows: readonly WrittenRow[], firstSeq: number): Iterable<NewestRow> {
  const newest = new Map<number, NewestRow>();
  for (const [index, { row, record, home }] of rows.entries()) {
    const homeOf = home === undefined ? newest.get(row)?.home : home;
    newest.set(row, {
      row,
      record,
      seq: firstSeq + index,
      ...(homeOf === undefined ? {} : { home: homeOf }),
    });
  }
  return newest.values();
}

type Writing = (tx: Tx, rows: readonly NewestRow[], stamp: Stamp) => void;

const ownColumns: readonly (readonly [string, BinaryType])[] = [
  ['_row', 'bigint'],
  ['_key', 'bytea'],
  ['_extra', 'json'],
  ['_first_seen_at', 'timestamptz'],
  ['_changed_at', 'timestamptz'],
  ['_run_id', 'text'],
  ['_seq', 'bigint'],
  ['_hash', 'text'],
  ['_volatile_hash', 'text'],
  ['_deleted_at', 'timestamptz'],
  ['_partition', 'bigint'],
];

/** Puts whole rows straight into a table; the cells of each are those of `ownColumns`, then those of `columns`. */
export function rowsInto(
  at: string,
  connector: ConnectorName,
  { entity, columns }: Pick<EntityTable, 'entity' | 'columns'>,
): (tx: Tx, rows: Iterable<readonly BinaryValue[]>) => void {
  const names = [...ownColumns.map(([name]) => name), ...columns.map(({ name }) => quoted(name))];
  const types = [...ownColumns.map(([, type]) => type), ...columns.map(({ type }) => binaryType[type])];
  const copy = `COPY ${tableAt(at, connector, entity)} (${names.join(', ')}) FROM STDIN (FORMAT binary)`;
  return (tx, rows) => postgresTx(tx).put(copy, {}, encodeRows(types, rows));
}

/** The keys are new, and no other process may add any. */
function insertOf(at: string, { connector, table }: TablePlace): Writing {
  const put = rowsInto(at, connector, table);
  return (tx, rows, { now, run }) => {
    if (rows.length > 0) put(tx, cellsOf(rows, now, run));
  };
}

function* cellsOf(
  rows: readonly NewestRow[],
  now: Instant,
  run: string,
): Generator<readonly BinaryValue[], void> {
  for (const { row, record, seq, home = null } of rows) {
    const { keyText, extra, hash, volatileHash, values } = record;
    yield [row, textHash(keyText), extra, now, now, run, seq, hash, volatileHash, null, home, ...values];
  }
}

/** Key columns are not set: their values are the same. Columns that are not declared any more lose their old value. */
function updateOf(at: string, { connector, table, stored }: TablePlace): Writing {
  const columns: readonly { readonly name: string; readonly type: BinaryType; readonly of: CellOf }[] = [
    { name: '_row', type: 'bigint', of: ({ row }) => row },
    { name: '_extra', type: 'json', of: ({ record }) => record.extra },
    { name: '_seq', type: 'bigint', of: ({ seq }) => seq },
    { name: '_hash', type: 'text', of: ({ record }) => record.hash },
    { name: '_volatile_hash', type: 'text', of: ({ record }) => record.volatileHash },
    ...table.columns.flatMap(({ name, type }, index) =>
      table.key.includes(name)
        ? []
        : [{ name: quoted(name), type: binaryType[type], of: valueAt(index) } as const],
    ),
  ];
  const sets = [
    ...columns.flatMap(({ name }, index) => (index === 0 ? [] : [`${name} = v.c${index}`])),
    ...columnsMissingIn(stored, table.columns).map(({ name }) => `${quoted(name)} = NULL`),
  ];
  const sql = `UPDATE ${tableAt(at, connector, table.entity)} AS t
    SET ${sets.join(', ')}, _changed_at = :now::timestamptz, _run_id = :run, _deleted_at = NULL
    FROM unnest(${columns.map(({ type }, index) => `:c${index}::${type}[]`).join(', ')})
      AS v(${columns.map((_, index) => `c${index}`).join(', ')})
    WHERE t._row = v.c0`;
  return (tx, rows, { now, run }) => {
    if (rows.length === 0) return;
    const arrays = columns.map(({ type, of }, index) => [`c${index}`, encodeArray(type, rows.map(of))]);
    tx.put(sql, { ...Object.fromEntries(arrays), now, run });
  };
}

type CellOf = (row: NewestRow) => BinaryValue;

function valueAt(index: number): CellOf {
  return ({ record }: { readonly record: PreparedRecord }) => record.values[index] ?? null;
}
