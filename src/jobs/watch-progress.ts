import type { Queue } from 'bullmq';
import type { Redis } from 'ioredis';
import type { Clock } from '../core/clock.ts';
import { SyncError } from '../core/errors.ts';

export interface WatchedQueue {
  readonly queue: Queue;
  /** True when this process could take another job of it. */
  isFree(): boolean;
  /** Jobs taken here since the start. */
  taken(): number;
}

/**
 * Looks every `everyMs` whether jobs wait that this process could take and does not: a connection that died without a
 * word leaves a worker waiting for ever. Resolves when the signal is aborted.
 * Throws `SyncError` WORKER_STUCK: the process should end, so that its supervisor starts a new one.
 */
export async function watchProgress(options: {
  readonly redis: Redis;
  readonly queues: readonly WatchedQueue[];
  readonly everyMs: number;
  readonly isEasedOff: () => boolean;
  readonly clock: Clock;
  readonly signal: AbortSignal;
}): Promise<void> {
  const { redis, queues, everyMs, isEasedOff, clock, signal } = options;
  /** By queue: what was taken when jobs were first seen waiting. */
  const takenBefore = new Map<WatchedQueue, number>();
  while (await slept(clock, everyMs, signal)) {
    for (const watched of queues) {
      const overdue = isEasedOff() || !watched.isFree() ? 0 : await overdueJobs(redis, watched.queue);
      const taken = watched.taken();
      if (overdue > 0 && takenBefore.get(watched) === taken && !signal.aborted) throw stuck(overdue, everyMs);
      if (overdue > 0) takenBefore.set(watched, taken);
      else takenBefore.delete(watched);
    }
  }
}

/** Jobs that a worker could take now; 0 where Redis does not answer, since then nobody is to blame here. */
async function overdueJobs(redis: Redis, queue: Queue): Promise<number> {
  try {
    const counts = await queue.getJobCounts('waiting', 'prioritized');
    // Put-off jobs wait in a set of their own until a worker looks. Its scores are milliseconds, times 4096.
    const delayed = await redis.zcount(queue.toKey('delayed'), '-inf', Date.now() * 4096);
    return (counts['waiting'] ?? 0) + (counts['prioritized'] ?? 0) + delayed;
  } catch {
    return 0; // The queue's connection reports its errors itself.
  }
}

function slept(clock: Clock, ms: number, signal: AbortSignal): Promise<boolean> {
  return clock.sleep(ms, signal).then(
    () => true,
    () => false,
  );
}

function stuck(jobs: number, everyMs: number): SyncError {
  return new SyncError(
    `A worker should take the jobs that wait; ${jobs} wait and none was taken for ${everyMs / 1000} s, though Redis answers. ` +
      'The process ends so that its supervisor starts a new one.',
    { code: 'WORKER_STUCK', recovery: 'retry', context: { jobs, everyMs } },
  );
}
