import type pg from 'pg';
import { keepalives } from '../../sinks/postgres/connections.ts';
import type { Server } from '../../sinks/postgres/server.ts';
import { settingSql, txOn, type Session, type Tx } from '../../sinks/postgres/session.ts';

/**
 * Statements go through whole tables, so they have no time limit; a lock on a table keeps everybody from it, so it is waited for a moment only. What the
 * other side hears nothing of any more ends: its settings notice a dead client, and an idle one after an hour.
 */
const settings = {
  search_path: '',
  TimeZone: 'UTC',
  DateStyle: 'ISO',
  jit: 'off',
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

export async function openTransaction(server: Server, kind: 'write' | 'read'): Promise<OwnTransaction> {
  const client = await server.connect();
  // A connection that breaks is told of by the statement that it breaks.
  client.on('error', () => undefined);
  try {
    return await begun(client, kind);
  } catch (error) {
    await client.end();
    throw error;
  }
}

async function begun(client: pg.Client, kind: 'write' | 'read'): Promise<OwnTransaction> {
  const tx = txOn(client);
  // Each statement of a writer must see what was committed while it waited.
  tx.put(
    `BEGIN ISOLATION LEVEL ${kind === 'write' ? 'READ COMMITTED READ WRITE' : 'REPEATABLE READ READ ONLY'}`,
  );
  tx.put(settingSql(settings, 'transaction'));
  await tx.sent();
  return {
    tx,
    [Symbol.asyncDispose]: async () => {
      tx.close();
      await client.end();
    },
  };
}

/** Runs `work` in one state of the server, however long it takes. Rejects with the signal's reason. */
export async function inOneState<Result>(
  server: Server,
  signal: AbortSignal,
  work: (tx: Tx) => Promise<Result>,
): Promise<Result> {
  signal.throwIfAborted();
  await using transaction = await openTransaction(server, 'read');
  const onAbort = (): void => void transaction[Symbol.asyncDispose]();
  signal.addEventListener('abort', onAbort, { once: true });
  try {
    return await work(transaction.tx);
  } catch (error) {
    signal.throwIfAborted();
    throw error;
  } finally {
    signal.removeEventListener('abort', onAbort);
  }
}
