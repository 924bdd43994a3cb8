import { writeJson } from '../../../core/json-text.ts';
import type { ConnectorName } from '../../../core/names.ts';
import { keyTextOf } from '../../../core/records.ts';
import type { CopiedConnector, CopiedRecord, CopiedTable } from '../../copies.ts';
import { factNames, movedNumber, type FactName, type FactRow } from '../../copies/facts.ts';
import type { Holder } from '../../lease.ts';
import { writeColumns } from '../../stored-json.ts';
import { transitions } from '../partitions/transitions.ts';
import type { BinaryValue } from '../../../sql/postgres/encode-binary.ts';
import { tableName } from '../../postgres/records/names.ts';
import { rowsInto } from '../../postgres/records/open-record-table.ts';
import { writePause } from '../runs/runs.ts';
import type { Tx } from '../../../sql/postgres/session.ts';
import { textHash } from '../../../sql/postgres/text.ts';
import { insertFacts } from './insert-facts.ts';

/**
 * Takes `count` numbers of a table's identity column in a row, and gives what is to be added to 1, 2, 3 to be the first of them. The table's lock keeps others
 * from taking one in between.
 */
export async function reserveNumbers(
  tx: Tx,
  at: string,
  of: 'runs' | 'partitions',
  count: number,
): Promise<number> {
  if (count === 0) return 0;
  const table = `${at}_sync_${of}`;
  const column = of === 'runs' ? 'number' : 'id';
  await tx.run(`LOCK TABLE ${table} IN SHARE ROW EXCLUSIVE MODE`);
  const reserved = await tx.first<{ last: number }>(
    `SELECT setval(pg_get_serial_sequence(:table, :column), nextval(pg_get_serial_sequence(:table, :column)) + :count) AS last`,
    { table, column, count },
  );
  return (reserved?.last ?? 0) - count;
}

/** Rows as they are, with their numbers. */
export function writeRecords(
  tx: Tx,
  at: string,
  {
    connector,
    table,
    rows,
    shift,
  }: {
    readonly connector: ConnectorName;
    readonly table: CopiedTable;
    readonly rows: readonly CopiedRecord[];
    readonly shift: number;
  },
): void {
  const key = table.key.map((name) => table.stored.findIndex((column) => column.name === name));
  const cells = rows.map((row) => cellsOf(row, key, shift));
  rowsInto(at, connector, { entity: table.entity, columns: table.stored })(tx, cells);
}

/** In the order that `rowsInto` takes. */
function cellsOf(record: CopiedRecord, key: readonly number[], shift: number): readonly BinaryValue[] {
  const { row, extra, firstSeenAt, changedAt, run, seq, hash, volatileHash, deletedAt, home, values } =
    record;
  const keyText = keyTextOf(key.map((index) => values[index] ?? null));
  return [
    row,
    textHash(keyText),
    extra,
    firstSeenAt,
    changedAt,
    run,
    seq,
    hash,
    volatileHash,
    deletedAt,
    movedNumber(home, shift),
    ...values,
  ];
}

const inserts = Object.fromEntries(
  factNames.map((of) => [
    of,
    insertFacts(of, of === 'downloads' ? [{ name: 'key_hash', of: ({ key }) => textHash(String(key)) }] : []),
  ]),
) as Readonly<Record<FactName, ReturnType<typeof insertFacts>>>;

export async function writeFacts(
  tx: Tx,
  at: string,
  {
    of,
    ...copied
  }: { readonly connector: ConnectorName; readonly of: FactName; readonly rows: readonly FactRow[] },
): Promise<void> {
  if (of === 'partitions') await transitions.copyIn(tx, at, copied);
  else await inserts[of](tx, at, copied);
}

/** What makes the connector one of this sink. Its change numbers go on above those of the source, and of an earlier connector of that name. */
export async function writeConnector(
  tx: Tx,
  at: string,
  {
    copied,
    holder,
    epoch,
    runs,
  }: {
    readonly copied: CopiedConnector;
    readonly holder: Holder;
    readonly epoch: number;
    readonly runs: number;
  },
): Promise<void> {
  const { connector, baseUrl, connectorId, definition, definitionHash, newestSeq, pause, tables } = copied;
  for (const { key, stored, declared, evolved, ...table } of tables) {
    await tx.run(
      `INSERT INTO ${at}_sync_tables
         (connector, entity, name, key, stored, declared, evolved, rows, deleted, last_row, as_of, taken_over, adopted_at, first_origin, table_id, described)
       VALUES (:connector, :entity, :name, :key, :stored, :declared, :evolved, :rows, :deleted, :lastRow, :asOf, :takenOver,
         :adoptedAt, :firstOrigin, :tableId, :described)`,
      {
        ...table,
        connector,
        name: tableName(connector, table.entity),
        key: JSON.stringify(key),
        stored: writeColumns(stored),
        declared: writeColumns(declared),
        evolved: writeColumns(evolved),
        takenOver: movedNumber(table.takenOver, runs),
        firstOrigin: movedNumber(table.firstOrigin, runs),
      },
    );
  }
  await tx.run(
    `INSERT INTO ${at}_sync_connectors (connector, base_url, connector_id, definition, definition_hash, epoch, holder)
     VALUES (:connector, :baseUrl, :connectorId, :definition, :definitionHash, :epoch, :holder)`,
    { connector, baseUrl, connectorId, definition, definitionHash, epoch, holder: writeJson(holder) },
  );
  if (pause !== null) await writePause(tx, at, connector, pause);
  await tx.run(
    `UPDATE ${at}_sync_counters SET seq = greatest(seq, :newestSeq::bigint) WHERE connector = :connector`,
    { connector, newestSeq },
  );
}
