import { keepalives } from '../../sql/postgres/connections.ts';
import type { Server } from '../../sql/postgres/server.ts';
import { settingSql, txOn, type Session } from '../../sql/postgres/session.ts';
import { valueSettings } from '../../sql/postgres/transaction-settings.ts';

/**
 * Statements go through whole tables, so they have no time limit; a lock on a table keeps everybody from it, so it is
 * waited for a moment only. What the other side hears nothing of any more ends: its settings notice a dead client, and
 * an idle one after an hour.
 */
const settings = {
  ...valueSettings,
  statement_timeout: '0',
  lock_timeout: '5s',
  idle_in_transaction_session_timeout: '1h',
  synchronous_commit: 'on',
  ...keepalives,
};

/** A transaction on a connection of its own. Disposed without `COMMIT`, nothing of it is stored. */
export interface OwnTransaction extends AsyncDisposable {
  readonly tx: Session;
}

/** When the signal is aborted its connection ends, and so does what waits for an answer. */
export async function openTransaction(
  server: Server,
  kind: 'write' | 'read',
  signal: AbortSignal,
): Promise<OwnTransaction> {
  signal.throwIfAborted();
  const client = await server.connect();
  // A connection that breaks is told of by the statement that it breaks.
  client.on('error', () => undefined);
  const tx = txOn(client);
  const dispose = async (): Promise<void> => {
    signal.removeEventListener('abort', onAbort);
    tx.close();
    await client.end();
  };
  const onAbort = (): void => void dispose();
  signal.addEventListener('abort', onAbort, { once: true });
  try {
    // Each statement of a writer must see what was committed while it waited.
    tx.put(
      `BEGIN ISOLATION LEVEL ${kind === 'write' ? 'READ COMMITTED READ WRITE' : 'REPEATABLE READ READ ONLY'}`,
    );
    tx.put(settingSql(settings, 'transaction'));
    await tx.sent();
    return { tx, [Symbol.asyncDispose]: dispose };
  } catch (error) {
    await dispose();
    throw error;
  }
}
