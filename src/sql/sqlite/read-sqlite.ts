import type { ReadableDatabase } from '../database.ts';
import { beginTx } from './begin-tx.ts';
import type { Connection } from './open-sqlite.ts';
import { mostReaders, openReaders, type Reader } from './readers.ts';
import { openSqliteSnapshot } from './snapshot.ts';
import { sqliteDialect } from './sqlite-dialect.ts';
import type { SqliteTx } from './sqlite-tx.ts';

export interface ReadSqliteOptions {
  readonly file: string;
  /**
   * Opens a connection that only reads, with the version of the file checked. Called when one is first needed, and
   * again when those that were idle are closed.
   */
  readonly openReader: () => Connection;
  /** What an error of SQLite means to the caller; others come back as they are. */
  readonly explain: (error: unknown) => unknown;
  /**
   * Of the memory for what was read, at most, for all readers together; what `openReader` has set where nothing is
   * said.
   */
  readonly cacheKiB?: number | undefined;
  /** For tests: resolves in front of each statement. */
  readonly delay?: (() => Promise<void>) | undefined;
}

/** What SQLite's readers have beyond the port. */
export interface ReadableSqlite extends ReadableDatabase {
  read<Result>(work: (tx: SqliteTx) => Promise<Result>): Promise<Result>;
  /**
   * Another number whenever something was committed to the file, by this process or another. Asked for in front of a
   * read, it tells later whether that read is still true. Its connection stays open until this database is disposed:
   * numbers of two connections have nothing to do with each other.
   */
  mark(): Promise<number>;
}

/** A SQLite file that is read. Nothing is opened before something is asked. */
export function readSqlite(options: ReadSqliteOptions): ReadableSqlite {
  const { file, openReader, explain, cacheKiB, delay } = options;
  const closedError = (): Error => new TypeError(`${file} was closed`);
  const open = (): Connection => {
    const db = openReader();
    if (cacheKiB !== undefined) db.pragma(`cache_size = -${Math.ceil(cacheKiB / mostReaders)}`);
    return db;
  };
  const readers = openReaders(open, closedError);
  let watcher: Connection | null = null;
  let isClosed = false;

  const explained = async <Result>(work: () => Promise<Result>): Promise<Result> => {
    try {
      return await work();
    } catch (error) {
      throw explain(error);
    }
  };
  return {
    dialect: sqliteDialect,
    place: file,
    read: async (work) =>
      await explained(async () => await readers.use(async (reader) => await inOneState(reader, work, delay))),
    openSnapshot: async (signal) =>
      await explained(async () => {
        signal?.throwIfAborted();
        return openSqliteSnapshot({ db: openReader(), explain, delay, signal });
      }),
    mark: async () =>
      await explained(async () => {
        if (isClosed) throw closedError();
        watcher ??= openReader();
        return Number(watcher.pragma('data_version', { simple: true }));
      }),
    [Symbol.asyncDispose]: async () => {
      isClosed = true;
      watcher?.close();
      watcher = null;
      await readers.close();
    },
  };
}

/** Runs `work` in one state of the file, on a connection that nobody else uses meanwhile. */
export async function inOneState<Result>(
  { db, statements }: Reader,
  work: (tx: SqliteTx) => Promise<Result>,
  delay?: () => Promise<void>,
): Promise<Result> {
  db.exec('BEGIN');
  const { tx, end, failed } = beginTx(statements, delay);
  try {
    const result = await Promise.race([work(tx), failed]);
    await end();
    return result;
  } finally {
    await end().catch(() => undefined);
    db.exec('ROLLBACK');
  }
}
