import type { Instant } from '../../core/clock.ts';
import type { ConnectorName, RunId } from '../../core/names.ts';
import { keyTextOf, type ColumnValue, type EntityTable } from '../../core/records.ts';
import { firstRows, rowsOf } from '../../sql/batch-size.ts';
import type { Tx } from '../../sql/database.ts';
import { quoted } from '../../sql/quoted.ts';
import { sqliteTx } from '../../sql/sqlite/sqlite-tx.ts';
import { tableName } from '../decisions/stored-table.ts';
import { lineWriters } from './line.ts';

export interface StoredLines {
  readonly bytes: Buffer;
  readonly firstSeq: number;
  readonly lastSeq: number;
  /** How many rows to ask for next: rows may be large. */
  readonly nextLimit: number;
}

export interface ChangeRange {
  readonly after: number;
  readonly through?: number;
  /** Rows, at most. */
  readonly limit?: number;
}

/** The next lines of rows as they are stored, in the order of their newest changes; null where there are none. */
export async function storedLines(
  tx: Tx,
  connector: ConnectorName,
  table: EntityTable,
  { after, through = Number.MAX_SAFE_INTEGER, limit = firstRows }: ChangeRange,
): Promise<StoredLines | null> {
  const { columns, key } = table;
  const lines = lineWriters(table);
  const keyIndexes = key.map((name) => columns.findIndex((column) => column.name === name));
  const names = [
    '_seq, _changed_at, _run_id, _deleted_at, _extra',
    ...columns.map(({ name }) => quoted(name)),
  ];
  const statement = await sqliteTx(tx).prepared(
    `SELECT ${names.join(', ')} FROM ${quoted(tableName(connector, table.entity))}
     WHERE _seq > ? AND _seq <= ? ORDER BY _seq LIMIT ?`,
    { isRaw: true, isWide: true },
  );
  const rows = statement.all(after, through, limit) as readonly StoredCells[];
  const text = growingText();
  for (const [seq, now, run, deletedAt, extra, ...values] of rows) {
    const by = { now, run };
    const keyText = (): string => keyTextOf(keyIndexes.map((index) => values[index] ?? null));
    text.add(
      deletedAt === null
        ? lines.upsert({ values, extra }, Number(seq), by)
        : lines.deletion(keyText(), Number(seq), by),
    );
  }
  const [first] = rows;
  if (first === undefined) return null;
  const bytes = text.bytes();
  return {
    bytes,
    firstSeq: Number(first[0]),
    lastSeq: Number(rows.at(-1)?.[0]),
    nextLimit: rowsOf(rows.length, bytes.length),
  };
}

/** UTF-8 takes no more for a UTF-16 code unit. */
const mostBytesOfUnit = 3;

/** Lines as UTF-8. Each is encoded when it is added: as one text, their pieces cost twice as much. */
function growingText() {
  let buffer = Buffer.allocUnsafe(64 * 1024);
  let used = 0;
  return {
    add: (line: string): void => {
      const needed = used + mostBytesOfUnit * line.length;
      if (needed > buffer.length) {
        buffer = Buffer.concat([buffer.subarray(0, used)], Math.max(needed, 2 * buffer.length));
      }
      used += buffer.write(line, used);
    },
    bytes: () => buffer.subarray(0, used),
  };
}

type StoredCells = [
  seq: bigint,
  changedAt: Instant,
  run: RunId,
  deletedAt: Instant | null,
  extra: string | null,
  ...values: ColumnValue[],
];
