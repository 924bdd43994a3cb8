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
import { inTx, statementsOn, type SqliteTx, sqliteDialect, type Statements } from './sqlite-tx.ts';
import type { Connection } from './open-sqlite.ts';
import { busyError, whenUnlocked, type LockWait } from './sqlite-error.ts';
import PQueue from 'p-queue';

export interface SqliteOptions extends ReadSqliteOptions, LockWait {
  /** The connection that writes. This database closes it. */
  readonly writer: Connection;
  /** Called at the beginning of each transaction, once it has the write lock. An error ends the transaction. */
  readonly check?: () => void;
  /** Cache memory, at most, for all connections together. */
  readonly cacheKiB?: number | undefined;
}

/** Database with calls that only SQLite offers. */
export interface SqliteDatabase extends Database, ReadableSqlite {
  transact<Result>(work: (tx: SqliteTx) => Promise<Result>, how?: TransactHow): Promise<Result>;
  read<Result>(work: (tx: SqliteTx) => Promise<Result>): Promise<Result>;
  /**
   * Rewrites the file without deleted data, and empties the log: no byte of that data remains in either of them. Waits
   * for readers as for the write lock, and throws as `transact`.
   */
  compact(): Promise<void>;
}

/** Share of the cache memory. Readers look up little; the writer looks up every incoming key. */
const readersShare = 1 / 4;

/**
 * A SQLite file with one connection that writes, and some that read. Transactions run one after the other; each begins
 * with BEGIN IMMEDIATE, which is the only wait for another process: from then on nothing can refuse it.
 */
export function openSqliteDatabase(options: SqliteOptions): SqliteDatabase {
  const { file, writer, explain, cacheKiB } = options;
  const statements = statementsOn(writer);
  const turns = openTurns();
  const readersKiB = cacheKiB === undefined ? undefined : Math.ceil(cacheKiB * readersShare);
  const reading = readSqlite({ ...options, cacheKiB: readersKiB });
  if (cacheKiB !== undefined) writer.pragma(`cache_size = -${cacheKiB - Math.ceil(cacheKiB * readersShare)}`);
  let isClosed = false;

  const attempt = async <Result>(work: (tx: SqliteTx) => Promise<Result>): Promise<Result> => {
    try {
      options.check?.();
      const result = await inTx(statements, work);
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

export interface ReadSqliteOptions {
  readonly file: string;
  /**
   * Opens a connection that only reads, with the version of the file checked. Called when one is first needed, and
   * again when those that were idle are closed.
   */
  readonly openReader: () => Connection;
  /** Translates an error of SQLite for the caller. Returns others unchanged. */
  readonly explain: (error: unknown) => unknown;
  /** Cache memory, at most, for all readers together; by default the setting of `openReader`. */
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

/** A SQLite file that is read. Nothing is opened before something is asked. */
export function readSqlite(options: ReadSqliteOptions): ReadableSqlite {
  const { file, openReader, explain, cacheKiB, isWatched = false } = options;
  const most = isWatched ? 1 : mostReaders;
  const shareKiB = cacheKiB === undefined ? undefined : Math.ceil(cacheKiB / most);
  const readers = openReaders(() => readerOn(openReader(), shareKiB), { file, most, isKept: isWatched });
  const use = async <Result>(work: (reader: Reader) => Promise<Result>): Promise<Result> =>
    await explained(explain, async () => await readers.use(work));

  return {
    dialect: sqliteDialect,
    place: file,
    read: async (work) => await use(async (reader) => await inOneState(reader, work)),
    mark: async () => await use(async ({ db }) => Number(db.pragma('data_version', { simple: true }))),
    openSnapshot: async (signal) =>
      await explained(explain, async () => {
        signal?.throwIfAborted();
        return openSqliteSnapshot(options, signal);
      }),
    [Symbol.asyncDispose]: readers.close,
  };
}

/** Runs `work` in one state of the file, on a connection that nothing else uses meanwhile. */
async function inOneState<Result>(
  { db, statements }: Reader,
  work: (tx: SqliteTx) => Promise<Result>,
): Promise<Result> {
  db.exec('BEGIN');
  try {
    return await inTx(statements, work);
  } finally {
    db.exec('ROLLBACK');
  }
}

/** Readers that nothing was asked of for so long are closed. */
const idleMs = 5_000;
/** Open at once, at most; further reads wait. */
const mostReaders = 4;

interface Reader {
  readonly db: Connection;
  readonly statements: Statements;
}

/** Connections that read, opened when they are first needed. Each read has one to itself. */
function openReaders(
  open: () => Reader,
  { file, most, isKept }: { readonly file: string; readonly most: number; readonly isKept: boolean },
) {
  const reads = new PQueue({ concurrency: most });
  const idle: Reader[] = [];
  let isClosed = false;
  let timer: NodeJS.Timeout | null = null;

  const closeIdle = (): void => {
    for (const { db } of idle.splice(0)) db.close();
  };
  const giveBack = (reader: Reader): void => {
    idle.push(reader);
    if (isKept) return;
    if (timer !== null) clearTimeout(timer);
    timer = setTimeout(closeIdle, idleMs).unref();
  };
  return {
    use: async <Result>(work: (reader: Reader) => Promise<Result>): Promise<Result> => {
      if (isClosed) throw new TypeError(`${file} was closed`);
      return await reads.add(async () => {
        const reader = idle.pop() ?? open();
        try {
          return await work(reader);
        } finally {
          giveBack(reader);
        }
      });
    },
    /** Refuses reads from now on; resolves when those that have begun are over and every connection is closed. */
    close: async (): Promise<void> => {
      isClosed = true;
      await reads.onIdle();
      if (timer !== null) clearTimeout(timer);
      closeIdle();
    },
  };
}

/** `cacheKiB`: cache memory; by default the setting of the connection. */
export function readerOn(db: Connection, cacheKiB?: number): Reader {
  if (cacheKiB !== undefined) db.pragma(`cache_size = -${cacheKiB}`);
  return { db, statements: statementsOn(db) };
}

/** The state that the file has now. Writers continue, but cannot fold their log into the file until it is disposed. */
function openSqliteSnapshot(
  { openReader, explain }: ReadSqliteOptions,
  signal: AbortSignal | undefined,
): Snapshot {
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
