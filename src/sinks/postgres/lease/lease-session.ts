import { keepalives } from '../../../sql/postgres/connections.ts';
import { failingOf } from '../../../sql/postgres/postgres-error.ts';
import { settingSql, txOn, type PostgresTx as Tx } from '../../../sql/postgres/session.ts';
import type { Server } from '../../../sql/postgres/server.ts';
import { openTurns } from '../../../sql/turns.ts';
import { readSettingsIn } from '../../../sql/postgres/transaction-settings.ts';

const ofSession = { ...keepalives, idle_session_timeout: '0' };
const deadlineMs = 10_000;
const keyOf = 'hashtextextended(:name, 0)';

/**
 * The connection that holds the locks of this process's leases. It ends with the process, and its locks are free at
 * once, long before the leases expire.
 */
export type LeaseSession = Awaited<ReturnType<typeof openLeaseSession>>;

/** The session of a process's leases: opened for the first use, and again for the first one after `onLost`. */
export function keepLeaseSession(server: Server, schema: string, onLost: () => void) {
  let session: Promise<LeaseSession> | null = null;
  return {
    current: async (): Promise<LeaseSession> => {
      const opening = (session ??= openLeaseSession(server, schema, () => {
        session = null;
        onLost();
      }));
      try {
        return await opening;
      } catch (error) {
        if (session === opening) session = null;
        throw error;
      }
    },
    end: async (): Promise<void> => {
      const opened = session;
      session = null;
      await (await opened?.catch(() => null))?.end();
    },
  };
}

/** `onLost` is called once, when the connection is lost or hangs, and not after `end`. */
async function openLeaseSession(server: Server, schema: string, onLost: () => void) {
  const client = await server.connect();
  let isOver = false;
  const end = async (): Promise<void> => {
    isOver = true;
    await client.end().catch(() => undefined);
  };
  const lose = (): void => {
    if (isOver) return;
    void end();
    onLost();
  };
  client.on('error', lose);
  client.on('end', lose);
  const tx = txOn(client);
  const ask: Tx['rows'] = async (sql, values) => {
    const timer = setTimeout(lose, deadlineMs);
    try {
      // A packet is a transaction, also without BEGIN.
      tx.put(readSettingsIn(schema));
      return await tx.rows(sql, values);
    } catch (error) {
      // Also where its server has become a standby: the next session is with another one.
      if (failingOf(error) === 'connection') lose();
      throw error;
    } finally {
      clearTimeout(timer);
    }
  };
  // Leases are taken, renewed and given back at the same time, but the client runs one statement after the other.
  const inOrder = openTurns().take;
  const rows: Tx['rows'] = async (sql, values) => await inOrder(async () => await ask(sql, values));
  try {
    const [own] = await rows<{ pid: number }>('SELECT pg_backend_pid() AS pid');
    // A pooler reports other numbers to its clients.
    const pid = own !== undefined && 'processID' in client && client.processID === own.pid ? own.pid : null;
    // The lock of a lost host is free again as soon as the server notices the loss.
    if (pid !== null) await client.query(settingSql(ofSession, 'session'));
    return {
      /** Each statement runs in a separate transaction. One that takes ten seconds ends the session. */
      rows,
      /**
       * The server's process for this connection; null where a pooler is between: its locks would be those of the next
       * client.
       */
      pid,
      /**
       * Never waits; false where another session has the lock, or a pooler is between. Locks that this one has it would
       * get again.
       */
      tryLock: async (name: string): Promise<boolean> => {
        if (pid === null) return false;
        const [found] = await rows<{ isLocked: boolean }>(
          `SELECT pg_try_advisory_lock(${keyOf}) AS is_locked`,
          { name },
        );
        return found?.isLocked === true;
      },
      unlock: async (name: string): Promise<void> =>
        void (await rows(`SELECT pg_advisory_unlock(${keyOf})`, { name })),
      end,
    };
  } catch (error) {
    await end();
    throw error;
  }
}
