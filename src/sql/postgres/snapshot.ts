import { firstRows, nextRows } from '../batch-size.ts';
import { cellOf, type Cells, type Snapshot } from '../database.ts';
import type { Connections } from './connections.ts';
import { postgresTx, txOn } from './session.ts';
import { readSettingsIn } from './transaction-settings.ts';
import { openEnding } from './without-timeout.ts';

interface SnapshotOptions {
  readonly connect: Connections['connect'];
  readonly schema: string;
  readonly explain: (error: unknown) => unknown;
  readonly signal: AbortSignal | undefined;
  readonly delay: (() => Promise<void>) | undefined;
}

/** Rows come by the index that has their order, where sorting a large table first would take as much space again. */
const settings = `SET LOCAL cursor_tuple_fraction = 0.0001;
  SET LOCAL statement_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0`;

/**
 * The state that the server has now, over a separate connection. Writers continue; the server cleans up nothing newer
 * until it is disposed.
 */
export async function openPostgresSnapshot({
  connect,
  schema,
  explain,
  signal,
  delay,
}: SnapshotOptions): Promise<Snapshot> {
  const { client, server, end } = await openEnding(connect, signal);
  const ask: Snapshot['read'] = async (work) => {
    try {
      signal?.throwIfAborted();
      return await work(txOn(client, undefined, delay));
    } catch (error) {
      signal?.throwIfAborted();
      throw explain(error);
    }
  };
  try {
    await ask(async (tx) => {
      const begin = `BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; ${readSettingsIn(schema)}; ${settings}`;
      await client.query(begin);
      // The state is that of the first reading.
      server.pid = (await cellOf<number>(tx, 'SELECT pg_backend_pid()')) ?? 0;
    });
  } catch (error) {
    await end();
    throw error;
  }
  return { read: ask, batches: cursorBatches(ask), [Symbol.asyncDispose]: end };
}

/**
 * Statements side by side are each read through a cursor with a unique name, which is closed when its reader stops
 * early too.
 */
function cursorBatches(ask: Snapshot['read']): Snapshot['batches'] {
  let cursors = 0;
  return async function* (sql, values): AsyncGenerator<readonly Cells[]> {
    const cursor = `reading_${(cursors += 1)}`;
    await ask(async (tx) => await tx.run(`DECLARE ${cursor} NO SCROLL CURSOR FOR ${sql}`, values));
    let isOpen = true;
    try {
      for (let count = firstRows; ;) {
        const limit = count;
        const rows = await ask(async (tx) => await postgresTx(tx).arrays(`FETCH ${limit} FROM ${cursor}`));
        if (rows.length > 0) yield rows;
        if (rows.length < limit) return;
        count = nextRows(rows);
      }
    } catch (error) {
      isOpen = false;
      throw error;
    } finally {
      if (isOpen) await ask(async (tx) => await tx.run(`CLOSE ${cursor}`));
    }
  };
}
