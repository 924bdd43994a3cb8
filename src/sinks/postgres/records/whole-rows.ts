import type { ConnectorName } from '../../../core/names.ts';
import { keyTextOf } from '../../../core/records.ts';
import type { BinaryValue } from '../../../sql/postgres/encode-binary.ts';
import type { PostgresTx as Tx } from '../../../sql/postgres/session.ts';
import { binaryType, columnValue } from '../column-types.ts';
import { quoted } from '../../../sql/quoted.ts';
import { textHash } from '../../../sql/text-hash.ts';
import type { CopiedRecord, CopiedTable } from '../../copies.ts';
import { movedNumber } from '../../copies/facts.ts';
import { onePageOf } from '../../ledger/copies/one-page.ts';
import { copiedRecord, wholeColumns, type WholeRow } from '../../ledger/copies/whole-columns.ts';
import { tableAt } from './names.ts';
import { rowsInto } from './open-record-table.ts';

/** `RecordTables.readWhole`. */
export async function readWhole(
  tx: Tx,
  at: string,
  connector: ConnectorName,
  table: CopiedTable,
  { after, limit }: { readonly after: number; readonly limit: number },
): Promise<readonly CopiedRecord[]> {
  const rows = await tx.arrays(selectRows(at, connector, table), { after, limit });
  return (rows as WholeRow[]).map((cells) => copiedRecord(cells, columnValue));
}

/** `RecordTables.writeWhole`. */
export function writeWhole(
  tx: Tx,
  at: string,
  connector: ConnectorName,
  table: CopiedTable,
  { rows, shift }: { readonly rows: readonly CopiedRecord[]; readonly shift: number },
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

function selectRows(at: string, connector: ConnectorName, { entity, stored }: CopiedTable): string {
  const names = wholeColumns({ stored });
  const sql = `SELECT ${names.join(', ')} FROM ${tableAt(at, connector, entity)}
    WHERE _row > :after ORDER BY _row LIMIT :limit`;
  const long = stored.flatMap(({ name, type }) => {
    const column = quoted(name);
    if (binaryType[type] === 'json') return [`${column}::text`];
    return binaryType[type] === 'text' ? [column] : [];
  });
  return onePageOf(sql, { names, long: ['_extra::text', ...long], order: '_row' });
}
