import { keyTextOf, type Column } from '../../../core/records.ts';
import type { Tx } from '../../../sql/database.ts';
import { encodeRows, type BinaryType, type BinaryValue } from '../../../sql/postgres/encode-binary.ts';
import { postgresTx } from '../../../sql/postgres/session.ts';
import { quoted } from '../../../sql/quoted.ts';
import { textHash } from '../../../sql/text-hash.ts';
import type { CopiedRecord, CopiedTable, CopiedVersion } from '../../copies.ts';
import {
  versionCells,
  versionColumns,
  wholeCells,
  wholeColumnsOf,
  type OwnColumn,
} from '../../records/whole-rows.ts';
import { binaryType } from '../column-types.ts';

const ownTypes: Readonly<Record<OwnColumn | '_key', BinaryType>> = {
  _key: 'bytea',
  _row: 'bigint',
  _extra: 'json',
  _first_seen_at: 'timestamptz',
  _changed_at: 'timestamptz',
  _run_id: 'text',
  _seq: 'bigint',
  _hash: 'text',
  _volatile_hash: 'text',
  _deleted_at: 'timestamptz',
  _partition: 'bigint',
  _valid_from: 'timestamptz',
  _valid_to: 'timestamptz',
  _valid_seq: 'bigint',
  _seq_to: 'bigint',
};

/** Puts whole rows straight into a table; the cells of each: those of `own`, those of the columns. */
export function rowsInto(
  name: string,
  own: readonly (OwnColumn | '_key')[],
  columns: readonly Column[],
): (tx: Tx, rows: Iterable<readonly BinaryValue[]>) => void {
  const names = [...own, ...columns.map((column) => quoted(column.name))];
  const types: readonly BinaryType[] = [
    ...own.map((column) => ownTypes[column]),
    ...columns.map(({ type }) => binaryType[type]),
  ];
  const copy = `COPY ${name} (${names.join(', ')}) FROM STDIN (FORMAT binary)`;
  return (tx, rows) => postgresTx(tx).put(copy, {}, encodeRows(types, rows));
}

/** `RecordTables.writeWhole`. */
export function wholeRowsInto(
  tx: Tx,
  name: string,
  table: CopiedTable,
  rows: readonly CopiedRecord[],
  shift: number,
): void {
  const { key, stored } = table;
  const indexes = key.map((part) => stored.findIndex((column) => column.name === part));
  const cells = rows.map((row) => {
    const keyText = keyTextOf(indexes.map((index) => row.values[index] ?? null));
    return [textHash(keyText), ...wholeCells(row, table, shift), ...row.values];
  });
  rowsInto(name, ['_key', ...wholeColumnsOf(table)], stored)(tx, cells);
}

/** `RecordTables.writeVersions`. */
export function versionsInto(
  tx: Tx,
  name: string,
  stored: readonly Column[],
  versions: readonly CopiedVersion[],
): void {
  const cells = versions.map((version) => [...versionCells(version), ...version.values]);
  rowsInto(name, versionColumns, stored)(tx, cells);
}
