import Database from 'better-sqlite3';
import type { Clock } from '../../core/clock.ts';
import { saysFull } from '../../files/private-file.ts';

export type StorageFailure = NonNullable<ReturnType<typeof storageFailure>>;

/**
 * Describes a failure of SQLite or the file system; null for every other error. `code`: of SQLite or of the system
 * call. `reason`: the message, with the code once: a system call's message begins with it, SQLite's does not hold it.
 */
export function storageFailure(error: unknown) {
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

/** Error for a busy state that SQLite reports by a return value; elsewhere it throws this error. */
export function busyError(reason: string): Error {
  return new Database.SqliteError(reason, 'SQLITE_BUSY');
}

/** The file is no database of SQLite. */
export function isNoDatabase(error: unknown): boolean {
  return error instanceof Database.SqliteError && error.code === 'SQLITE_NOTADB';
}

/** Wait while another program holds the write lock of a file. */
export interface LockWait {
  readonly lockTimeoutMs: number;
  readonly clock: Clock;
  readonly signal?: AbortSignal | undefined;
}

/**
 * SQLite waits this long by itself, and blocks the process meanwhile: timers that keep a job's lock must come through.
 */
export const blockingMs = 250;
const longestPauseMs = 250;

/** Another program held the write lock for longer than the wait allows. */
export class LockedError extends Error {
  override readonly name = 'LockedError';
  readonly waitedMs: number;

  constructor(waitedMs: number, cause: unknown) {
    super(`The write lock was not free within ${Math.round(waitedMs)} ms`, { cause });
    this.waitedMs = waitedMs;
  }
}

/**
 * Tries `attempt` until the lock is free, without blocking the process. Throws `LockedError` after `lockTimeoutMs`, the
 * signal's reason when aborted.
 */
export async function whenUnlocked<Result>(wait: LockWait, attempt: () => Result): Promise<Result> {
  const startedMs = performance.now();
  for (let pauseMs = 5; ; pauseMs = Math.min(2 * pauseMs, longestPauseMs)) {
    try {
      return attempt();
    } catch (error) {
      if (!isBusy(error)) throw error;
      const waitedMs = performance.now() - startedMs;
      if (waitedMs >= wait.lockTimeoutMs) throw new LockedError(waitedMs, error);
    }
    await wait.clock.sleep(pauseMs, wait.signal);
  }
}
