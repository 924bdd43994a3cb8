import type { Queue } from 'bullmq';
import type { Redis } from 'ioredis';
import { slept } from '../core/clock.ts';
import { SyncError } from '../core/errors.ts';
import type { ServedQueue } from './serve-queues.ts';
import type { WorkerContext } from './worker-context.ts';

type WatchedQueue = Pick<ServedQueue, 'queue' | 'isFree' | 'taken'>;

/**
 * Checks at an interval whether jobs wait that this process could take but does not: a connection that breaks without
 * an error leaves a worker waiting forever. Resolves when the worker stops. Throws `SyncError` WORKER_STUCK: the
 * process should exit, so that its supervisor restarts it.
 */
export async function watchProgress(
  { queues: { redis }, clock, stopping: signal, timings }: WorkerContext,
  served: readonly WatchedQueue[],
  takesNone: () => boolean,
): Promise<void> {
  const everyMs = timings.watchdogMs;
  /** By queue: the count of taken jobs when waiting jobs were first seen. */
  const takenBefore = new Map<WatchedQueue, number>();
  while (await slept(clock, everyMs, signal)) {
    for (const watched of served) {
      const overdue = takesNone() || !watched.isFree() ? 0 : await overdueJobs(redis, watched.queue);
      const taken = watched.taken();
      if (overdue > 0 && takenBefore.get(watched) === taken && !signal.aborted) throw stuck(overdue, everyMs);
      if (overdue > 0) takenBefore.set(watched, taken);
      else takenBefore.delete(watched);
    }
  }
}

/** Jobs that a worker could take now; 0 if Redis does not answer, because then the worker is not stuck. */
async function overdueJobs(redis: Redis, queue: Queue): Promise<number> {
  try {
    const counts = await queue.getJobCounts('waiting', 'prioritized');
    // Delayed jobs stay in a separate set until a worker promotes them. Its scores are milliseconds times 4096.
    const delayed = await redis.zcount(queue.toKey('delayed'), '-inf', Date.now() * 4096);
    return (counts['waiting'] ?? 0) + (counts['prioritized'] ?? 0) + delayed;
  } catch {
    return 0; // The queue's connection reports its errors itself.
  }
}

function stuck(jobs: number, everyMs: number): SyncError {
  return new SyncError(
    `The worker is stuck: Redis answers and jobs wait (${jobs}), but it took none for ${everyMs / 1000} s. ` +
      'The process exits so that its supervisor restarts it.',
    { code: 'WORKER_STUCK', recovery: 'retry', context: { jobs, everyMs } },
  );
}

/**
 * Checks at an interval whether each sink is still in place, and logs once when it disappears and when it is
 * back. Calls `holdQueues` after every check. Resolves when the worker stops.
 */
export async function watchSinks(
  { sinks, ledger, log, clock, closing, timings }: WorkerContext,
  holdQueues: () => Promise<void>,
): Promise<void> {
  const logged = new Set<string>();
  while (await slept(clock, timings.sinkWatchMs, closing)) {
    for (const { name: sink } of sinks) {
      const found = await ledger.lost(sink);
      if (found === null && logged.delete(sink)) {
        log.info({ sink }, 'this sink is back in place');
      }
      if (found === null || logged.has(sink)) continue;
      logged.add(sink);
      log.error(
        { sink, found },
        'this sink was moved or replaced, or is out of reach: its jobs wait until it is back. Restart the worker to use what is in its place',
      );
    }
    await holdQueues();
  }
}

/** For people, without paths: a problem for each sink that is not served because it is not in its place. */
export async function lostSinks({ sinks, ledger }: WorkerContext): Promise<readonly string[]> {
  const found = await Promise.all(sinks.map(({ name }) => ledger.lost(name)));
  return sinks
    .filter((_, index) => found[index] !== null)
    .map(
      ({ name }) =>
        `sink ${name} was moved or replaced, or is out of reach; its jobs wait until it is back, or the worker is restarted to use what is in its place`,
    );
}
