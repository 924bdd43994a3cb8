import { SyncError } from '../../../core/errors.ts';
import type { Column, FieldType } from '../../../core/records.ts';
import type { TablePlace } from '../../ledger/record-table.ts';
import { cellOf, type Tx } from '../../../sql/database.ts';

/* What a table of PostgreSQL holds at most, in pages of 8 KiB: https://www.postgresql.org/docs/current/limits.html */

const mostColumns = 1_600;
const mostRowBytes = 8_160;
/** `_row` and `ownColumns` of record-tables.ts. */
const ownColumnCount = 11;
/** `_valid_from` and `_valid_seq`, of rows with versions. */
const versionColumnCount = 2;
/** Of all of them at their widest, with what aligns them. */
const ownBytes = 232;
const tupleHeaderBytes = 23;
/** A long text or document leaves a pointer of 18 bytes in the row. */
const pointerBytes = 18;
const widths: Readonly<Record<FieldType, number>> = {
  string: pointerBytes,
  integer: 8,
  number: 8,
  boolean: 1,
  object: pointerBytes,
  array: pointerBytes,
  any: pointerBytes,
};

/** How many columns the table has had; dropped ones count too. Zero where there is none. */
export async function usedColumns(tx: Tx, table: string): Promise<number> {
  const sql =
    'SELECT count(*) FROM pg_catalog.pg_attribute WHERE attrelid = to_regclass(:table) AND attnum > 0';
  return (await cellOf<number>(tx, sql, { table })) ?? 0;
}

/** As many of the columns as the table has room for, from the first on. `used`: as `usedColumns` gives it. */
export function columnsThatFit(
  stored: readonly Column[],
  added: readonly Column[],
  used: number,
): readonly Column[] {
  let fitting = added;
  while (fitting.length > 0 && problemOf([...stored, ...fitting], totalOf(used, fitting)) !== null) {
    fitting = fitting.slice(0, -1);
  }
  return fitting;
}

/**
 * Throws `SyncError` SINK_INCOMPATIBLE where the table has no room for these columns, or a row whose columns all hold
 * something would not fit. The server notices the first when it gets the statement, and the second only with such a
 * row.
 */
export function checkRoom(
  { connector, table: { entity }, stored, versions }: TablePlace,
  added: readonly Column[],
  used: number,
): void {
  const more = versions?.isNew === true ? versionColumnCount : 0;
  const problem = problemOf([...stored, ...added], totalOf(used, added) + more);
  if (problem === null) return;
  throw new SyncError(
    `PostgreSQL has no room for the table of ${connector}/${entity}: ${problem}. ` +
      'Declare fewer fields in its definition: fields that are not declared are kept in _extra.',
    { code: 'SINK_INCOMPATIBLE', recovery: 'stop', context: { connector, entity } },
  );
}

function totalOf(used: number, added: readonly Column[]): number {
  return (used === 0 ? ownColumnCount : used) + added.length;
}

function problemOf(columns: readonly Column[], total: number): string | null {
  if (total > mostColumns) {
    const dropped = total - ownColumnCount - columns.length;
    const ofThem = [
      `${columns.length} for fields`,
      `${ownColumnCount} of the program`,
      ...(dropped > 0 ? [`${dropped} dropped or added by others`] : []),
    ];
    return `it would have ${total} columns (${ofThem.join(', ')}), and a table has ${mostColumns} at most`;
  }
  const bytes = leastBytes(columns, total);
  return bytes > mostRowBytes
    ? `a row whose ${columns.length} fields are all there would take ${bytes} bytes even with every long value stored apart, and a row has ${mostRowBytes} at most`
    : null;
}

/** Numbers begin at multiples of 8. */
function leastBytes(columns: readonly Column[], total: number): number {
  const begin = aligned(tupleHeaderBytes + Math.ceil(total / 8)) + ownBytes;
  return columns.reduce((at, { type }) => (widths[type] === 8 ? aligned(at) : at) + widths[type], begin);
}

function aligned(bytes: number): number {
  return Math.ceil(bytes / 8) * 8;
}
