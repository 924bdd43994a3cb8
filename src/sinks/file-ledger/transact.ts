import { instant } from '../../core/clock.ts';
import type { RunId } from '../../core/names.ts';
import { fencedError, overtakenError } from '../acquire-errors.ts';
import type { Lease } from '../lease.ts';
import type { Commit, HeldConnector, Ledger } from './ledger.ts';
import type { RecordStore, WriteStamp } from './record-store.ts';
import { toSinkError, whenUnlocked } from '../sqlite-next/sink-error.ts';
import { isBusy } from '../../sql/sqlite/sqlite-error.ts';

/** One IMMEDIATE transaction with the record store: both keep everything or nothing. One that reads first and writes later would fail where another wrote in between. */
export async function inTransaction<Result>(
  ledger: Ledger,
  run: RunId,
  work: (stamp: WriteStamp) => Result,
): Promise<Result> {
  const { store, sequence, clock } = ledger;
  const withStamp = (): Result => {
    sequence.begin();
    const done = work({ run, now: instant(clock.now()), nextSeq: sequence.next });
    sequence.save();
    store.flush();
    return done;
  };
  return await immediately(ledger, withStamp, store);
}

/** One IMMEDIATE transaction of the ledger alone, beside whatever run: no record and no change number is touched. */
export async function inLedger<Result>(ledger: Ledger, work: () => Result): Promise<Result> {
  return await immediately(ledger, work, null);
}

/** Waits for the write lock only in front of the transaction: once begun, it is never tried again. */
async function immediately<Result>(
  ledger: Ledger,
  work: () => Result,
  store: RecordStore | null,
): Promise<Result> {
  return await whenUnlocked(ledger, () => {
    let hasBegun = false;
    try {
      const result = ledger.db
        .transaction(() => {
          hasBegun = true;
          ledger.checkPlace();
          return work();
        })
        .immediate();
      store?.settle();
      return result;
    } catch (error) {
      if (!hasBegun && isBusy(error)) throw error;
      store?.discard();
      throw toSinkError(error, ledger.file);
    }
  });
}

/** `inRun` for what a lease holds. */
export type InLease = <Result>(lease: Lease, run: RunId, work: (commit: Commit) => Result) => Promise<Result>;

/** `inTransaction` for a lease's holder. Throws FENCED when another holder has overtaken it, or when `run` is not the lease's run. */
export async function inRun<Result>(
  ledger: Ledger,
  held: HeldConnector,
  run: RunId,
  work: (commit: Commit) => Result,
): Promise<Result> {
  const current = held.run;
  if (current === null || current.run !== run) {
    throw fencedError(held, `run ${run} is not the one this lease is in (${current?.run ?? 'none'})`);
  }
  try {
    return await inTransaction(ledger, run, (stamp) => {
      checkEpoch(ledger, held);
      return work({ ledger, held, current, stamp });
    });
  } catch (error) {
    current.seen.forget();
    throw error;
  }
}

export function checkEpoch(ledger: Ledger, held: HeldConnector): void {
  const epoch = ledger.connectors.epoch(held.connector);
  if (epoch !== held.epoch) throw overtakenError(held);
}
