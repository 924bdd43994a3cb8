import type pg from 'pg';
import { slept, systemClock } from '../../core/clock.ts';
import type { Connections } from './connections.ts';
import { codeOf } from './postgres-error.ts';
import type { Session } from './session.ts';

interface LongTransaction {
  /** In a transaction. */
  readonly client: pg.ClientBase;
  /** Session on the connection. */
  readonly session: Session;
  /** Callback of `Connections.withClient`. */
  readonly heard: () => void;
  readonly connect: Connections['connect'];
  readonly signal: AbortSignal | undefined;
}

/** Shorter than the deadline of a connection. */
const heardMs = 30_000;
const cancelMs = 500;
/** query_canceled */
const cancelled = '57014';

/**
 * Runs `work`, whose statements scan whole tables, without their timeout. Once the signal is aborted, the server
 * cancels the running statement, and the signal's reason is thrown. If the signal is aborted before, `work` keeps the
 * timeout, so that the end of an interrupted task is still stored.
 */
export async function withoutTimeout<Result>(
  { client, session, heard, connect, signal }: LongTransaction,
  work: () => Promise<Result>,
): Promise<Result> {
  if (signal?.aborted === true) return await work();
  await session.sent();
  const { rows } = await client.query<{ pid: number }>(
    `SELECT set_config('statement_timeout', '0', true), pg_backend_pid() AS pid`,
  );
  const over = new AbortController();
  let isCancelled = false;
  let cancelling = Promise.resolve();
  const onAbort = (): void => {
    isCancelled = true;
    cancelling = cancelUntil(over.signal, connect, rows[0]?.pid ?? 0);
  };
  signal?.addEventListener('abort', onAbort, { once: true });
  // A running statement sends nothing. Keepalives show that its connection is lost.
  const waiting = setInterval(heard, heardMs).unref();
  try {
    const result = await work();
    await session.sent();
    return result;
  } catch (error) {
    throw isCancelled && codeOf(error) === cancelled ? signal?.reason : error;
  } finally {
    clearInterval(waiting);
    signal?.removeEventListener('abort', onAbort);
    over.abort();
    await cancelling;
  }
}

const once = AbortSignal.abort();

/**
 * A separate connection that ends once the signal is aborted: waiting queries get no answer, and fail. `server`: the
 * process that is cancelled then, once it is known; the server would notice only when it has the answer.
 */
export async function openEnding(connect: Connections['connect'], signal: AbortSignal | undefined) {
  signal?.throwIfAborted();
  const client = await connect();
  const server = { pid: 0 };
  let ended: Promise<void> | null = null;
  const end = async (): Promise<void> => {
    signal?.removeEventListener('abort', onAbort);
    ended ??= client.end();
    await ended;
  };
  const onAbort = (): void => {
    const ending = end().catch(() => undefined);
    ended = server.pid === 0 ? ending : ending.then(async () => await cancelUntil(once, connect, server.pid));
  };
  signal?.addEventListener('abort', onAbort, { once: true });
  return { client, server, end };
}

/**
 * Cancels the statements of a server process repeatedly until `over`, because between two statements there is nothing
 * to cancel.
 */
async function cancelUntil(over: AbortSignal, connect: Connections['connect'], pid: number): Promise<void> {
  try {
    const client = await connect();
    try {
      do await client.query('SELECT pg_cancel_backend($1)', [pid]);
      while (await slept(systemClock, cancelMs, over));
    } finally {
      await client.end();
    }
  } catch {
    // Out of reach, it cannot be cancelled: the transaction ends by itself or with its connection.
  }
}
