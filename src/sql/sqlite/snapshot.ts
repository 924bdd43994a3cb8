import { firstRows, lengthOf, wantedLength } from '../batch-size.ts';
import type { Cells, Snapshot } from '../database.ts';
import { explained } from '../explained.ts';
import { inTx } from './in-tx.ts';
import type { Connection } from './open-sqlite.ts';
import { statementsOn } from './sqlite-tx.ts';

interface SnapshotOptions {
  /** Only this snapshot uses it, and closes it. */
  readonly db: Connection;
  readonly explain: (error: unknown) => unknown;
  readonly delay: (() => Promise<void>) | undefined;
  readonly signal: AbortSignal | undefined;
}

/** The state that the file has now. Writers continue, but cannot fold their log into the file until it is disposed. */
export function openSqliteSnapshot({ db, explain, delay, signal }: SnapshotOptions): Snapshot {
  const statements = statementsOn(db);
  /** Statements that are being stepped through: SQLite closes no connection below them. */
  const open = new Set<Iterator<Cells>>();
  const ask = async <Result>(work: () => Promise<Result>): Promise<Result> =>
    await explained(explain, async () => {
      signal?.throwIfAborted();
      return await work();
    });
  try {
    db.exec('BEGIN');
    // The state is that of the first reading.
    db.prepare('SELECT 1 FROM sqlite_schema LIMIT 1').all();
  } catch (error) {
    db.close();
    throw error;
  }
  return {
    read: async (work) => await ask(async () => await inTx(statements, work, delay)),
    batches: async function* (sql, values = {}) {
      const rows = await ask(async () => statements.iterate(sql, values));
      open.add(rows);
      try {
        for (;;) {
          const batch = await ask(async () => {
            await delay?.();
            return nextBatch(rows);
          });
          if (batch.length > 0) yield batch;
          else return;
        }
      } finally {
        open.delete(rows);
        rows.return?.();
      }
    },
    [Symbol.asyncDispose]: async () => {
      for (const rows of open) rows.return?.();
      db.close();
    },
  };
}

/** A batch ends with the row that reaches its length. Empty behind the last row. */
function nextBatch(rows: Iterator<Cells>): readonly Cells[] {
  const batch: Cells[] = [];
  for (let length = 0; batch.length < firstRows && length < wantedLength;) {
    const { value, done } = rows.next();
    if (done === true) break;
    batch.push(value);
    length += lengthOf(value);
  }
  return batch;
}
