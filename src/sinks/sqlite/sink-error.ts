import { statSync } from 'node:fs';
import { SyncError } from '../../core/errors.ts';
import { isBusy, LockedError, storageFailure, type StorageFailure } from '../../sql/sqlite/sqlite-error.ts';
import { noSpaceText } from '../../files/full-disk.ts';

/**
 * What a failure of SQLite or the file system means for the sink at `file`. A full disk and a lock are temporary
 * (`retry`); a person must repair the rest. Other errors come back as they are.
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

/** The system's message names the path: often it is a file beside the sink's. */
function failureText({ code, reason }: StorageFailure): string {
  if (code === 'EROFS' || code.startsWith('SQLITE_READONLY')) {
    return (
      `is read-only (${reason}); a sync must be able to write it. Mount the disk for writing, ` +
      'or make the file and its folder writable for the user that syncs, then sync again.'
    );
  }
  if (code === 'EACCES' || code === 'EPERM' || code === 'SQLITE_PERM' || code === 'SQLITE_AUTH') {
    return (
      `may not be written by this user (${reason}). Make the file and its folder writable for the user that syncs ` +
      '(owner, mode, and no immutable flag), then sync again.'
    );
  }
  return `could not be read or written (${reason}). Check the file, its folder and the disk.`;
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
 * Which file is at a path, as device and inode; null where there is none. Throws the system's error where that cannot
 * be known.
 */
export function fileAt(path: string): string | null {
  const stats = statSync(path, { bigint: true, throwIfNoEntry: false });
  return stats === undefined ? null : `${stats.dev}:${stats.ino}`;
}

/**
 * Remembers which file is at `path`. The check throws SINK_MOVED once another one, or none, is there: SQLite would
 * continue to write into an unlinked file.
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
