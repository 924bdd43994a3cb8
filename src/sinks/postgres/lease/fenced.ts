import { instant, type Clock } from '../../../core/clock.ts';
import type { SyncError } from '../../../core/errors.ts';
import type { ConnectorName } from '../../../core/names.ts';
import type { TransactHow } from '../../../sql/database.ts';
import { lostConnection } from '../../../sql/postgres/postgres-error.ts';
import type { Server } from '../../../sql/postgres/server.ts';
import type { Taken } from '../../ledger/driver.ts';
import { timelineSql } from '../open-schema.ts';
import { keepNewest, newToken, type LastTokens } from './lease-rows.ts';

/** A lease, as its holder's transactions need it. */
export interface Fence {
  readonly server: Server;
  readonly clock: Clock;
  readonly connector: ConnectorName;
  readonly epoch: number;
  /** Of its commits; changed only in its turn. */
  readonly tokens: LastTokens;
  /**
   * Throws `SyncError` FENCED once the lease has been given back or overtaken. One that another process may have taken,
   * because its renewal failed for too long, is renewed first.
   */
  readonly checkLease: () => Promise<void>;
  /** Why it may no longer write. */
  readonly overtaken: () => SyncError;
}

/**
 * One transaction of the lease's holder. The counter's row is the fence: a takeover raises the epoch there and waits
 * for a transaction that has locked it; the old holder then finds no row.
 */
export function fencedTransact(fence: Fence): Taken['transact'] {
  const { server, clock, connector, epoch, tokens } = fence;
  return async (run, work, how: TransactHow = {}) => {
    await fence.checkLease();
    const done = await server.transact(async (tx) => {
      const token = newToken(tx, connector, tokens);
      const lock = async (): Promise<number> => {
        const found = await tx.first<{ seq: number; isSame: boolean; isWhole: boolean | null }>(
          `SELECT seq, ${timelineSql} = (SELECT timeline FROM _sync_meta WHERE one = 1) AS is_same,
             last_commit = ANY(:tokens::uuid[]) AS is_whole
           FROM _sync_counters WHERE connector = :connector AND epoch = :epoch FOR NO KEY UPDATE`,
          { connector, epoch, tokens: [...tokens] },
        );
        if (found === undefined) throw fence.overtaken();
        // Behind a pooler no connection breaks when its server gives way to a standby, or is killed.
        if (!found.isSame || found.isWhole !== true) throw lostConnection('the server is another one');
        return found.seq;
      };
      let locked: Promise<number> | null = null;
      let taken = 0;
      const takeSeqs = async (count: number): Promise<number> => {
        locked ??= lock();
        const seq = await locked;
        const first = seq + taken + 1;
        taken += count;
        return first;
      };
      const result = await work(tx, { run, now: instant(clock.now()), takeSeqs });
      await takeSeqs(0);
      tx.put(
        `UPDATE _sync_counters SET seq = seq + :taken, last_commit = :token::uuid WHERE connector = :connector`,
        { connector, taken, token },
      );
      return result;
    }, how);
    keepNewest(tokens);
    return done;
  };
}

/** One snapshot of what the lease's holder may see. `work` runs again as in `transact`. */
export function fencedRead(fence: Fence): Taken['read'] {
  const { server, connector, epoch } = fence;
  return async (work) => {
    await fence.checkLease();
    return await server.whileAway(
      async () =>
        await server.read(async (tx) => {
          const found = await tx.first(
            `SELECT 1 AS one FROM _sync_counters WHERE connector = :connector AND epoch = :epoch`,
            { connector, epoch },
          );
          if (found === undefined) throw fence.overtaken();
          return await work(tx);
        }),
    );
  };
}
