import type { Connection } from './open-sqlite.ts';
import type { Clock } from '../../core/clock.ts';
import type { Database, TransactHow } from '../database.ts';
import { beginTx } from './begin-tx.ts';
import { openReaders } from './readers.ts';
import { sqliteDialect } from './sqlite-dialect.ts';
import { statementsOn, type SqliteTx } from './sqlite-tx.ts';
import { whenUnlocked } from './when-unlocked.ts';

export interface SqliteOptions {
  readonly file: string;
  /** The connection that writes. */
  readonly writer: Connection;
  /** Opens one that only reads. The caller of `read` waits while it is opened. */
  readonly openReader: () => Connection;
  readonly clock: Clock;
  /** How long a transaction waits for another process to end its own. */
  readonly lockTimeoutMs: number;
  /** Ends such a wait. */
  readonly signal?: AbortSignal;
  /** Called in front of each transaction, once it has the write lock. What it throws ends the transaction. */
  readonly check?: () => void;
  /** What an error of SQLite means to the caller; others come back as they are. */
  readonly explain: (error: unknown) => unknown;
  /** For tests: resolves in front of each statement. */
  readonly delay?: () => Promise<void>;
}

/** What the rules of a database ask of SQLite beyond the port. */
export interface SqliteDatabase extends Database {
  transact<Result>(work: (tx: SqliteTx) => Promise<Result>, how?: SqliteHow): Promise<Result>;
  read<Result>(work: (tx: SqliteTx) => Promise<Result>): Promise<Result>;
  /** A number that changes whenever another connection than this reader has committed. */
  mark(): Promise<number>;
}

export interface SqliteHow extends TransactHow {
  /** Called inside the transaction, in front of its COMMIT: what must be as durable as it. */
  readonly beforeCommit?: () => void;
  /** Called when it is stored; must not throw. */
  readonly committed?: () => void;
  /** Called when nothing of it is stored; must not throw. */
  readonly rolledBack?: () => void;
}

/**
 * A SQLite file with one connection that writes and some that read, opened when they are first needed. Transactions run one after the other; each begins
 * with BEGIN IMMEDIATE, which is the only wait for another process: from then on nothing can refuse it.
 */
export function openSqliteDatabase(options: SqliteOptions): SqliteDatabase {
  const { file, writer, explain, delay } = options;
  const statements = statementsOn(writer);
  const inTurn = turns();
  const readers = openReaders(options);
  let isClosed = false;

  const attempt = async <Result>(
    work: (tx: SqliteTx) => Promise<Result>,
    how: SqliteHow,
  ): Promise<Result> => {
    const { tx, end, failed } = beginTx(statements, delay);
    try {
      options.check?.();
      const result = await Promise.race([work(tx), failed]);
      await end();
      how.beforeCommit?.();
      writer.exec('COMMIT');
      return result;
    } catch (error) {
      await end().catch(() => undefined);
      // After a full disk or a failed write SQLite has rolled back by itself.
      if (writer.inTransaction) writer.exec('ROLLBACK');
      throw error;
    }
  };

  const transact: SqliteDatabase['transact'] = async (work, how = {}) =>
    await inTurn(async () => {
      if (isClosed) throw new TypeError(`${file} was closed`);
      try {
        await whenUnlocked(options, () => void writer.exec('BEGIN IMMEDIATE'));
        const result = await attempt(work, how);
        how.committed?.();
        return result;
      } catch (error) {
        how.rolledBack?.();
        throw explain(error);
      }
    });

  return {
    dialect: sqliteDialect,
    place: file,
    transact,
    read: async (work) => {
      try {
        return await readers.use(async (reader) => {
          reader.db.exec('BEGIN');
          const { tx, end, failed } = beginTx(reader.statements, delay);
          try {
            return await Promise.race([work(tx), failed]);
          } finally {
            await end().catch(() => undefined);
            reader.db.exec('ROLLBACK');
          }
        });
      } catch (error) {
        throw explain(error);
      }
    },
    mark: async () =>
      await readers.use(async ({ db }) => Number(db.pragma('data_version', { simple: true }))),
    [Symbol.asyncDispose]: async () => {
      await inTurn(async () => {
        if (isClosed) return;
        isClosed = true;
        await readers.close();
        writer.close();
      });
    },
  };
}

/** Runs what is given one after the other, in the order given. */
function turns(): <Result>(work: () => Promise<Result>) => Promise<Result> {
  let last: Promise<unknown> = Promise.resolve();
  return async (work) => {
    const turn = last.then(work);
    last = turn.catch(() => undefined);
    return await turn;
  };
}
