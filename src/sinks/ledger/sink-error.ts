import Database from 'better-sqlite3';
import { SyncError } from '../../core/errors.ts';

const fullCodes: ReadonlySet<string> = new Set(['SQLITE_FULL', 'ENOSPC', 'EDQUOT']);

/**
 * Says what a failure of SQLite or of the file system means for the sink kept at `file`. A full disk and a writer that
 * holds the file are gone some day (`retry`); the rest somebody must mend.
 * `SyncError`s and programming errors are given back as they came.
 */
export function toSinkError(error: unknown, file: string): unknown {
  const code = storageCode(error);
  if (code === null || !(error instanceof Error)) {
    return error;
  }
  if (fullCodes.has(code)) {
    return new SyncError(
      `No space is left for the sink at ${file}; nothing of the last commit was stored. Free space and sync again.`,
      { code: 'SINK_FULL', recovery: 'retry', context: { file, cause: code }, cause: error },
    );
  }
  const busy = code.startsWith('SQLITE_BUSY') || code.startsWith('SQLITE_LOCKED');
  return new SyncError(
    busy
      ? `The sink at ${file} stayed locked by another writer for 5 s; expected short transactions only. ` +
          'Close programs that hold a write transaction on it and sync again.'
      : `The sink at ${file} could not be read or written (${reasonOf(code, error)}). Check the file, its folder and the disk.`,
    {
      code: 'SINK_FAILED',
      recovery: busy ? 'retry' : 'stop',
      context: { file, cause: code },
      cause: error,
    },
  );
}

/** The code once: a system call's message begins with it, SQLite's does not hold it. */
function reasonOf(code: string, { message }: Error): string {
  return message.startsWith(`${code}: `) ? message : `${code}: ${message}`;
}

export function isBusy(error: unknown): boolean {
  return error instanceof Database.SqliteError && error.code.startsWith('SQLITE_BUSY');
}

/** The code of a SQLite or system call error; null for everything else. */
function storageCode(error: unknown): string | null {
  if (error instanceof Database.SqliteError) {
    return error.code;
  }
  const isSystemCall = error instanceof Error && 'syscall' in error && 'code' in error;
  return isSystemCall && typeof error.code === 'string' ? error.code : null;
}
