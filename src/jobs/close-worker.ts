import type { Worker } from 'bullmq';
import type { Clock } from '../core/clock.ts';

/**
 * Ends the runs of all workers and closes them. Resolves with true when that was done in time, which it never is while
 * Redis is away: then with false after `graceMs`, and the jobs in hand are taken over by the next worker.
 */
export async function closeWorkers(
  workers: readonly Worker[],
  options: { readonly graceMs: number; readonly clock: Clock },
): Promise<boolean> {
  for (const worker of workers) worker.cancelAllJobs('the worker stops');
  const inTime = new AbortController();
  const closing = Promise.all(workers.map((worker) => worker.close())).then(
    () => true,
    () => false,
  );
  const late = options.clock.sleep(options.graceMs, inTime.signal).then(
    () => false,
    () => false,
  );
  const hasClosed = await Promise.race([closing, late]);
  inTime.abort();
  return hasClosed;
}
