import { chmodSync, existsSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { hasAtMostCharacters } from '../../core/names.ts';
import { SyncError } from '../../core/errors.ts';
import { noSpaceText, createPrivateDirectory, createPrivateFile } from '../../files/private-file.ts';
import { unknownVersion } from '../../sinks/sink-errors.ts';
import type { Values } from '../../sql/database.ts';
import { type Lock, takeLock } from '../../sql/sqlite/lock.ts';
import { type Connection, openSqlite } from '../../sql/sqlite/open-sqlite.ts';
import { storageFailure } from '../../sql/sqlite/sqlite-error.ts';
import { statementsOn } from '../../sql/sqlite/sqlite-tx.ts';

/**
 * Marks a SQLite file as the data of a service ("CSV2"); any other value in a file that has tables is a foreign
 * database, or of a development version.
 */
const stateApplicationId = 0x43_53_56_32;

/** The only version that is read. After the first release, a change of the tables raises it and needs a migration. */
const stateVersion = 1;

/**
 * `sequence` is the order of creation and is never used again. `tokens.hash`,
 * `applications.secret`: SHA-256; `expires_at`: milliseconds. `connectors.account`: which account at the third party
 * the connector belongs to; NULL: a sample account. `connectors.address`: where its credentials go.
 */
const stateSql = `
CREATE TABLE organizations (
  id TEXT PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  created_at TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE applications (
  sequence INTEGER PRIMARY KEY AUTOINCREMENT,
  client_id TEXT NOT NULL UNIQUE,
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  secret BLOB NOT NULL,
  created_at TEXT NOT NULL
) STRICT;

CREATE TABLE workspaces (
  sequence INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL UNIQUE,
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  name TEXT NOT NULL,
  created_at TEXT NOT NULL,
  updated_at TEXT NOT NULL,
  UNIQUE (organization_id, name),
  UNIQUE (id, organization_id)
) STRICT;
CREATE INDEX workspaces_in_order ON workspaces (organization_id, sequence);

CREATE TABLE connectors (
  sequence INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL UNIQUE,
  organization_id TEXT NOT NULL,
  workspace_id TEXT NOT NULL,
  definition TEXT NOT NULL,
  name TEXT NOT NULL,
  credentials BLOB,
  created_at TEXT NOT NULL,
  updated_at TEXT NOT NULL,
  account TEXT,
  address TEXT,
  FOREIGN KEY (workspace_id, organization_id) REFERENCES workspaces (id, organization_id)
) STRICT;
CREATE INDEX connectors_in_order ON connectors (organization_id, sequence);
CREATE INDEX connectors_by_workspace ON connectors (workspace_id, organization_id);

CREATE TABLE tokens (
  sequence INTEGER PRIMARY KEY AUTOINCREMENT,
  hash BLOB NOT NULL UNIQUE,
  kind TEXT NOT NULL CHECK (kind IN ('application', 'scoped')),
  client_id TEXT NOT NULL REFERENCES applications (client_id) ON DELETE CASCADE,
  workspace_id TEXT REFERENCES workspaces (id) ON DELETE CASCADE,
  expires_at INTEGER NOT NULL,
  CHECK ((kind = 'scoped') = (workspace_id IS NOT NULL))
) STRICT;
CREATE INDEX tokens_by_client ON tokens (client_id, sequence);
CREATE INDEX tokens_by_workspace ON tokens (workspace_id);
CREATE INDEX tokens_by_expiry ON tokens (expires_at);
`;

/** The database behind the parts of the state. Errors of SQLite leave it as `SyncError`s. */
export type StateFile = ReturnType<typeof openStateFile>;

const busyMs = 5_000;

/**
 * `<folder>/service.db`; null: in memory. Throws as `openServiceState` does. `isShared`: another process may hold it,
 * as a service that runs does.
 */
export function openStateFile(folder: string | null, isShared = false) {
  const name = folder === null ? ':memory:' : join(folder, 'service.db');
  const guarded = <Result>(work: () => Result): Result => {
    try {
      return work();
    } catch (error) {
      throw toStateError(error, name);
    }
  };
  let lock: Lock | null = null;
  let db: Connection | null = null;
  const close = (): void => {
    db?.close();
    lock?.release();
    lock = null;
  };
  try {
    return guarded(() => {
      if (folder !== null) {
        lock = lockFolder(folder, isShared);
        createPrivateFile(name);
        makePrivate(name);
      }
      const opened = openSqlite(name, { timeout: busyMs });
      db = opened;
      prepare(opened, name);
      const statements = statementsOn(opened);
      return {
        db: opened,
        /** Statements, rows and values as `Tx` has them. `one`: of a row that must be there. */
        ask: <Row extends object>(sql: string, values: Values = {}) => {
          const all: readonly Row[] = guarded(() => statements.rows(sql, values) as Row[]);
          const [first] = all;
          return { all, first, one: () => first ?? lost() };
        },
        /** Returns the number of rows that the statement wrote. */
        run: (sql: string, values: Values = {}): number => guarded(() => statements.run(sql, values)),
        /** One IMMEDIATE transaction: all of `work` or nothing. */
        write: <Result>(work: () => Result): Result => guarded(() => opened.transaction(work).immediate()),
        /** Idempotent. */
        close,
      };
    });
  } catch (error) {
    close();
    throw error;
  }
}

function lost(): never {
  throw new SyncError('A row that was just stored is missing.', { code: 'INTERNAL', recovery: 'stop' });
}

/**
 * Null: another process has it, and it may be shared. Recovery `retry`: the process that has it may be about to end.
 */
function lockFolder(folder: string, isShared: boolean): Lock | null {
  createPrivateDirectory(folder);
  const lock = takeLock(join(folder, 'service.lock'));
  if (lock !== null || isShared) return lock;
  throw new SyncError(
    `Another process serves the data in ${folder}; expected to have it alone. End that process first, or name another folder with --data.`,
    { code: 'USAGE', recovery: 'retry', context: { folder } },
  );
}

/** A copy that was put back may have any mode. Files that SQLite makes beside the file take the file's. */
function makePrivate(file: string): void {
  for (const path of [file, `${file}-wal`, `${file}-shm`]) {
    if (existsSync(path) && (statSync(path).mode & 0o077) !== 0) chmodSync(path, 0o600);
  }
}

function prepare(db: Connection, name: string): void {
  const version = inspect(db, name);
  db.pragma('journal_mode = WAL');
  db.pragma('synchronous = FULL');
  db.pragma('foreign_keys = ON');
  db.pragma('trusted_schema = OFF');
  db.pragma('cell_size_check = ON');
  // Overwrites deleted and replaced values on disk: hashes and sealed credentials too.
  db.pragma('secure_delete = ON');
  if (version === stateVersion) return;
  db.transaction(() => {
    db.exec(stateSql);
    db.pragma(`application_id = ${stateApplicationId}`);
    db.pragma(`user_version = ${stateVersion}`);
  }).immediate();
}

/** The version of the state in the file, 0 where it is empty. Reads only: a foreign file stays unchanged. */
function inspect(db: Connection, file: string): number {
  const owner = Number(db.pragma('application_id', { simple: true }));
  const version = Number(db.pragma('user_version', { simple: true }));
  const tables = db.prepare<[], number>('SELECT count(*) FROM sqlite_schema').pluck().get() ?? 0;
  if (owner === 0 && version === 0 && tables === 0) return 0;
  const found =
    owner === stateApplicationId
      ? unknownVersion(version, stateVersion)
      : 'it is a database of another program, or of a development version';
  if (found === null) return version;
  throw new SyncError(
    `${file} cannot be used as the service's data: ${found}. Use the connector-sync that wrote it. Or keep it, and name another ` +
      'folder with --data: applications, workspaces and connectors must be made there again, with their credentials; the sinks stay ' +
      'as they are.',
    { code: 'SINK_INCOMPATIBLE', recovery: 'stop', context: { file } },
  );
}

/**
 * Explains a failure of SQLite or of the file system for the service's data in `file`. `SyncError`s and programming
 * errors are returned unchanged.
 */
export function toStateError(error: unknown, file: string): unknown {
  const failure = storageFailure(error);
  if (failure === null) return error;
  const { code, reason, isFull } = failure;
  const context = { file, cause: code };
  if (isFull) {
    return new SyncError(
      `${noSpaceText(file, code)}; nothing of the last change to the service's data was stored. Free space and try again.`,
      { code: 'SINK_FULL', recovery: 'retry', context, cause: error },
    );
  }
  return new SyncError(
    `The service's data in ${file} could not be read or written (${reason}). Check the file, its folder and the disk.`,
    { code: 'SINK_FAILED', recovery: 'stop', context, cause: error },
  );
}

export const maxNameLength = 255;

// Controls, line and paragraph separators, and what changes the reading order or cannot be seen.
// oxlint-disable-next-line no-control-regex
const unseen = /[\u0000-\u001f\u007f-\u009f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff]/;

/** Rule for names, for messages. */
export const plainNameRule = `1 to ${maxNameLength} characters that can be seen, none of them at the ends a space`;

/** True for a name that can be shown anywhere without misleading, and is stored unchanged. */
export function isPlainName(text: string): boolean {
  return (
    text.length > 0 &&
    hasAtMostCharacters(text, maxNameLength) &&
    text.trim() === text &&
    text.isWellFormed() &&
    !unseen.test(text)
  );
}
