import { keyTextOf, type ColumnValue } from '../../../core/records.ts';
import type { Cells, Tx } from '../../../sql/database.ts';
import { encodeRows, type BinaryType, type BinaryValue } from '../../../sql/postgres/encode-binary.ts';
import { postgresTx } from '../../../sql/postgres/session.ts';
import { quoted } from '../../../sql/quoted.ts';
import { textHash } from '../../../sql/text-hash.ts';
import type { CellColumn, CellTable, CellType } from '../../ledger/driver.ts';
import { binaryType } from '../column-types.ts';

const cellTypes: Readonly<Record<CellType, BinaryType>> = {
  ...binaryType,
  time: 'timestamptz',
  flag: 'integer',
  bytes: 'bytea',
};

/** By which rows of records are found. */
export const keyColumn: CellColumn = { name: '_key', type: 'bytes' };

/** Puts rows straight into a table, cells in the order of the columns. */
export function rowsInto(
  name: string,
  columns: readonly CellColumn[],
): (tx: Tx, rows: Iterable<readonly BinaryValue[]>) => void {
  const names = columns.map((column) => quoted(column.name));
  const types = columns.map(({ type }) => cellTypes[type]);
  const copy = `COPY ${name} (${names.join(', ')}) FROM STDIN (FORMAT binary)`;
  return (tx, rows) => postgresTx(tx).put(copy, {}, encodeRows(types, rows));
}

/** `RecordTables.insertRows`. */
export function insertRows(tx: Tx, { name, columns, key }: CellTable, given: readonly Cells[]): void {
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
