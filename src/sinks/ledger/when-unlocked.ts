import Database from 'better-sqlite3';
import type { Clock } from '../../core/clock.ts';
import { SyncError } from '../../core/errors.ts';

/** How a sink waits while another program holds the write lock of its file. */
export interface LockWait {
  readonly file: string;
  readonly lockTimeoutMs: number;
  readonly clock: Clock;
  /** Ends a wait. */
  readonly signal?: AbortSignal;
}

/** SQLite waits this long by itself, and blocks the process meanwhile: timers that keep a job's lock must come through. */
export const blockingMs = 250;
export const defaultLockTimeoutMs = 60_000;
const longestPauseMs = 250;

/** Tries `attempt` until the lock is free, without blocking the process. Throws `SyncError` SINK_FAILED after `lockTimeoutMs`, the signal's reason when aborted. */
export async function whenUnlocked<Result>(wait: LockWait, attempt: () => Result): Promise<Result> {
  const startedMs = performance.now();
  for (let pauseMs = 5; ; pauseMs = Math.min(2 * pauseMs, longestPauseMs)) {
    try {
      return attempt();
    } catch (error) {
      if (!isBusy(error)) throw error;
      const waitedMs = performance.now() - startedMs;
      if (waitedMs >= wait.lockTimeoutMs) throw lockedError(wait.file, waitedMs, error);
    }
    await wait.clock.sleep(pauseMs, wait.signal);
  }
}

export function isBusy(error: unknown): boolean {
  return error instanceof Database.SqliteError && /^SQLITE_(BUSY|LOCKED)/.test(error.code);
}

/** Tells from the lock of one connector, which names its holder: this one any program can take. */
export function lockedError(file: string, waitedMs: number, cause: unknown): SyncError {
  const waited = waitedMs < 1_000 ? 'now' : `for ${Math.round(waitedMs / 1_000)} s`;
  return new SyncError(
    `The sink's database ${file} could not be written: another program holds its write lock (waited ${waited}). ` +
      'It may be a database browser or a sqlite3 shell with an open transaction, a backup, or another sync. ' +
      "Close it or end its transaction and sync again; the sink's lockTimeout says how long to wait.",
    { code: 'SINK_FAILED', recovery: 'retry', context: { file, cause: 'SQLITE_BUSY' }, cause },
  );
}
