import type { Database, TransactHow } from '../database.ts';
import { openTurns } from '../turns.ts';
import { inTx, statementsOn, type SqliteTx } from './sqlite-tx.ts';
import type { Connection } from './open-sqlite.ts';
import { readSqlite, type ReadableSqlite, type ReadSqliteOptions } from './read-sqlite.ts';
import { busyError, whenUnlocked, type LockWait } from './sqlite-error.ts';

export interface SqliteOptions extends ReadSqliteOptions, LockWait {
  /** The connection that writes. This database closes it. */
  readonly writer: Connection;
  /** Called at the beginning of each transaction, once it has the write lock. What it throws ends the transaction. */
  readonly check?: () => void;
  /** Of the memory for what was read, at most, for all connections together. */
  readonly cacheKiB?: number | undefined;
}

/** What SQLite answers beyond the port. */
export interface SqliteDatabase extends Database, ReadableSqlite {
  transact<Result>(work: (tx: SqliteTx) => Promise<Result>, how?: TransactHow): Promise<Result>;
  read<Result>(work: (tx: SqliteTx) => Promise<Result>): Promise<Result>;
  /**
   * Rewrites the file without what was deleted, and empties the log: no byte of it is in either of them. Waits for
   * readers as for the write lock, and throws as `transact`.
   */
  compact(): Promise<void>;
}

/** Of the memory for what was read. Readers look a little up; the writer looks up every key that comes. */
const readersShare = 1 / 4;

/**
 * A SQLite file with one connection that writes, and some that read. Transactions run one after the other; each begins
 * with BEGIN IMMEDIATE, which is the only wait for another process: from then on nothing can refuse it.
 */
export function openSqliteDatabase(options: SqliteOptions): SqliteDatabase {
  const { file, writer, explain, delay, cacheKiB } = options;
  const statements = statementsOn(writer);
  const turns = openTurns();
  const readersKiB = cacheKiB === undefined ? undefined : Math.ceil(cacheKiB * readersShare);
  const reading = readSqlite({ ...options, cacheKiB: readersKiB });
  if (cacheKiB !== undefined) writer.pragma(`cache_size = -${cacheKiB - Math.ceil(cacheKiB * readersShare)}`);
  let isClosed = false;

  const attempt = async <Result>(work: (tx: SqliteTx) => Promise<Result>): Promise<Result> => {
    try {
      options.check?.();
      const result = await inTx(statements, work, delay, turns.sinceNow());
      writer.exec('COMMIT');
      return result;
    } catch (error) {
      // After a full disk or a failed write SQLite has rolled back by itself.
      if (writer.inTransaction) writer.exec('ROLLBACK');
      throw error;
    }
  };

  const transact: SqliteDatabase['transact'] = async (work) =>
    await turns.take(async () => {
      if (isClosed) throw new TypeError(`${file} was closed`);
      try {
        await whenUnlocked(options, () => void writer.exec('BEGIN IMMEDIATE'));
        return await attempt(work);
      } catch (error) {
        throw explain(error);
      }
    });

  return {
    ...reading,
    transact,
    compact: async () =>
      await turns.take(async () => {
        try {
          await whenUnlocked(options, () => void writer.exec('VACUUM'));
          await whenUnlocked(options, () => emptyLog(writer));
        } catch (error) {
          throw explain(error);
        }
      }),
    [Symbol.asyncDispose]: async () => {
      await turns.take(async () => {
        if (isClosed) return;
        isClosed = true;
        await reading[Symbol.asyncDispose]();
        writer.close();
      });
    },
  };
}

/** Throws as SQLite does where a reader still needs the log. */
function emptyLog(writer: Connection): void {
  const [found] = writer.pragma('wal_checkpoint(TRUNCATE)') as readonly { readonly busy: number }[];
  if (found?.busy === 1) throw busyError('a reader uses the log');
}
