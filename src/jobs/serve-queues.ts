import { Worker, type Job, type Queue } from 'bullmq';
import type { Redis } from 'ioredis';
import type { ConnectorName } from '../core/names.ts';
import type { WorkerBackoff } from './open-worker-backoff.ts';
import { createJobProcessor } from './process-job.ts';
import { createTickProcessor } from './process-tick.ts';
import { lockLost } from './run-job.ts';
import type { WatchedQueue } from './watch-progress.ts';
import type { WorkerContext } from './worker-context.ts';
import type { WorkerTimings } from './worker-timings.ts';

export interface ServedQueue {
  readonly worker: Worker;
  readonly watched: WatchedQueue;
  /** While held, it takes no new jobs; active jobs continue. */
  hold(isHeld: boolean): Promise<void>;
  readonly isHeld: () => boolean;
}

/** The queue of ticks, then the queue of each sink. Commands on `redis` have no timeout. */
export function serveQueues(
  context: WorkerContext,
  { redis, onLockLost }: { readonly redis: Redis; readonly onLockLost: () => void },
): readonly ServedQueue[] {
  const { queues, timings, concurrency, onError } = context;
  const { retryDelayMs } = timings;
  const suspects = new Set<ConnectorName>();
  const shared = { redis, prefix: queues.prefix, timings, onError, onLockLost };
  return [
    serveQueue(queues.ticks, createTickProcessor({ ...context, retryDelayMs }), {
      ...shared,
      concurrency: 1,
      // A scheduler adds a new job even after a crash, so the crash limit must count starts.
      maxStartedAttempts: 3,
    }),
    ...context.sinks.map((sink) => {
      const queue = queues.syncs(sink.id);
      const processor = createJobProcessor({
        ...context,
        sinkName: sink.name,
        queue,
        suspects,
      });
      return serveQueue(queue, processor, { ...shared, concurrency, maxStartedAttempts: null });
    }),
  ];
}

/** Holds the queue of each sink that cannot be served now: a newer config has it, its file is missing, or every slot is taken. */
export async function holdUnserved(
  { sinks, queues }: WorkerContext,
  served: readonly ServedQueue[],
  isServed: (sink: string) => Promise<boolean>,
  backoff: WorkerBackoff,
): Promise<void> {
  // During backoff all queues are paused; `backoff` resumes them.
  if (backoff.why() !== null) return;
  for (const sink of sinks) {
    const one = served.find(({ watched }) => watched.queue === queues.syncs(sink.id));
    await one?.hold(!(await isServed(sink.name)));
  }
}

interface ServeOptions {
  /** Without a command timeout. */
  readonly redis: Redis;
  readonly prefix: string;
  readonly timings: WorkerTimings;
  readonly concurrency: number;
  /** BullMQ fails a job after that many starts that crashed the process; null: the processor counts them. */
  readonly maxStartedAttempts: number | null;
  readonly onError: (error: Error) => void;
  readonly onLockLost: () => void;
}

/** Takes a queue's jobs once `worker.run()` is called. */
function serveQueue(
  queue: Queue,
  processor: (job: Job, token: string | undefined, signal: AbortSignal | undefined) => Promise<unknown>,
  options: ServeOptions,
): ServedQueue {
  const { redis, prefix, timings, concurrency, maxStartedAttempts, onError, onLockLost } = options;
  let taken = 0;
  let isHeld = false;
  let active = 0;
  // Must declare three parameters: BullMQ passes a signal only to a function with that `length`.
  const counted = async (
    job: Job,
    token: string | undefined,
    signal: AbortSignal | undefined,
  ): Promise<unknown> => {
    taken += 1;
    active += 1;
    try {
      return await processor(job, token, signal);
    } finally {
      active -= 1;
    }
  };
  const worker = new Worker(queue.name, counted, {
    connection: redis,
    prefix,
    autorun: false,
    concurrency,
    lockDuration: timings.lockMs,
    stalledInterval: timings.stalledMs,
    drainDelay: timings.drainDelayS,
    // A job that stalled in several deploys or crashes but made progress is not poison; the processor counts starts instead.
    maxStalledCount: 1000,
    ...(maxStartedAttempts === null ? {} : { maxStartedAttempts }),
  });
  worker.on('error', onError);
  // Without the lock another worker may start the same run, so this one must stop writing soon.
  worker.on('lockRenewalFailed', (jobIds) => {
    for (const id of jobIds) worker.cancelJob(id, lockLost);
    onLockLost();
  });
  return {
    worker,
    watched: { queue, isFree: () => !isHeld && active < concurrency, taken: () => taken },
    hold: async (hold) => {
      if (hold === isHeld) return;
      isHeld = hold;
      if (hold) await worker.pause(true);
      else await worker.resume();
    },
    isHeld: () => isHeld,
  };
}
