import { instant } from '../../core/clock.ts';
import { SyncError } from '../../core/errors.ts';
import type { RunId } from '../../core/names.ts';
import type { CurrentRun, HeldConnector, Ledger } from './ledger.ts';
import type { WriteStamp } from './record-store.ts';
import { toSinkError } from './sink-error.ts';

/**
 * Runs `work` in one IMMEDIATE transaction together with the record store: both keep everything or nothing.
 * IMMEDIATE, because a transaction that reads first and writes later fails at once when another one wrote in between.
 */
export function inTransaction<Result>(
  ledger: Ledger,
  run: RunId,
  work: (stamp: WriteStamp) => Result,
): Result {
  const { db, store, sequence, clock } = ledger;
  const stamp: WriteStamp = { run, now: instant(clock.now()), nextSeq: sequence.next };
  try {
    const result = db
      .transaction(() => {
        sequence.begin();
        const done = work(stamp);
        sequence.save();
        store.flush();
        return done;
      })
      .immediate();
    store.settle();
    return result;
  } catch (error) {
    store.discard();
    throw toSinkError(error, ledger.file);
  }
}

/** One IMMEDIATE transaction of the ledger alone, beside whatever run: no record and no change number is touched. */
export function inLedger<Result>(ledger: Ledger, work: () => Result): Result {
  try {
    return ledger.db.transaction(work).immediate();
  } catch (error) {
    throw toSinkError(error, ledger.file);
  }
}

/**
 * `inTransaction` for the holder of a lease: `SyncError` FENCED when another holder has overtaken it, or when `run` is not the
 * run that the lease is in.
 */
export function inRun<Result>(
  ledger: Ledger,
  held: HeldConnector,
  run: RunId,
  work: (current: CurrentRun, stamp: WriteStamp) => Result,
): Result {
  const current = held.run;
  if (current === null || current.run !== run) {
    throw fenced(held, `run ${run} is not the one this lease is in (${current?.run ?? 'none'})`);
  }
  try {
    return inTransaction(ledger, run, (stamp) => {
      checkEpoch(ledger, held);
      return work(current, stamp);
    });
  } catch (error) {
    current.seen.forget();
    throw error;
  }
}

export function checkEpoch(ledger: Ledger, held: HeldConnector): void {
  const epoch = ledger.connectors.epoch(held.connector);
  if (epoch !== held.epoch) {
    throw fenced(held, `epoch ${held.epoch} was overtaken by ${epoch}`);
  }
}

function fenced(held: HeldConnector, why: string): SyncError {
  return new SyncError(
    `Writing as holder of connector "${held.connector}" was refused: ${why}. End this run; a newer one goes on.`,
    { code: 'FENCED', recovery: 'stop', context: { connector: held.connector, epoch: held.epoch } },
  );
}
