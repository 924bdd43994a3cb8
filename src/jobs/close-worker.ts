import type { Worker } from 'bullmq';
import type { Clock } from '../core/clock.ts';

export interface CloseOptions {
  readonly graceMs: number;
  readonly clock: Clock;
  /** Whether a run is active: only runs get the whole grace period. */
  readonly isRunActive: () => boolean;
}

const lookEveryMs = 50;
/** Returning the jobs takes milliseconds when Redis answers, and never ends during an outage. */
const unregisterMs = 2000;

/**
 * Ends the runs of all workers and closes them. Resolves with true if that was done in time. Otherwise, as always while
 * Redis is down, resolves with false two seconds after the last run ended and after `graceMs` at the latest; the next
 * worker then takes over the active jobs.
 */
export async function closeWorkers(workers: readonly Worker[], options: CloseOptions): Promise<boolean> {
  for (const worker of workers) worker.cancelAllJobs('the worker is stopping');
  const inTime = new AbortController();
  const closing = Promise.all(workers.map((worker) => worker.close())).then(
    () => true,
    () => false,
  );
  const late = closeTimeout(options, inTime.signal).then(
    () => false,
    () => false,
  );
  const hasClosed = await Promise.race([closing, late]);
  inTime.abort();
  return hasClosed;
}

/** Rejects when the signal is aborted. */
async function closeTimeout(
  { graceMs, clock, isRunActive }: CloseOptions,
  signal: AbortSignal,
): Promise<void> {
  const endMs = clock.now() + graceMs;
  while (isRunActive() && clock.now() < endMs) await clock.sleep(lookEveryMs, signal);
  await clock.sleep(Math.max(0, Math.min(unregisterMs, endMs - clock.now())), signal);
}
