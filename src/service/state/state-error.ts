import Database from 'better-sqlite3';
import { SyncError } from '../../core/errors.ts';

const fullCodes: ReadonlySet<string> = new Set(['SQLITE_FULL', 'ENOSPC', 'EDQUOT']);

/**
 * Says what a failure of SQLite or of the file system means for the service's data in `file`. `SyncError`s and programming
 * errors are given back as they came.
 */
export function toStateError(error: unknown, file: string): unknown {
  const code = storageCode(error);
  if (code === null || !(error instanceof Error)) return error;
  const context = { file, cause: code };
  if (code === 'SQLITE_NOTADB') {
    return new SyncError(
      `${file} cannot be used as the service's data: it is no SQLite database. Name another folder with --data.`,
      { code: 'SINK_INCOMPATIBLE', recovery: 'stop', context, cause: error },
    );
  }
  if (fullCodes.has(code)) {
    return new SyncError(
      `No space is left for the service's data in ${file}; nothing of the last change was stored. Free space and try again.`,
      { code: 'SINK_FULL', recovery: 'retry', context, cause: error },
    );
  }
  // A system call's message begins with its code, SQLite's does not hold it.
  const reason = error.message.startsWith(`${code}: `) ? error.message : `${code}: ${error.message}`;
  return new SyncError(
    `The service's data in ${file} could not be read or written (${reason}). Check the file, its folder and the disk.`,
    { code: 'SINK_FAILED', recovery: 'stop', context, cause: error },
  );
}

/** The code of a SQLite or system call error; null for everything else. */
function storageCode(error: unknown): string | null {
  if (error instanceof Database.SqliteError) return error.code;
  const isSystemCall = error instanceof Error && 'syscall' in error && 'code' in error;
  return isSystemCall && typeof error.code === 'string' ? error.code : null;
}
