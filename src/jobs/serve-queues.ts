import { Worker, type Job, type Queue } from 'bullmq';
import type { Redis } from 'ioredis';
import type { ConnectorName } from '../core/names.ts';
import type { WorkerBackoff } from './open-worker-backoff.ts';
import { createJobProcessor } from './process-job.ts';
import { createTickProcessor } from './process-tick.ts';
import {
  createPublicationProcessor,
  mostAtATime,
  publicationTurns,
} from './publications/process-publication.ts';
import { sinkOfTarget, type WorkerContext } from './worker-context.ts';
import { lockLost } from './settle-run.ts';
import type { WatchedQueue } from './watch-worker.ts';

export interface ServedQueue {
  readonly worker: Worker;
  readonly watched: WatchedQueue;
  /** While held, it takes no new jobs; active jobs continue. */
  readonly hold: (isHeld: boolean) => Promise<void>;
  readonly isHeld: () => boolean;
}

interface ServeOptions {
  /** Without a command timeout. */
  readonly redis: Redis;
  readonly onLockLost: () => void;
}

/** The queue of ticks, then those of publications, then the queue of each sink. */
export function serveQueues(context: WorkerContext, options: ServeOptions): readonly ServedQueue[] {
  const { queues, concurrency } = context;
  const suspects = new Set<ConnectorName>();
  const turns = publicationTurns();
  // A scheduler adds a new job even after a crash, so the crash limit must count starts.
  const ofTicks = { concurrency: 1, maxStartedAttempts: 3 };
  return [
    serveQueue(context, options, queues.ticks, createTickProcessor(context), ofTicks),
    ...context.sinks
      .filter(({ name }) => context.targets.some((target) => sinkOfTarget(target) === name))
      .map((sink) => {
        const queue = queues.publications(sink.id);
        const processor = createPublicationProcessor({ ...context, sinkName: sink.name, queue, turns });
        return serveQueue(context, options, queue, processor, { concurrency: mostAtATime });
      }),
    ...context.sinks.map((sink) => {
      const queue = queues.syncs(sink.id);
      const processor = createJobProcessor({ ...context, sinkName: sink.name, queue, suspects });
      return serveQueue(context, options, queue, processor, { concurrency });
    }),
  ];
}

interface SinkStates {
  readonly isServed: (sink: string) => Promise<boolean>;
  /** Of runs, which publications need no slots of. */
  readonly isFull: (sink: string) => boolean;
}

/**
 * Holds the queues of each sink that cannot be served now: a newer config has it or its file is missing; where every
 * slot is taken, that of its runs alone.
 */
export async function holdUnserved(
  { sinks, queues }: WorkerContext,
  served: readonly ServedQueue[],
  { isServed, isFull }: SinkStates,
  backoff: WorkerBackoff,
): Promise<void> {
  // During backoff all queues are paused; `backoff` resumes them.
  if (backoff.why() !== null) return;
  for (const sink of sinks) {
    const isAway = !(await isServed(sink.name));
    const isHeld = new Map([
      [queues.syncs(sink.id), isAway || isFull(sink.name)],
      [queues.publications(sink.id), isAway],
    ]);
    for (const { watched, hold } of served) {
      const isToHold = isHeld.get(watched.queue);
      if (isToHold !== undefined) await hold(isToHold);
    }
  }
}

/**
 * Takes a queue's jobs once `worker.run()` is called. `maxStartedAttempts`: BullMQ fails a job after that many starts
 * that crashed the process; absent: the processor counts them.
 */
function serveQueue(
  { queues, timings, onError }: WorkerContext,
  { redis, onLockLost }: ServeOptions,
  queue: Queue,
  processor: (job: Job, token: string | undefined, signal: AbortSignal | undefined) => Promise<unknown>,
  limits: { readonly concurrency: number; readonly maxStartedAttempts?: number },
): ServedQueue {
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
    ...limits,
    connection: redis,
    prefix: queues.prefix,
    autorun: false,
    lockDuration: timings.lockMs,
    stalledInterval: timings.stalledMs,
    drainDelay: timings.drainDelayS,
    // A job that stalled in several deploys or crashes but made progress is not poison; the processor counts starts
    // instead.
    maxStalledCount: 1000,
  });
  worker.on('error', onError);
  // Without the lock another worker may start the same run, so this one must stop writing soon.
  worker.on('lockRenewalFailed', (jobIds) => {
    for (const id of jobIds) worker.cancelJob(id, lockLost);
    onLockLost();
  });
  return {
    worker,
    watched: { queue, isFree: () => !isHeld && active < limits.concurrency, taken: () => taken },
    hold: async (hold) => {
      if (hold === isHeld) return;
      isHeld = hold;
      if (hold) await worker.pause(true);
      else await worker.resume();
    },
    isHeld: () => isHeld,
  };
}

const lookEveryMs = 50;
/** Returning the jobs takes milliseconds when Redis answers, and never ends during an outage. */
const unregisterMs = 2000;

/**
 * Ends the runs of all workers and closes them. Resolves with true if that was done in time. Otherwise, as always while
 * Redis is down, resolves with false two seconds after the last run ended and after `graceMs` at the latest; the next
 * worker then takes over the active jobs.
 */
export async function closeWorkers(
  { clock, running, publishing }: WorkerContext,
  workers: readonly Worker[],
  graceMs: number,
): Promise<boolean> {
  for (const worker of workers) worker.cancelAllJobs('the worker is stopping');
  const inTime = new AbortController();
  const closing = Promise.all(workers.map((worker) => worker.close()));
  const late = async (): Promise<boolean> => {
    const endMs = clock.now() + graceMs;
    // Only runs and publications get the whole grace period.
    const isBusy = (): boolean => running.size + publishing.size > 0;
    while (isBusy() && clock.now() < endMs) await clock.sleep(lookEveryMs, inTime.signal);
    await clock.sleep(Math.max(0, Math.min(unregisterMs, endMs - clock.now())), inTime.signal);
    return false;
  };
  const hasClosed = await Promise.race([closing.then(() => true), late()]).catch(() => false);
  inTime.abort();
  return hasClosed;
}
