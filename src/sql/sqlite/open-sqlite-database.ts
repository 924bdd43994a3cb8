import {
  type Database,
  type TransactHow,
  type ReadableDatabase,
  type Cells,
  type Snapshot,
  lengthOf,
  mostRows,
  wantedLength,
  explained,
} from '../database.ts';
import { openTurns } from '../turns.ts';
import { inTx, statementsOn, type SqliteTx, sqliteDialect } from './sqlite-tx.ts';
import type { Connection } from './open-sqlite.ts';
import { busyError, whenUnlocked, type LockWait } from './sqlite-error.ts';

export interface SqliteOptions extends ReadSqliteOptions, LockWait {
  /** The connection that writes. This database closes it. */
  readonly writer: Connection;
  /** Called at the beginning of each transaction, once it has the write lock. An error ends the transaction. */
  readonly check?: () => void;
}

/** Database with calls that only SQLite offers. */
export interface SqliteDatabase extends Database {
  transact<Result>(work: (tx: SqliteTx) => Promise<Result>, how?: TransactHow): Promise<Result>;
  read<Result>(work: (tx: SqliteTx) => Promise<Result>): Promise<Result>;
  /**
   * Rewrites the file without deleted data, and empties the log: no byte of that data remains in either of them. Waits
   * for readers as for the write lock, and throws as `transact`.
   */
  compact(): Promise<void>;
}

/**
 * A SQLite file with one connection, which writes and reads: each connection has the whole schema in memory. Reads and
 * transactions run one after the other. A transaction begins with BEGIN IMMEDIATE, which is the only wait for another
 * process: from then on nothing can refuse it. A snapshot has a connection to itself.
 */
export function openSqliteDatabase(options: SqliteOptions): SqliteDatabase {
  const { file, writer, explain, cacheKiB } = options;
  const { statements } = readerOn(writer, cacheKiB);
  const turns = openTurns();
  const inTurn = async <Result>(work: () => Promise<Result>): Promise<Result> =>
    await turns.take(async () => {
      if (!writer.open) throw new TypeError(`${file} was closed`);
      return await explained(explain, work);
    });

  const attempt = async <Result>(work: (tx: SqliteTx) => Promise<Result>): Promise<Result> => {
    try {
      options.check?.();
      const result = await inTx(statements, work);
      statements.run('COMMIT', {});
      return result;
    } catch (error) {
      // After a full disk or a failed write SQLite has rolled back by itself.
      if (writer.inTransaction) statements.run('ROLLBACK', {});
      throw error;
    }
  };

  return {
    dialect: sqliteDialect,
    place: file,
    transact: async (work) =>
      await inTurn(async () => {
        await whenUnlocked(options, () => void statements.run('BEGIN IMMEDIATE', {}));
        return await attempt(work);
      }),
    read: async (work) => await inTurn(async () => await inOneState({ statements }, work)),
    openSnapshot: async (signal) => await explained(explain, async () => openSqliteSnapshot(options, signal)),
    compact: async () =>
      await inTurn(async () => {
        await whenUnlocked(options, () => void writer.exec('VACUUM'));
        await whenUnlocked(options, () => emptyLog(writer));
      }),
    [Symbol.asyncDispose]: async () => await turns.take(async () => void writer.close()),
  };
}

/** Throws as SQLite does where a reader still needs the log. */
function emptyLog(writer: Connection): void {
  const [found] = writer.pragma('wal_checkpoint(TRUNCATE)') as readonly { readonly busy: number }[];
  if (found?.busy === 1) throw busyError('a reader uses the log');
}

export interface ReadSqliteOptions {
  readonly file: string;
  /**
   * Opens a connection that only reads, with the version of the file checked. Called when one is first needed, and
   * again when the one before was idle and is closed.
   */
  readonly openReader: () => Connection;
  /** Translates an error of SQLite for the caller. Returns others unchanged. */
  readonly explain: (error: unknown) => unknown;
  /** Cache memory, at most; by default the setting of the connection. */
  readonly cacheKiB?: number | undefined;
  /**
   * Reads for days on one connection, which stays open: a worker watches many files, and each connection costs
   * descriptors and pages in memory. Marks of two connections have nothing to do with each other.
   */
  readonly isWatched?: boolean;
}

/** Readers with calls that only SQLite offers. */
export interface ReadableSqlite extends ReadableDatabase {
  read<Result>(work: (tx: SqliteTx) => Promise<Result>): Promise<Result>;
  /**
   * A number that changes whenever this process or another commits to a watched file. Asked for in front of a read, it
   * shows later whether that read is still current.
   */
  mark(): Promise<number>;
}

/**
 * A SQLite file that is read on one connection, one read after the other: SQLite answers at once, so a second one would
 * not be faster. Nothing is opened before something is asked.
 */
export function readSqlite(options: ReadSqliteOptions): ReadableSqlite {
  const { file, openReader, explain, cacheKiB, isWatched = false } = options;
  const turns = openTurns();
  let reader: Reader | null = null;
  let isClosed = false;
  let timer: NodeJS.Timeout | undefined;
  const close = (): void => {
    reader?.db.close();
    reader = null;
  };
  const use = async <Result>(work: (reader: Reader) => Promise<Result>): Promise<Result> =>
    await explained(explain, async () => {
      if (isClosed) throw new TypeError(`${file} was closed`);
      return await turns.take(async () => {
        clearTimeout(timer);
        try {
          return await work((reader ??= readerOn(openReader(), cacheKiB)));
        } finally {
          if (!isWatched) timer = setTimeout(close, idleMs).unref();
        }
      });
    });

  return {
    dialect: sqliteDialect,
    place: file,
    read: async (work) => await use(async (one) => await inOneState(one, work)),
    mark: async () => await use(async ({ db }) => Number(db.pragma('data_version', { simple: true }))),
    openSnapshot: async (signal) => await explained(explain, async () => openSqliteSnapshot(options, signal)),
    // Reads that have begun go on to their end.
    [Symbol.asyncDispose]: async () => {
      isClosed = true;
      await turns.take(async () => {
        clearTimeout(timer);
        close();
      });
    },
  };
}

/** Runs `work` in one state of the file, on a connection that nothing else uses meanwhile. */
async function inOneState<Result>(
  { statements }: Pick<Reader, 'statements'>,
  work: (tx: SqliteTx) => Promise<Result>,
): Promise<Result> {
  statements.run('BEGIN', {});
  try {
    return await inTx(statements, work);
  } finally {
    statements.run('ROLLBACK', {});
  }
}

/** A connection that nothing was asked of for so long is closed. */
const idleMs = 5_000;

type Reader = Readonly<ReturnType<typeof readerOn>>;

/** `cacheKiB`: cache memory; by default the setting of the connection. */
export function readerOn(db: Connection, cacheKiB?: number) {
  if (cacheKiB !== undefined) db.pragma(`cache_size = -${cacheKiB}`);
  return { db, statements: statementsOn(db) };
}

/** The state that the file has now. Writers continue, but cannot fold their log into the file until it is disposed. */
function openSqliteSnapshot(
  { openReader, explain }: ReadSqliteOptions,
  signal: AbortSignal | undefined,
): Snapshot {
  signal?.throwIfAborted();
  const db = openReader();
  const statements = statementsOn(db);
  /** Statements that are being stepped through: SQLite closes no connection below them. */
  const open = new Set<Iterator<Cells>>();
  const ask = async <Result>(work: () => Promise<Result>): Promise<Result> =>
    await explained(explain, async () => {
      signal?.throwIfAborted();
      return await work();
    });
  try {
    db.exec('BEGIN');
    // The state is that of the first reading.
    db.prepare('SELECT 1 FROM sqlite_schema LIMIT 1').all();
  } catch (error) {
    db.close();
    throw error;
  }
  return {
    read: async (work) => await ask(async () => await inTx(statements, work)),
    batches: async function* (sql, values = {}) {
      const rows = await ask(async () => statements.iterate(sql, values));
      open.add(rows);
      try {
        for (;;) {
          const batch = await ask(async () => nextBatch(rows));
          if (batch.length === 0) return;
          yield batch;
        }
      } finally {
        open.delete(rows);
        rows.return?.();
      }
    },
    [Symbol.asyncDispose]: async () => {
      for (const rows of open) rows.return?.();
      db.close();
    },
  };
}

/** A batch ends with the row that reaches its length. Empty behind the last row. */
function nextBatch(rows: Iterator<Cells>): readonly Cells[] {
  const batch: Cells[] = [];
  for (let length = 0; batch.length < mostRows && length < wantedLength;) {
    const { value, done } = rows.next();
    if (done === true) break;
    batch.push(value);
    length += lengthOf(value);
  }
  return batch;
}
