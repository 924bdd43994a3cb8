import type { Instant } from '../../core/clock.ts';
import type { ConnectorName, OfEntity, RunId } from '../../core/names.ts';
import { keyTextOf, type ColumnValue, type EntityTable } from '../../core/records.ts';
import type { Tx } from '../../sql/database.ts';
import { quoted } from '../../sql/quoted.ts';
import { sqliteTx } from '../../sql/sqlite/sqlite-tx.ts';
import type { CopiedRecord } from '../copies.ts';
import { tableName } from '../decisions/stored-table.ts';
import { storedTable } from '../ledger/tables.ts';
import type { ChangeFile } from './change-file.ts';
import { lineWriters } from './line.ts';
import { isLost } from './lost-rows.ts';

export interface SeqRange {
  readonly from: number;
  readonly to: number;
}

type LinedRow = Pick<CopiedRecord, 'values' | 'extra' | 'seq' | 'changedAt' | 'run' | 'deletedAt'>;

/** Appends the line of a row as it is stored, with the columns of `table`. */
export function storedLines(table: EntityTable, changes: ChangeFile): (row: LinedRow) => void {
  const { columns, key } = table;
  const lines = lineWriters(table);
  const keyIndexes = key.map((name) => columns.findIndex((column) => column.name === name));
  return ({ values, extra, seq, changedAt, run, deletedAt }) => {
    const by = { now: changedAt, run };
    const keyText = (): string => keyTextOf(keyIndexes.map((index) => values[index] ?? null));
    const line =
      deletedAt === null ? lines.upsert({ values, extra }, seq, by) : lines.deletion(keyText(), seq, by);
    changes.append(line, seq);
  };
}

/** Appends the lines of rows whose newest change is in the range, in its order. */
export async function appendLinesOf(
  tx: Tx,
  connector: ConnectorName,
  table: EntityTable,
  { from, to }: SeqRange,
  changes: ChangeFile,
): Promise<void> {
  const statement = await sqliteTx(tx).prepared(
    `SELECT _seq, _changed_at, _run_id, _deleted_at, _extra, ${table.columns.map(({ name }) => quoted(name)).join(', ')}
     FROM ${quoted(tableName(connector, table.entity))} WHERE _seq BETWEEN ? AND ? AND NOT ${isLost} ORDER BY _seq`,
    { isRaw: true, isWide: true },
  );
  const append = storedLines(table, changes);
  for (const cells of statement.iterate(from, to) as Iterable<StoredCells>) {
    const [seq, changedAt, run, deletedAt, extra, ...values] = cells;
    append({ seq: Number(seq), changedAt, run, deletedAt, extra, values });
  }
}

type StoredCells = [
  seq: bigint,
  changedAt: Instant,
  run: RunId,
  deletedAt: Instant | null,
  extra: string | null,
  ...values: ColumnValue[],
];

/** The same of a table with all columns that it has had. */
export async function appendStoredLines(
  tx: Tx,
  of: OfEntity,
  range: SeqRange,
  changes: ChangeFile,
): Promise<void> {
  const table = await storedTable(tx, of);
  if (table !== undefined) await appendLinesOf(tx, of.connector, table, range, changes);
}
