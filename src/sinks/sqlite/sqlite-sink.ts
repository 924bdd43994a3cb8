import { instant } from '../../core/clock.ts';
import { SyncError } from '../../core/errors.ts';
import type { Connection } from '../../sql/sqlite/open-sqlite.ts';
import { openSqliteDatabase, type SqliteDatabase } from '../../sql/sqlite/open-sqlite-database.ts';
import { blockingMs, isBusy, storageFailure, whenUnlocked } from '../../sql/sqlite/sqlite-error.ts';
import { explained, cellOf, type Tx } from '../../sql/database.ts';
import * as database from './open-database.ts';
import { sqliteFormat } from './sqlite-schema.ts';
import { processUser } from '../requests.ts';
import {
  changeNumbers,
  numbered,
  type RecordTables,
  type LedgerDriver,
  type Taken,
} from '../ledger/driver.ts';
import type { Ledger } from '../ledger/ledger.ts';
import type { OpenHow, Sink } from '../sink-access.ts';
import { ledgerSink } from '../ledger/ledger-sink.ts';
import { sqliteTables } from './sqlite-tables.ts';
import type { ConnectorName } from '../../core/names.ts';
import { takeLock, type Lock } from '../../sql/sqlite/lock.ts';
import { openTurns } from '../../sql/turns.ts';
import { ConnectorBusyError, overtakenError, releasedError } from '../sink-errors.ts';
import { storedEpoch, holderOf } from '../ledger/held-connectors.ts';

interface LedgerFileOptions extends OpenHow {
  readonly file: string;
  readonly format: database.LedgerFormat;
  readonly records: RecordTables;
}

/** Opens the ledger in a SQLite file for writing, and makes it where there is none. Throws as `openDatabase`. */
export async function openLedgerFile(options: LedgerFileOptions): Promise<Ledger> {
  const { file, format, clock, signal, records } = options;
  const lockTimeoutMs = options.lockTimeoutMs ?? database.defaultLockTimeoutMs;
  const wait = { clock, lockTimeoutMs, signal };
  const explain = (error: unknown): unknown => database.toSinkError(error, file);
  const writer = await explained(explain, () => whenUnlocked(wait, () => openForWriting(options)));
  const checkPlace = database.rememberPlace(file);
  const db = openSqliteDatabase({
    ...wait,
    file,
    writer,
    openReader: () => {
      checkPlace();
      return database.openReadonlyDatabase({ file, format });
    },
    check: checkPlace,
    explain,
    cacheKiB: options.cacheKiB ?? database.mostCacheKiB,
  });
  const locks = openLocks(db, writer, options);
  let foldedMs = Number.NEGATIVE_INFINITY;
  return {
    db,
    clock,
    who: options.who ?? processUser(),
    sinkId: database.storedId(writer),
    records,
    deletedAtOnce: 1_000,
    take: locks.take,
    isInPlace: async () => {
      try {
        checkPlace();
        return true;
      } catch {
        return false; // Opening it again reports what is wrong there.
      }
    },
    giveBack: async () => await db.compact(),
    runEnded: async () => {
      if (clock.now() - foldedMs < foldEveryMs) return;
      foldedMs = clock.now();
      foldLog(writer, file);
    },
    reserveNumbers,
    newestSeq: database.newestSeq,
    raiseSeq: database.raiseSeq,
    // A transaction that writes is alone from its start, and all processes of a file are on one machine.
    alone: async () => Promise.resolve(clock.now()),
    [Symbol.asyncDispose]: async () => {
      await locks.releaseAll();
      foldLog(writer, file);
      await db[Symbol.asyncDispose]();
    },
  };
}

/** Distinguishes busy from failures that a wait does not resolve. */
function openForWriting(options: LedgerFileOptions): Connection {
  try {
    return database.openDatabase({ ...options, busyMs: blockingMs });
  } catch (error) {
    throw error instanceof SyncError && isBusy(error.cause) ? error.cause : error;
  }
}

/** Moving the log costs a short run a tenth of its processor time, and waits for the disk. */
const foldEveryMs = 5_000;

/**
 * Moves the log into the file as far as no reader uses it; never waits for a reader. If the disk is full, the log keeps
 * everything, and the run has still ended well. While another run commits, this is left to the end of that run.
 */
function foldLog(writer: Connection, file: string): void {
  if (!writer.open || writer.inTransaction) return;
  try {
    writer.pragma('wal_checkpoint(PASSIVE)');
  } catch (error) {
    if (storageFailure(error)?.isFull !== true) throw database.toSinkError(error, file);
  }
}

/**
 * Reserves numbers as `LedgerDriver.reserveNumbers`: the transaction has the write lock, so no other process takes one
 * in between.
 */
export async function reserveNumbers(tx: Tx, of: keyof typeof numbered, count: number): Promise<number> {
  const { table } = numbered[of];
  const last =
    (await cellOf<number>(tx, 'SELECT seq FROM sqlite_sequence WHERE name = :table', { table })) ?? 0;
  if (count === 0) return last;
  // SQLite makes the row with the table's first row.
  await tx.run('DELETE FROM sqlite_sequence WHERE name = :table', { table });
  await tx.run('INSERT INTO sqlite_sequence (name, seq) VALUES (:table, :seq)', { table, seq: last + count });
  return last;
}

/** Records as tables of one SQLite file, which holds the ledger too. */
export async function openSqliteSink(options: OpenHow & { readonly file: string }): Promise<Sink> {
  return ledgerSink(await openLedgerFile({ ...options, format: sqliteFormat, records: sqliteTables }));
}

/** The connectors that this sink holds, each by the lock of a file beside its own. */
function openLocks(db: SqliteDatabase, writer: Connection, { file, clock }: LedgerFileOptions) {
  const releases = new Set<() => Promise<void>>();
  const rowsWritten = writer.prepare<[], number>('SELECT total_changes()').pluck();

  const lockOf = async (connector: ConnectorName): Promise<Lock> => {
    const lock = await explained(
      (error) => database.toSinkError(error, file),
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
          const before = rowsWritten.get();
          const { takeSeqs, taken } = changeNumbers(() => database.newestSeq(tx));
          const result = await work(tx, { run, now: instant(clock.now()), takeSeqs });
          database.saveSeqs(tx, taken());
          // Half of the transactions of a short run find nothing to do: their commits write nothing.
          if (rowsWritten.get() !== before) database.noteCommit(tx, connector);
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
          database.noteCommit(tx, connector);
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
