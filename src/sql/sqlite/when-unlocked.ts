import type { Clock } from '../../core/clock.ts';
import { isBusy } from './sqlite-error.ts';

/** How to wait while another program holds the write lock of a file. */
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
