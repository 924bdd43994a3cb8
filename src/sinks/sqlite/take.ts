import { instant, type Clock } from '../../core/clock.ts';
import type { ConnectorName } from '../../core/names.ts';
import type { Tx } from '../../sql/database.ts';
import { explained } from '../../sql/explained.ts';
import { takeLock, type Lock } from '../../sql/sqlite/lock.ts';
import { openTurns } from '../../sql/turns.ts';
import type { SqliteDatabase } from '../../sql/sqlite/open-sqlite-database.ts';
import { ConnectorBusyError, overtakenError, releasedError } from '../acquire-errors.ts';
import { toSinkError } from './sink-error.ts';
import type { LedgerDriver, Taken } from '../ledger/driver.ts';
import { holderOf, storedEpoch } from '../ledger/connectors.ts';
import { noteCommit, takeSeqsOf } from './meta.ts';

interface LocksOptions {
  readonly db: SqliteDatabase;
  readonly file: string;
  readonly clock: Clock;
}

/** The connectors that this sink holds, each by the lock of a file beside its own. */
export function openLocks({ db, file, clock }: LocksOptions) {
  const releases = new Set<() => Promise<void>>();

  const lockOf = async (connector: ConnectorName): Promise<Lock> => {
    const lock = await explained(
      (error) => toSinkError(error, file),
      async () => takeLock(`${file}.${connector}.lock`),
    );
    if (lock !== null) return lock;
    throw new ConnectorBusyError(connector, await db.read(async (tx) => await holderOf(tx, connector)));
  };

  const takenBy = (lock: Lock, connector: ConnectorName, epoch: number): Taken => {
    const inTurn = openTurns().take;
    let isReleased = false;
    const checkHeld = async (tx: Tx): Promise<void> => {
      if ((await storedEpoch(tx, connector)) > epoch) throw overtakenError({ connector, epoch });
    };
    const release = async (): Promise<void> => {
      if (isReleased) return;
      isReleased = true;
      releases.delete(release);
      await inTurn(async () => Promise.resolve(lock.release()));
    };
    releases.add(release);
    return {
      connector,
      epoch,
      inTurn,
      transact: async (run, work, how) => {
        if (isReleased) throw releasedError(connector);
        return await db.transact(async (tx) => {
          await checkHeld(tx);
          const { takeSeqs, save } = takeSeqsOf(tx);
          const result = await work(tx, { run, now: instant(clock.now()), takeSeqs });
          save();
          noteCommit(tx, connector);
          return result;
        }, how);
      },
      read: async (work) => {
        if (isReleased) throw releasedError(connector);
        return await db.read(async (tx) => {
          await checkHeld(tx);
          return await work(tx);
        });
      },
      release,
    };
  };

  const take: LedgerDriver['take'] = async (connector, _holder, work) => {
    const lock = await lockOf(connector);
    try {
      const epoch = await db.transact(
        async (tx) => {
          const next = (await storedEpoch(tx, connector)) + 1;
          await work(tx, next);
          noteCommit(tx, connector);
          return next;
        },
        { isDurable: true },
      );
      return takenBy(lock, connector, epoch);
    } catch (error) {
      lock.release();
      throw error;
    }
  };
  return {
    take,
    releaseAll: async () => void (await Promise.all([...releases].map(async (release) => await release()))),
  };
}
