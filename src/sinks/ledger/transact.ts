import { instant } from '../../core/clock.ts';
import type { RunId } from '../../core/names.ts';
import { fencedError } from '../acquire-errors.ts';
import type { Lease } from '../lease.ts';
import type { Commit, HeldConnector, Ledger } from './ledger.ts';
import type { TransactHow } from '../../sql/postgres/server.ts';
import type { Tx } from '../../sql/postgres/session.ts';
import { lostConnection } from '../../sql/postgres/postgres-error.ts';
import { timelineSql } from '../postgres/open-schema.ts';
import type { Stamp } from './stamp.ts';
import { keepNewest, newToken } from '../postgres/stored-token.ts';

/** `inRun` for what a lease holds. */
export type InLease = <Result>(
  lease: Lease,
  run: RunId,
  work: (commit: Commit) => Promise<Result>,
  how?: Pick<TransactHow, 'isLong'>,
) => Promise<Result>;

/**
 * Runs `work` in one transaction of the lease's holder: `SyncError` FENCED when another holder has overtaken it, or when `run` is not the
 * run that the lease is in. It may run `work` again (`Server.transact`), so that all it changes in memory is in `current.seen`, or
 * is set anew each time.
 */
export async function inRun<Result>(
  ledger: Ledger,
  held: HeldConnector,
  run: RunId,
  work: (commit: Commit) => Promise<Result>,
  how: Pick<TransactHow, 'isLong'> = {},
): Promise<Result> {
  return await held.inTurn(async () => {
    const current = held.run;
    if (current === null || current.run !== run) {
      throw fencedError(held, `run ${run} is not the one this lease is in (${current?.run ?? 'none'})`);
    }
    try {
      return await fencedTransaction(
        ledger,
        held,
        run,
        async (tx, stamp) => await work({ ledger, held, current, tx, stamp }),
        { ...how, restart: current.seen.forget },
      );
    } catch (error) {
      current.seen.forget();
      throw error;
    }
  });
}

/**
 * One transaction of the lease's holder, in a run or before one; only in its turn (`HeldConnector.inTurn`). The counter's row is the fence: a
 * takeover raises the epoch there and waits for a transaction that has locked it; the old holder then finds no row.
 */
export async function fencedTransaction<Result>(
  ledger: Ledger,
  held: HeldConnector,
  run: RunId,
  work: (tx: Tx, stamp: Stamp) => Promise<Result>,
  how: TransactHow = {},
): Promise<Result> {
  await held.checkLease();
  const { server, at, clock } = ledger;
  const { connector, epoch, tokens } = held;
  const done = await server.transact(async (tx) => {
    const token = newToken(tx, at, connector, tokens);
    const lock = async (): Promise<number> => {
      const found = await tx.first<{ seq: number; isSame: boolean; isWhole: boolean | null }>(
        `SELECT seq, ${timelineSql} = (SELECT timeline FROM ${at}_sync_meta WHERE one = 1) AS is_same,
           last_commit = ANY(:tokens::uuid[]) AS is_whole
         FROM ${at}_sync_counters WHERE connector = :connector AND epoch = :epoch FOR NO KEY UPDATE`,
        { connector, epoch, tokens: [...tokens] },
      );
      if (found === undefined) throw held.overtaken();
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
      `UPDATE ${at}_sync_counters SET seq = seq + :taken, last_commit = :token::uuid WHERE connector = :connector`,
      { connector, taken, token },
    );
    return result;
  }, how);
  keepNewest(tokens);
  return done;
}

/** One snapshot of what the lease's holder may see: `SyncError` FENCED when another has overtaken it. `work` runs again as in `transact`. */
export async function readFenced<Result>(
  { server, at }: Ledger,
  held: HeldConnector,
  work: (tx: Tx) => Promise<Result>,
): Promise<Result> {
  await held.checkLease();
  const { connector, epoch } = held;
  const readOnce = async (): Promise<Result> =>
    await server.read(async (tx) => {
      const found = await tx.first(
        `SELECT 1 AS one FROM ${at}_sync_counters WHERE connector = :connector AND epoch = :epoch`,
        { connector, epoch },
      );
      if (found === undefined) throw held.overtaken();
      return await work(tx);
    });
  return await server.whileAway(readOnce);
}
