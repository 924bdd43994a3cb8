import type { RunId } from '../../core/names.ts';
import type { TransactHow } from '../../sql/database.ts';
import { fencedError } from '../acquire-errors.ts';
import type { Lease } from '../lease.ts';
import type { Commit, HeldConnector, Ledger } from './ledger.ts';

/** `inRun` for what a lease holds. */
export type InLease = <Result>(
  lease: Lease,
  run: RunId,
  work: (commit: Commit) => Promise<Result>,
  how?: Pick<TransactHow, 'isLong'>,
) => Promise<Result>;

/**
 * Runs `work` in one transaction of the lease's holder: `SyncError` FENCED when another holder has overtaken it, or when `run` is not the
 * run that the lease is in. It may run `work` again (`Database.transact`), so that all it changes in memory is in `current.seen`, or
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
      return await held.transact(run, async (tx, stamp) => await work({ ledger, held, current, tx, stamp }), {
        ...how,
        restart: current.seen.forget,
      });
    } catch (error) {
      current.seen.forget();
      throw error;
    }
  });
}
