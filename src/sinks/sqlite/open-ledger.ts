import { instant } from '../../core/clock.ts';
import { SyncError } from '../../core/errors.ts';
import type { Connection } from '../../sql/sqlite/open-sqlite.ts';
import { openSqliteDatabase, type SqliteDatabase } from '../../sql/sqlite/open-sqlite-database.ts';
import { isBusy, storageFailure } from '../../sql/sqlite/sqlite-error.ts';
import { blockingMs, whenUnlocked } from '../../sql/sqlite/when-unlocked.ts';
import { rememberPlace } from './file-place.ts';
import { defaultLockTimeoutMs, toSinkError } from './sink-error.ts';
import type { RecordTables } from '../ledger/driver.ts';
import type { Ledger } from '../ledger/ledger.ts';
import type { OpenHow } from '../sink-access.ts';
import { mostCacheKiB, openDatabase, openReadonlyDatabase, storedId } from './open-database.ts';
import type { LedgerFormat } from './open-database.ts';
import { newestSeq } from './readers.ts';
import { highestNumber, reserveNumbers } from './numbers.ts';
import type { Beside } from './beside.ts';
import { openLocks } from './take.ts';

export interface LedgerFileOptions extends OpenHow {
  readonly file: string;
  readonly format: LedgerFormat;
  readonly records: RecordTables;
  readonly openBeside?: (writer: Connection, records: RecordTables) => Beside;
}

/** Opens the ledger in a SQLite file for writing, and makes it where there is none. Throws as `openDatabase`. */
export async function openLedgerFile(options: LedgerFileOptions): Promise<Ledger> {
  const { file, format, clock, signal, records, delay } = options;
  const lockTimeoutMs = options.lockTimeoutMs ?? defaultLockTimeoutMs;
  const wait = { clock, lockTimeoutMs, signal };
  const explain = (error: unknown): unknown => toSinkError(error, file);
  let writer: Connection;
  try {
    writer = await whenUnlocked(wait, () => openForWriting(options));
  } catch (error) {
    throw explain(error);
  }
  const checkPlace = rememberPlace(file);
  const opened = openSqliteDatabase({
    ...wait,
    file,
    writer,
    openReader: () => {
      checkPlace();
      return openReadonlyDatabase({ file, format });
    },
    check: checkPlace,
    explain,
    cacheKiB: options.cacheKiB ?? mostCacheKiB,
    delay,
  });
  const beside = options.openBeside?.(writer, records);
  const db: SqliteDatabase =
    beside === undefined
      ? opened
      : {
          ...opened,
          transact: async (work, how) => await opened.transact(work, { ...how, ...beside.how }),
        };
  const locks = openLocks({ db, file, clock, beside });
  return {
    db,
    clock,
    sinkId: storedId(writer),
    records: beside?.records ?? records,
    ...(beside === undefined ? {} : { lines: beside.lines }),
    deletedAtOnce: 1_000,
    take: locks.take,
    isInPlace: async () => {
      try {
        checkPlace();
        return true;
      } catch {
        return false; // Opening it again says what is wrong there.
      }
    },
    runEnded: async () => foldLog(writer, file),
    reserveNumbers,
    highestPartition: async (tx) => await highestNumber(tx, 'partitions'),
    newestSeq,
    raiseSeq: async (tx, _connector, least) =>
      void (await tx.run('UPDATE _sync_meta SET seq = :least WHERE seq < :least', { least })),
    [Symbol.asyncDispose]: async () => {
      await locks.releaseAll();
      await db[Symbol.asyncDispose]();
    },
  };
}

/** Busy is told apart from what waiting does not change. */
function openForWriting(options: LedgerFileOptions): Connection {
  try {
    return openDatabase({ ...options, now: instant(options.clock.now()), busyMs: blockingMs });
  } catch (error) {
    throw error instanceof SyncError && isBusy(error.cause) ? error.cause : error;
  }
}

/**
 * Moves the log into the file as far as no reader uses it; never waits for a reader. Where the disk has no room, all is in the log: the run has ended well.
 * While another run commits it is left to the end of that one.
 */
function foldLog(writer: Connection, file: string): void {
  if (writer.inTransaction) return;
  try {
    writer.pragma('wal_checkpoint(PASSIVE)');
  } catch (error) {
    if (storageFailure(error)?.isFull !== true) throw toSinkError(error, file);
  }
}
