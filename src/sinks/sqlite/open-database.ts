import { accessSync, constants, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { randomUUID } from 'node:crypto';
import { SyncError } from '../../core/errors.ts';
import { newestTable } from '../ledger/ledger-schema.ts';
import { NoSinkYetError, checkMigrated, checkVersion, olderSink, unusableSink } from '../sink-errors.ts';
import { writeNumber } from '../../core/json.ts';
import {
  createPrivateFile,
  isPrivateFileThere,
  checkTemporaryFolder,
  noSpaceText,
} from '../../files/private-file.ts';
import { openSqlite, type Connection } from '../../sql/sqlite/open-sqlite.ts';
import {
  isBusy,
  isNoDatabase,
  LockedError,
  storageFailure,
  type StorageFailure,
} from '../../sql/sqlite/sqlite-error.ts';
import type { ConnectorName } from '../../core/names.ts';
import { cellOf, type Tx } from '../../sql/database.ts';
import type { LastCommits } from '../ledger/history/overview.ts';

/** Marks a SQLite file as this program's ("CSY1"); any other value in a file that has tables is a foreign database. */
const applicationId = 0x43_53_59_31;

/** The tables of a ledger, as one version of the program makes them. */
export interface LedgerFormat {
  /** Kind of sink. A SQLite sink cannot be opened as the ledger of a JSONL sink, nor the reverse. */
  readonly kind: 'sqlite' | 'jsonl';
  /** Makes the tables of the newest version. */
  readonly sql: string;
  /** The first one leads from version 1 to the next, the last one to the newest version. */
  readonly migrations: readonly string[];
}

function newestVersion({ migrations }: LedgerFormat): number {
  return 1 + migrations.length;
}

interface DatabaseOptions {
  readonly file: string;
  readonly format: LedgerFormat;
  readonly durability: 'full' | 'normal';
  /** Time that SQLite waits for locks, blocking the process. */
  readonly busyMs?: number;
  /** The sink that must already exist: none is made, and SINK_MOVED is thrown for another one. */
  readonly sinkId?: string;
}

const pageBytes = 16_384;
const walBytes = 64 * 1024 * 1024;
const defaultBusyMs = 5_000;
/** Twice as much made no first load faster and kept the program above 250 MiB. */
export const mostCacheKiB = 32 * 1024;

/**
 * Opens (or creates, 0600) a sink's ledger and migrates it. Throws SINK_INCOMPATIBLE, with the file untouched, for
 * another program's or one of an unknown version.
 */
export function openDatabase(options: DatabaseOptions): Connection {
  const { file, sinkId } = options;
  if (sinkId !== undefined && !isSinkThere(file)) throw movedError(file, true);
  return connect(options, { makes: sinkId === undefined }, (db) => {
    const version = inspect(db, options);
    if (sinkId !== undefined && (version === 0 || storedId(db) !== sinkId)) throw movedError(file, false);
    if (version === 0) db.pragma(`page_size = ${pageBytes}`);
    setPragmas(db, options);
    if (version < newestVersion(options.format)) bringUpToDate(db, options);
  });
}

/**
 * Whether a sink has a database at `file`. Throws `SyncError` where that cannot be determined, or where something else
 * is there.
 */
export function isSinkThere(file: string): boolean {
  try {
    return isPrivateFileThere(file);
  } catch (error) {
    throw toSinkError(error, file);
  }
}

/**
 * Opens an existing sink's database for reading. Throws `SyncError` SINK_FAILED when there is none, SINK_INCOMPATIBLE
 * as `openDatabase`, and for one that is yet to be migrated.
 */
export function openReadonlyDatabase(options: Pick<DatabaseOptions, 'file' | 'format'>): Connection {
  if (!isSinkThere(options.file)) throw new NoSinkYetError(options.file);
  return connect(options, { readonly: true, makes: false }, (db) => {
    const version = inspect(db, options);
    if (version === 0) throw new NoSinkYetError(options.file);
    checkMigrated(options.file, version, newestVersion(options.format));
    db.pragma('trusted_schema = OFF');
  });
}

function connect(
  { file, busyMs = defaultBusyMs }: Pick<DatabaseOptions, 'file' | 'busyMs'>,
  { makes, ...access }: { readonly readonly?: true; readonly makes: boolean },
  prepare: (db: Connection) => void,
): Connection {
  let db: Connection | null = null;
  try {
    if (access.readonly !== true) checkTemporaryFolder(temporaryFolders());
    if (makes) createPrivateFile(file);
    if (access.readonly !== true) {
      // SQLite would report only that it cannot open the log beside it.
      accessSync(file, constants.W_OK);
    }
    db = openSqlite(file, { ...access, timeout: busyMs, fileMustExist: true });
    db.function('json_number', { deterministic: true }, (value) =>
      value === null ? null : writeNumber(Number(value)),
    );
    prepare(db);
    return db;
  } catch (error) {
    db?.close();
    if (isNoDatabase(error)) {
      throw unusableSink(file, 'it is not a SQLite database', 'Name another path.', error);
    }
    throw toSinkError(error, file);
  }
}

/** Temporary folders in SQLite's order of search. It needs one in the middle of a large commit. */
function temporaryFolders(): readonly string[] {
  if (process.platform === 'win32') return [tmpdir()];
  const { SQLITE_TMPDIR, TMPDIR } = process.env;
  return [SQLITE_TMPDIR ?? '', TMPDIR ?? '', '/var/tmp', '/usr/tmp', '/tmp', '.'].filter((one) => one !== '');
}

/**
 * Version of the ledger in the file, 0 where it is empty. Reads only: a foreign file stays unchanged, byte for byte.
 */
function inspect(db: Connection, options: Pick<DatabaseOptions, 'file' | 'format'>): number {
  // In one state: another process may be making the file, and half of that would look like another program's.
  return db.transaction(() => inspectNow(db, options)).deferred();
}

function inspectNow(db: Connection, { file, format }: Pick<DatabaseOptions, 'file' | 'format'>): number {
  const owner = Number(db.pragma('application_id', { simple: true }));
  const version = Number(db.pragma('user_version', { simple: true }));
  const tables = db.prepare<[], number>('SELECT count(*) FROM sqlite_schema').pluck().get() ?? 0;
  if (owner === 0 && version === 0 && tables === 0) return 0;
  if (owner !== applicationId) {
    throw unusableSink(file, 'it is a database of another program', 'Name another path.');
  }
  checkVersion(file, version, newestVersion(format));
  const newest = db.prepare('SELECT 1 FROM sqlite_schema WHERE name = ?').get(newestTable);
  if (newest === undefined) throw olderSink(file);
  const stored = db.prepare<[], string>('SELECT kind FROM _sync_meta').pluck().get() ?? 'nothing';
  if (stored !== format.kind) {
    throw unusableSink(
      file,
      `it belongs to a sink of type ${stored}, not ${format.kind}`,
      'Name another path.',
    );
  }
  return version;
}

function setPragmas(db: Connection, options: DatabaseOptions): void {
  switchToWal(db, options.busyMs ?? defaultBusyMs);
  db.pragma(`synchronous = ${options.durability === 'full' ? 'FULL' : 'NORMAL'}`);
  db.pragma('trusted_schema = OFF');
  db.pragma('cell_size_check = ON');
  db.pragma(`cache_size = -${mostCacheKiB}`);
  db.pragma(`journal_size_limit = ${walBytes}`);
  const pageSize = Number(db.pragma('page_size', { simple: true }));
  db.pragma(`wal_autocheckpoint = ${Math.ceil(walBytes / pageSize)}`);
}

/**
 * SQLite waits for every lock but this one: two processes that make one file would wait for each other, so the second
 * is refused at once.
 */
function switchToWal(db: Connection, waitMs: number): void {
  const endMs = performance.now() + waitMs;
  for (;;) {
    try {
      db.pragma('journal_mode = WAL');
      return;
    } catch (error) {
      if (!isBusy(error) || performance.now() > endMs) throw error;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 10);
    }
  }
}

/**
 * Migrates in one transaction and skips migrations that another process has done meanwhile. A kill leaves the old
 * version or the new one.
 */
function bringUpToDate(db: Connection, options: DatabaseOptions): void {
  const { format } = options;
  db.transaction(() => {
    const version = inspect(db, options);
    if (version === 0) {
      db.exec(format.sql);
      const meta = 'INSERT INTO _sync_meta (one, sink_id, kind, seq) VALUES (1, ?, ?, 0)';
      db.prepare(meta).run(randomUUID(), format.kind);
      db.pragma(`application_id = ${applicationId}`);
    } else for (const sql of format.migrations.slice(version - 1)) db.exec(sql);
    db.pragma(`user_version = ${newestVersion(format)}`);
  }).immediate();
}

/**
 * Tables in every SQLite file of a sink in addition to those of the ledger. `seq` is the change counter of the whole
 * file; `last_commit`: random text of the newest transaction that held the connector, kept when the connector is
 * forgotten.
 */
export const metaSql = `
CREATE TABLE _sync_meta (
  one INTEGER PRIMARY KEY CHECK (one = 1),
  sink_id TEXT NOT NULL,
  kind TEXT NOT NULL,
  seq INTEGER NOT NULL
) STRICT;

CREATE TABLE _sync_commits (
  connector TEXT PRIMARY KEY,
  last_commit TEXT NOT NULL
) STRICT, WITHOUT ROWID;
`;

export function storedId(db: Connection): string {
  return db.prepare<[], string>('SELECT sink_id FROM _sync_meta').pluck().get() ?? '';
}

/** Writes how many numbers of the change counter a transaction took. */
export function saveSeqs(tx: Tx, taken: number): void {
  if (taken > 0) tx.put('UPDATE _sync_meta SET seq = seq + :taken', { taken });
}

/** In every transaction that holds the connector. */
export function noteCommit(tx: Tx, connector: ConnectorName): void {
  tx.put(
    `INSERT INTO _sync_commits (connector, last_commit) VALUES (:connector, :token)
     ON CONFLICT (connector) DO UPDATE SET last_commit = excluded.last_commit`,
    { connector, token: randomUUID() },
  );
}

/** `ServedSink.lastCommits`. */
export async function lastCommits(tx: Tx): Promise<LastCommits> {
  return await tx.rows('SELECT connector, last_commit FROM _sync_commits');
}

/** The newest change number of the file, whatever the connector. */
export async function newestSeq(tx: Tx): Promise<number> {
  return (await cellOf<number>(tx, 'SELECT seq FROM _sync_meta')) ?? 0;
}

/** Sets the change counter so that the next number is above `least`. */
export async function raiseSeq(tx: Tx, _connector: ConnectorName, least: number): Promise<void> {
  await tx.run('UPDATE _sync_meta SET seq = :least WHERE seq < :least', { least });
}

/**
 * Translates a failure of SQLite or the file system for the sink at `file`. A full disk and a lock are temporary
 * (`retry`); a person must repair the rest. Returns other errors unchanged.
 */
export function toSinkError(
  error: unknown,
  file: string,
  lost = 'nothing of the last commit was stored',
): unknown {
  if (error instanceof LockedError) return lockedError(file, error.waitedMs, error.cause);
  const failure = storageFailure(error);
  if (failure === null) return error;
  const { code } = failure;
  if (failure.isFull) {
    return new SyncError(`${noSpaceText(file, code)}; ${lost}. Free space and sync again.`, {
      code: 'SINK_FULL',
      recovery: 'retry',
      context: { file, cause: code },
      cause: error,
    });
  }
  if (isBusy(error)) return lockedError(file, 0, error);
  return new SyncError(`The sink at ${file} ${failureText(failure)}`, {
    code: 'SINK_FAILED',
    recovery: 'stop',
    context: { file, cause: code },
    cause: error,
  });
}

const forbidden = /^(EROFS|EACCES|EPERM|SQLITE_(READONLY|PERM|AUTH).*)$/;

/** The system's message names the path: often it is a file beside the sink's. */
function failureText({ code, reason }: StorageFailure): string {
  return forbidden.test(code)
    ? `may not be written by this user, or is read-only (${reason}). Mount the disk for writing, make the file and its folder writable for the user that syncs (owner, mode, and no immutable flag), then sync again.`
    : `could not be read or written (${reason}). Check the file, its folder and the disk.`;
}

export const defaultLockTimeoutMs = 60_000;

/** The database's write lock, which any program can take; the lock of one connector names its holder. */
function lockedError(file: string, waitedMs: number, cause: unknown): SyncError {
  const waited = waitedMs < 1_000 ? 'now' : `for ${Math.round(waitedMs / 1_000)} s`;
  return new SyncError(
    `The sink's database ${file} could not be written: another program holds its write lock (waited ${waited}). ` +
      'It may be a database browser or a sqlite3 shell with an open transaction, a backup, or another sync. ' +
      "Close it or end its transaction and sync again; the sink's lockTimeout says how long to wait.",
    { code: 'SINK_FAILED', recovery: 'retry', context: { file, cause: 'SQLITE_BUSY' }, cause },
  );
}

/**
 * Identity of the file at a path, as device and inode; null where there is none. Throws the system's error where that
 * cannot be determined.
 */
export function fileAt(path: string): string | null {
  const stats = statSync(path, { bigint: true, throwIfNoEntry: false });
  return stats === undefined ? null : `${stats.dev}:${stats.ino}`;
}

/**
 * Remembers the identity of the file at `path`. The returned check throws SINK_MOVED if another file, or none, is
 * there: SQLite would continue to write into an unlinked file.
 */
export function rememberPlace(path: string): () => void {
  const opened = fileAt(path);
  return () => {
    const found = fileAt(path);
    if (found !== opened || found === null) throw movedError(path, found === null);
  };
}

export function movedError(path: string, isMissing: boolean): SyncError {
  return new SyncError(
    `The sink's file should be at ${path}; ${isMissing ? 'it no longer exists' : 'another file is in its place'}. ` +
      'Nothing is written. Put the file back, then sync again.',
    { code: 'SINK_MOVED', recovery: 'retry', context: { file: path, isMissing } },
  );
}
