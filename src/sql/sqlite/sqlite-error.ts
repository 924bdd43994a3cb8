import Database from 'better-sqlite3';
import { saysFull } from '../../files/full-disk.ts';

export interface StorageFailure {
  /** Of SQLite, or of the system call. */
  readonly code: string;
  readonly isFull: boolean;
  /** The message, with the code once: a system call's message begins with it, SQLite's does not hold it. */
  readonly reason: string;
}

/** What failed in SQLite or the file system; null for every other error. */
export function storageFailure(error: unknown): StorageFailure | null {
  if (!(error instanceof Error) || !('code' in error) || typeof error.code !== 'string') return null;
  if (!isSqliteError(error) && !('syscall' in error)) return null;
  const { code, message } = error;
  const reason = message.startsWith(`${code}: `) ? message : `${code}: ${message}`;
  return { code, isFull: saysFull(code), reason };
}

/** Whether SQLite itself has refused something. */
export function isSqliteError(error: unknown): error is InstanceType<typeof Database.SqliteError> {
  return error instanceof Database.SqliteError;
}

export function isBusy(error: unknown): boolean {
  return isSqliteError(error) && /^SQLITE_(BUSY|LOCKED)/.test(error.code);
}

/** The file is no database of SQLite. */
export function isNoDatabase(error: unknown): boolean {
  return error instanceof Database.SqliteError && error.code === 'SQLITE_NOTADB';
}
