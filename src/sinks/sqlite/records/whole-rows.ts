import type { Instant } from '../../../core/clock.ts';
import type { ConnectorName, RunId } from '../../../core/names.ts';
import type { ColumnValue } from '../../../core/records.ts';
import type { Tx } from '../../../sql/database.ts';
import { quoted } from '../../../sql/quoted.ts';
import { sqliteTx } from '../../../sql/sqlite/sqlite-tx.ts';
import type { CopiedRecord, CopiedTable } from '../../copies.ts';
import { movedNumber } from '../../copies/facts.ts';
import { onePage } from '../../copies/in-pages.ts';
import { tableName } from '../../decisions/stored-table.ts';

/** `RecordTables.readWhole`. */
export async function readWhole(
  tx: Tx,
  connector: ConnectorName,
  table: CopiedTable,
  { after, limit }: { readonly after: number; readonly limit: number },
): Promise<readonly CopiedRecord[]> {
  const statement = await sqliteTx(tx).prepared(
    `SELECT ${columnsOf(table).join(', ')} FROM ${quoted(tableName(connector, table.entity))}
     WHERE _row > ? ORDER BY _row LIMIT ?`,
    { isRaw: true, isWide: true },
  );
  return onePage(copiedRecords(statement.iterate(after, limit) as Iterable<RawRow>));
}

/** `RecordTables.writeWhole`. */
export async function writeWhole(
  tx: Tx,
  connector: ConnectorName,
  table: CopiedTable,
  { rows, shift }: { readonly rows: readonly CopiedRecord[]; readonly shift: number },
): Promise<void> {
  if (rows.length === 0) return;
  const columns = columnsOf(table);
  const statement = await sqliteTx(tx).prepared(
    `INSERT INTO ${quoted(tableName(connector, table.entity))} (${columns.join(', ')})
     VALUES (${columns.map(() => '?').join(', ')})`,
  );
  for (const row of rows) statement.run(ownValues(row, shift), row.values);
}

const own =
  '_row, _extra, _first_seen_at, _changed_at, _run_id, _seq, _hash, _volatile_hash, _deleted_at, _partition'.split(
    ', ',
  );

function columnsOf({ stored }: CopiedTable): readonly string[] {
  return [...own, ...stored.map(({ name }) => quoted(name))];
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
