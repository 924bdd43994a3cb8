import type { Instant } from '../../../core/clock.ts';
import { keyTextOf, type ColumnValue, type EntityTable } from '../../../core/records.ts';
import type { Cells, Tx } from '../../../sql/database.ts';
import {
  encodeArray,
  encodeRows,
  type BinaryType,
  type BinaryValue,
} from '../../../sql/postgres/encode-binary.ts';
import { postgresTx } from '../../../sql/postgres/session.ts';
import { quoted } from '../../../sql/quoted.ts';
import { textHash } from '../../../sql/text-hash.ts';
import { columnsMissingIn } from '../../decisions/stored-table.ts';
import type { CellColumn, CellTable, CellType } from '../../ledger/driver.ts';
import type { OwnedRow, RecordTable, Stamp, TablePlace } from '../../ledger/record-table.ts';
import { closeVersionsOf, type CloseVersions } from '../../records/close-versions.ts';
import {
  keyedColumns,
  keyedRow,
  markRows,
  storedColumns,
  storedRow,
  type KeyedCells,
  type StoredCells,
} from '../../records/mark-rows.ts';
import { newestRows, type NewestRow } from '../../records/newest-rows.ts';
import { binaryType, canonicalKey } from '../column-types.ts';
import { rowOwn, versionsName } from '../../records/own-names.ts';
import { quotedTable, tableName } from './names.ts';

export function openRecordTable(place: TablePlace): RecordTable {
  const { connector, table } = place;
  const name = quotedTable(connector, table.entity);
  const versions = quoted(versionsName(tableName(connector, table.entity)));
  const close = closeVersionsOf(name, versions, place);
  return {
    ...findAndWrite(name, place, close),
    ...findRows(name, table),
    ...markRows(name, versions, place, close),
  };
}

/** The cost of every record of a page: a search for its key, and a write where it is new or changed. */
function findAndWrite(
  name: string,
  place: TablePlace,
  close: CloseVersions,
): Pick<RecordTable, 'find' | 'write'> {
  const found = `SELECT ${storedColumns.map((column) => `t.${column}`).join(', ')}, k.n
    FROM unnest(:keys::bytea[]) WITH ORDINALITY AS k(key, n) JOIN ${name} AS t ON t._key = k.key`;
  const inserting = insertOf(name, place.table);
  const updating = updateOf(name, place);
  return {
    find: async (tx, records) => {
      const keys = encodeArray(
        'bytea',
        records.map(({ keyText }) => textHash(keyText)),
      );
      const rows = await postgresTx(tx).arrays(found, { keys });
      return new Map(
        (rows as StoredCells[]).map((row) => [records[(row[6] ?? 0) - 1]?.keyText ?? '', storedRow(row)]),
      );
    },
    write: async (tx, rows, stamp) => {
      if (rows.length === 0) return;
      const all = newestRows(rows, await stamp.takeSeqs(rows.length));
      const isNew = (one: NewestRow): boolean => one.owner !== undefined;
      const changing = all.filter((one) => !isNew(one));
      inserting(tx, all.filter(isNew), stamp);
      close(
        tx,
        changing.map(({ row, seq, record: { hash } }) => ({ row, seq, hash })),
        stamp.now,
      );
      updating(tx, changing, stamp);
    },
  };
}

/** By owner and by key. */
function findRows(name: string, table: EntityTable): Pick<RecordTable, 'liveRows' | 'countLive' | 'rowsOf'> {
  return {
    liveRows: async (tx, owners, limit) =>
      await tx.rows<OwnedRow>(
        `SELECT few.row, few.owner, few.changed_at FROM (
           SELECT v.n, v.owner, live.row, live.changed_at FROM ${ofOwners}
           CROSS JOIN LATERAL (SELECT t._row AS row, t._changed_at AS changed_at FROM ${name} AS t WHERE ${isInOwner}
             ORDER BY t._row LIMIT :limit) AS live
           LIMIT :limit) AS few
         ORDER BY few.n, few.row`,
        { v: owners, limit },
      ),
    countLive: async (tx, owners, most) => {
      const counted = await tx.rows<{ readonly owner: number; readonly live: number }>(
        `SELECT v.owner, (SELECT count(*) FROM (SELECT 1 FROM ${name} AS t WHERE ${isInOwner} LIMIT :most) AS live) AS live
         FROM ${ofOwners}`,
        { v: owners, most },
      );
      return new Map(counted.flatMap(({ owner, live }) => (live > 0 ? [[owner, live]] : [])));
    },
    rowsOf: async (tx, keyTexts) => {
      const known = keyTexts.flatMap((text) => {
        const canonical = canonicalKey(table, text);
        return canonical === null ? [] : [{ text, key: textHash(canonical) }];
      });
      if (known.length === 0) return new Map();
      const found = await tx.rows<KeyedCells & { readonly n: number }>(
        `SELECT k.n, ${keyedColumns(table)} FROM {k: key bytea, n} JOIN ${name} AS t ON t._key = k.key`,
        { k: known },
      );
      return new Map(found.map((cells) => [known[cells.n - 1]?.text ?? '', keyedRow(cells, table)]));
    },
  };
}

/**
 * Through the index on the owner, one partition after the other: what is LATERAL can be looked up in no other order,
 * and as soon as there are enough rows it stops. Sorted before its limit, it would read the rows of all of them
 * wherever the server has no statistics yet.
 */
const ofOwners = '{v: owner bigint, after bigint, n}';
const isInOwner = 't._partition = v.owner AND t._row > v.after AND t._deleted_at IS NULL';

type Writing = (tx: Tx, rows: readonly NewestRow[], stamp: Stamp) => void;

/** The keys are new, and no other process may add any. */
function insertOf(name: string, table: EntityTable): Writing {
  const put = rowsInto(name, [keyColumn, ...rowOwn, ...table.columns]);
  return (tx, rows, { now, run }) => {
    if (rows.length > 0) put(tx, cellsOf(rows, now, run));
  };
}

function* cellsOf(
  rows: readonly NewestRow[],
  now: Instant,
  run: string,
): Generator<readonly BinaryValue[], void> {
  for (const { row, record, seq, owner = null } of rows) {
    const { keyText, extra, hash, volatileHash, values } = record;
    yield [textHash(keyText), row, extra, now, now, run, seq, hash, volatileHash, null, owner, ...values];
  }
}

/** Key columns are not set: their values are the same. Undeclared columns lose their old value. */
function updateOf(name: string, { table, stored }: TablePlace): Writing {
  const columns: readonly (ArrayOf<NewestRow> & { readonly name: string })[] = [
    { name: '_row', type: 'bigint', of: ({ row }) => row },
    { name: '_extra', type: 'json', of: ({ record }) => record.extra },
    { name: '_seq', type: 'bigint', of: ({ seq }) => seq },
    { name: '_hash', type: 'text', of: ({ record }) => record.hash },
    { name: '_volatile_hash', type: 'text', of: ({ record }) => record.volatileHash },
    ...table.columns.flatMap((column, index) =>
      table.key.includes(column.name)
        ? []
        : [
            {
              name: quoted(column.name),
              type: binaryType[column.type],
              of: ({ record }: NewestRow) => record.values[index] ?? null,
            },
          ],
    ),
  ];
  const sets = [
    ...columns.flatMap((column, index) => (index === 0 ? [] : [`${column.name} = v.c${index}`])),
    ...columnsMissingIn(stored, table.columns).map((column) => `${quoted(column.name)} = NULL`),
  ];
  const arrays = fromArrays(columns);
  const sql = `UPDATE ${name} AS t
    SET ${sets.join(', ')}, _changed_at = :now::timestamptz, _run_id = :run, _deleted_at = NULL
    FROM ${arrays.sql} WHERE t._row = v.c0`;
  return (tx, rows, { now, run }) => {
    if (rows.length > 0) tx.put(sql, { ...arrays.valuesOf(rows), now, run });
  };
}

/** A column of rows that a statement is given as an array. */
interface ArrayOf<Row> {
  readonly type: BinaryType;
  readonly of: (row: Row) => BinaryValue;
}

/** Rows as the table `v`, whose columns are `c0`, `c1` and so on. */
export function fromArrays<Row>(columns: readonly ArrayOf<Row>[]) {
  const [arrays, names] = [columns.map(({ type }, n) => `:c${n}::${type}[]`), columns.map((_, n) => `c${n}`)];
  return {
    sql: `unnest(${arrays.join(', ')}) AS v(${names.join(', ')})`,
    valuesOf: (rows: readonly Row[]): Readonly<Record<string, Buffer>> =>
      Object.fromEntries(columns.map(({ type, of }, n) => [`c${n}`, encodeArray(type, rows.map(of))])),
  };
}

const cellTypes: Readonly<Record<CellType, BinaryType>> = {
  ...binaryType,
  time: 'timestamptz',
  flag: 'integer',
  bytes: 'bytea',
};

/** By which rows of records are found. */
export const keyColumn = { name: '_key', type: 'bytes' } as const;

/** Puts rows straight into a table, with cells in the order of the columns. */
function rowsInto(
  name: string,
  columns: readonly CellColumn[],
): (tx: Tx, rows: Iterable<readonly BinaryValue[]>) => void {
  const names = columns.map((column) => quoted(column.name));
  const types = columns.map(({ type }) => cellTypes[type]);
  const copy = `COPY ${name} (${names.join(', ')}) FROM STDIN (FORMAT binary)`;
  return (tx, rows) => postgresTx(tx).put(copy, {}, encodeRows(types, rows));
}

/** `RecordTables.insertRows`. */
export async function insertRows(
  tx: Tx,
  { name, columns, key }: CellTable,
  given: readonly Cells[],
): Promise<void> {
  // `as`: as the columns say.
  const rows = given as readonly (readonly BinaryValue[])[];
  if (key === null) {
    rowsInto(quoted(name), columns)(tx, rows);
    return;
  }
  const indexes = key.map((part) => columns.findIndex((column) => column.name === part));
  const keyOf = (cells: Cells): Buffer =>
    textHash(keyTextOf(indexes.map((index) => (cells[index] ?? null) as ColumnValue)));
  rowsInto(quoted(name), [keyColumn, ...columns])(
    tx,
    rows.map((cells) => [keyOf(cells), ...cells]),
  );
}
