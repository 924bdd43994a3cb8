import type { ConnectorName } from '../../../core/names.ts';
import type { ColumnValue } from '../../../core/records.ts';
import type { Tx } from '../../../sql/database.ts';
import { quoted } from '../../../sql/quoted.ts';
import { sqliteTx } from '../../../sql/sqlite/sqlite-tx.ts';
import type { CopiedRecord, CopiedTable } from '../../copies.ts';
import { movedNumber } from '../../copies/facts.ts';
import { onePage } from '../../copies/in-pages.ts';
import { tableName } from '../../decisions/stored-table.ts';
import { copiedRecord, wholeColumns, type WholeRow } from '../../ledger/copies/whole-columns.ts';

/** `RecordTables.readWhole`. */
export async function readWhole(
  tx: Tx,
  connector: ConnectorName,
  table: CopiedTable,
  { after, limit }: { readonly after: number; readonly limit: number },
): Promise<readonly CopiedRecord[]> {
  const statement = await sqliteTx(tx).prepared(
    `SELECT ${wholeColumns(table).join(', ')} FROM ${quoted(tableName(connector, table.entity))}
     WHERE _row > ? ORDER BY _row LIMIT ?`,
    { isRaw: true, isWide: true },
  );
  return onePage(copiedRecords(statement.iterate(after, limit) as Iterable<WholeRow>));
}

/** `RecordTables.writeWhole`. */
export async function writeWhole(
  tx: Tx,
  connector: ConnectorName,
  table: CopiedTable,
  { rows, shift }: { readonly rows: readonly CopiedRecord[]; readonly shift: number },
): Promise<void> {
  if (rows.length === 0) return;
  const columns = wholeColumns(table);
  const statement = await sqliteTx(tx).prepared(
    `INSERT INTO ${quoted(tableName(connector, table.entity))} (${columns.join(', ')})
     VALUES (${columns.map(() => '?').join(', ')})`,
  );
  for (const row of rows) statement.run(ownValues(row, shift), row.values);
}

function* copiedRecords(rows: Iterable<WholeRow>): Generator<CopiedRecord> {
  for (const row of rows) yield copiedRecord(row, (cell) => cell as ColumnValue);
}

function ownValues(record: CopiedRecord, shift: number): readonly ColumnValue[] {
  const { row, extra, firstSeenAt, changedAt, run, seq, hash, volatileHash, deletedAt, home } = record;
  return [
    row,
    extra,
    firstSeenAt,
    changedAt,
    run,
    seq,
    hash,
    volatileHash,
    deletedAt,
    movedNumber(home, shift),
  ];
}
