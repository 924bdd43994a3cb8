import type { ConnectorName } from '../../core/names.ts';
import type { Column, ColumnValue } from '../../core/records.ts';
import { wantedLength } from '../../sql/batch-size.ts';
import type { Cells, Tx } from '../../sql/database.ts';
import { quoted } from '../../sql/quoted.ts';
import type { CellTable, RecordTables } from '../ledger/driver.ts';
import type { WholeTable } from '../ledger/tables.ts';
import { columnValue } from './mark-rows.ts';
import { rowOwn, versionedOwn, versionOwn, versionsName } from './own-names.ts';

/** A table of an entity's rows, or of their closed versions: the sink's own columns, then those of records. */
interface RowsTable extends CellTable {
  readonly stored: readonly Column[];
  /** The column that numbers its rows. */
  readonly number: '_row' | '_seq_to';
}

type Names = Pick<RecordTables, 'tableName'>;
type OfTable = Pick<WholeTable, 'entity' | 'key' | 'stored' | 'hasVersions'>;

export function rowsTable(records: Names, connector: ConnectorName, table: OfTable): RowsTable {
  const { entity, key, stored, hasVersions } = table;
  const columns = [...rowOwn, ...(hasVersions ? versionedOwn : []), ...stored];
  return { name: records.tableName(connector, entity), key, columns, stored, number: '_row' };
}

export function versionsTable(records: Names, connector: ConnectorName, table: OfTable): RowsTable {
  const { entity, stored } = table;
  const name = versionsName(records.tableName(connector, entity));
  return { name, key: null, columns: [...versionOwn, ...stored], stored, number: '_seq_to' };
}

export interface WholeRow {
  /** The row's number, or that of the change with which the version ended. */
  readonly number: number;
  readonly extra: string | null;
  readonly values: readonly ColumnValue[];
  /** In the order of the table's columns. */
  readonly cells: Cells;
}

/** Rows behind a number, in their order: until they fill a page, as a thousand large ones would not fit into memory. */
export async function readRows(
  tx: Tx,
  { name, columns, stored, number }: RowsTable,
  span: { readonly after: number; readonly limit: number },
): Promise<readonly WholeRow[]> {
  const cells = columns.map((_, index) => `c${index}`);
  const at = (column: string): number => columns.findIndex((one) => one.name === column);
  const order = `c${at(number)}`;
  const length = cells.map((cell) => `coalesce(octet_length(CAST(${cell} AS TEXT)), 0)`);
  const rows = await tx.rows<Readonly<Record<string, unknown>>>(
    `SELECT ${cells.join(', ')} FROM (
       SELECT *, sum(_length) OVER (ORDER BY ${order} ROWS UNBOUNDED PRECEDING) - _length AS _before FROM (
         SELECT *, ${length.join(' + ')} AS _length FROM (
           SELECT ${columns.map((column, index) => `${quoted(column.name)} AS c${index}`).join(', ')}
           FROM ${quoted(name)} WHERE ${number} > :after ORDER BY ${number} LIMIT :limit
         ) AS found) AS measured
     ) AS page WHERE _before < ${wantedLength} ORDER BY ${order}`,
    span,
  );
  return rows.map((row) => {
    const all = cells.map((cell) => columnValue(row[cell]));
    return {
      number: Number(all[at(number)]),
      // `as`: the column of this name holds texts.
      extra: all[at('_extra')] as string | null,
      values: all.slice(columns.length - stored.length),
      cells: all,
    };
  });
}

export interface ReplacedRow {
  readonly was: WholeRow;
  readonly now: Pick<WholeRow, 'values' | 'extra'> & { readonly hash: string };
}

/** Replaces rows, by their numbers. Nothing else about them changes, and no line is written. */
export async function replaceRows(
  tx: Tx,
  records: Pick<RecordTables, 'insertRows'>,
  table: RowsTable,
  rows: readonly ReplacedRow[],
): Promise<void> {
  if (rows.length === 0) return;
  const { name, columns, stored, number } = table;
  const names = columns.slice(0, columns.length - stored.length).map((column) => column.name);
  const numbers = rows.map(({ was }) => was.number);
  await tx.run(`DELETE FROM ${quoted(name)} WHERE ${number} IN {numbers bigint}`, { numbers });
  const cellsOf = ({ was, now: { values, extra, hash } }: ReplacedRow): Cells => {
    const changed: Readonly<Record<string, string | null>> = {
      _extra: extra,
      _hash: hash,
      _volatile_hash: null,
    };
    return [...names.map((one, index) => (one in changed ? changed[one] : was.cells[index])), ...values];
  };
  await records.insertRows(tx, table, rows.map(cellsOf));
}
