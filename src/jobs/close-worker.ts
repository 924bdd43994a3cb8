import type { Worker } from 'bullmq';
import type { Clock } from '../core/clock.ts';

export interface CloseOptions {
  readonly graceMs: number;
  readonly clock: Clock;
  /** Whether a run has not come to its end yet: only a run is worth the whole grace. */
  readonly isRunInHand: () => boolean;
}

const lookEveryMs = 50;
/** A Redis that answers needs milliseconds to take the jobs back; one that is away would keep everybody waiting. */
const unregisterMs = 2000;

/**
 * Ends the runs of all workers and closes them. Resolves with true when that was done in time, which it never is while
 * Redis is away: then with false, two seconds after the last run ended and after `graceMs` at the latest, and the jobs in
 * hand are taken over by the next worker.
 */
export async function closeWorkers(workers: readonly Worker[], options: CloseOptions): Promise<boolean> {
  for (const worker of workers) worker.cancelAllJobs('the worker stops');
  const inTime = new AbortController();
  const closing = Promise.all(workers.map((worker) => worker.close())).then(
    () => true,
    () => false,
  );
  const late = outOfPatience(options, inTime.signal).then(
    () => false,
    () => false,
  );
  const hasClosed = await Promise.race([closing, late]);
  inTime.abort();
  return hasClosed;
}

/** Rejects when the signal is aborted. */
async function outOfPatience(
  { graceMs, clock, isRunInHand }: CloseOptions,
  signal: AbortSignal,
): Promise<void> {
  const endMs = clock.now() + graceMs;
  while (isRunInHand() && clock.now() < endMs) await clock.sleep(lookEveryMs, signal);
  await clock.sleep(Math.max(0, Math.min(unregisterMs, endMs - clock.now())), signal);
}
