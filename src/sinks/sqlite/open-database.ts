import { accessSync, constants } from 'node:fs';
import { tmpdir } from 'node:os';
import { SyncError } from '../../core/errors.ts';
import { NoSinkYetError } from '../acquire-errors.ts';
import type { Instant } from '../../core/clock.ts';
import { insertMeta, storedId, storedKind } from './meta.ts';
import { createPrivateFile, isPrivateFileThere } from '../../files/private-file.ts';
import { checkTemporaryFolder } from '../../files/temporary-folder.ts';
import { openSqlite, type Connection } from '../../sql/sqlite/open-sqlite.ts';
import {
  unknownVersion,
  unknownVersionAdvice,
  unmigratedAdvice,
  unmigratedVersion,
} from '../stored-version.ts';
import { movedError, toSinkError } from './sink-error.ts';
import { isBusy, isNoDatabase } from '../../sql/sqlite/sqlite-error.ts';

/** Marks a SQLite file as this program's ("CSY1"); any other value in a file that has tables is a foreign database. */
const applicationId = 0x43_53_59_31;

/** The tables of a ledger, as one version of the program makes them. */
export interface LedgerFormat {
  /** What the file is for; a SQLite sink cannot be opened as the ledger of a JSONL sink, nor the other way round. */
  readonly kind: 'sqlite' | 'jsonl';
  /** Makes the tables of the newest version. */
  readonly sql: string;
  /** The oldest version that can be used; 1 by default. */
  readonly firstVersion?: number;
  /** The first one leads from the first version to the next, the last one to the newest version. */
  readonly migrations: readonly string[];
}

function newestVersion({ firstVersion = 1, migrations }: LedgerFormat): number {
  return firstVersion + migrations.length;
}

interface DatabaseOptions {
  readonly file: string;
  readonly format: LedgerFormat;
  readonly durability: 'full' | 'normal';
  readonly now: Instant;
  /** How long SQLite waits for locks, blocking the process. */
  readonly busyMs?: number;
  /** The sink that must already exist: none is made, and SINK_MOVED is thrown for another one. */
  readonly sinkId?: string;
}

const pageBytes = 16_384;
const walBytes = 64 * 1024 * 1024;
const defaultBusyMs = 5_000;
/** Twice as much made no first load faster and kept the program above 250 MiB. */
export const mostCacheKiB = 32 * 1024;
/** Older ones can corrupt a WAL when two connections write and checkpoint at once. */
const oldestSqlite = [3, 51, 3] as const;

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
 * Whether a sink has a database at `file`. Throws `SyncError` where that cannot be known, or where something else is
 * there.
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
    const unmigrated = unmigratedVersion(version, newestVersion(options.format));
    if (unmigrated !== null) throw incompatible(options.file, unmigrated, unmigratedAdvice);
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
    checkSqliteVersion(db);
    prepare(db);
    return db;
  } catch (error) {
    db?.close();
    if (isNoDatabase(error)) {
      throw incompatible(file, 'it is not a SQLite database', 'Name another path.', error);
    }
    throw toSinkError(error, file);
  }
}

/** As SQLite looks for one: it needs one in the middle of a large commit. */
function temporaryFolders(): readonly string[] {
  if (process.platform === 'win32') return [tmpdir()];
  const { SQLITE_TMPDIR, TMPDIR } = process.env;
  return [SQLITE_TMPDIR ?? '', TMPDIR ?? '', '/var/tmp', '/usr/tmp', '/tmp', '.'].filter((one) => one !== '');
}

function checkSqliteVersion(db: Connection): void {
  const version = db.prepare<[], string>('SELECT sqlite_version()').pluck().get() ?? '';
  const parts = version.split('.').map(Number);
  for (const [index, oldest] of oldestSqlite.entries()) {
    const part = parts[index] ?? 0;
    if (part > oldest) return;
    if (part < oldest) {
      throw new SyncError(
        `SQLite ${oldestSqlite.join('.')} or later is needed, but better-sqlite3 brings ${version}. Reinstall it.`,
        { code: 'SINK_FAILED', recovery: 'stop', context: { version } },
      );
    }
  }
}

/**
 * The version of the ledger in the file, 0 where it is empty. Reads only: a foreign file stays byte for byte what it
 * was.
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
    throw incompatible(file, 'it is a database of another program', 'Name another path.');
  }
  const unknown = unknownVersion(version, newestVersion(format), format.firstVersion);
  if (unknown !== null) throw incompatible(file, unknown, unknownVersionAdvice);
  const stored = storedKind(db) ?? 'nothing';
  if (stored !== format.kind) {
    throw incompatible(
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
 * In one transaction, and only what no other process has done meanwhile: a kill leaves the old version or the new one.
 */
function bringUpToDate(db: Connection, options: DatabaseOptions): void {
  const { format } = options;
  db.transaction(() => {
    const version = inspect(db, options);
    if (version === 0) makeLedger(db, options);
    else for (const sql of format.migrations.slice(version - (format.firstVersion ?? 1))) db.exec(sql);
    db.pragma(`user_version = ${newestVersion(format)}`);
  }).immediate();
}

function makeLedger(db: Connection, { format, now }: DatabaseOptions): void {
  db.exec(format.sql);
  insertMeta(db, format.kind, now);
  db.pragma(`application_id = ${applicationId}`);
}

function incompatible(file: string, found: string, advice: string, cause?: unknown): SyncError {
  return new SyncError(`${file} cannot be used as a sink: ${found}. ${advice}`, {
    code: 'SINK_INCOMPATIBLE',
    recovery: 'stop',
    context: { file },
    cause,
  });
}
