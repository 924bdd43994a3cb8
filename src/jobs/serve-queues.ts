import { createHash } from 'node:crypto';
import { Worker, type Job, type Queue } from 'bullmq';
import type { Redis } from 'ioredis';
import { slept } from '../core/clock.ts';
import type { ConnectorName } from '../core/names.ts';
import type { Schedule } from '../settings/settings.ts';
import { parseTickJob, type ConnectorTick } from './job-payloads.ts';
import { addPublication, addSync, tickSettings } from './open-queue-set.ts';
import { firstRestMs, longestRestMs, refusalOf } from './open-worker-backoff.ts';
import { createJobProcessor } from './process-job.ts';
import { createPublicationProcessor, mostAtATime, publicationTurns } from './process-publication.ts';
import { type JobProcessor, lockLost } from './settle-run.ts';
import { sinkOfTarget, type WorkerContext } from './worker-context.ts';

export type ServedQueue = ReturnType<typeof serveQueue>;

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

/** Lock errors are no faults of Redis: the lock expired, or the job ended or moved. `attemptJob` logs a lost lock. */
const lockErrors = /^(could not renew lock|Missing lock|Lock mismatch) for job /;

/**
 * Takes a queue's jobs once `worker.run()` is called. `maxStartedAttempts`: BullMQ fails a job after that many starts
 * that crashed the process; absent: the processor counts them.
 */
function serveQueue(
  { queues, timings, onError }: WorkerContext,
  { redis, onLockLost }: ServeOptions,
  queue: Queue,
  processor: JobProcessor,
  limits: { readonly concurrency: number; readonly maxStartedAttempts?: number },
) {
  let taken = 0;
  let isHeld = false;
  const active = new Set<Job>();
  const counted: JobProcessor = async (job, token, signal) => {
    taken += 1;
    active.add(job);
    try {
      return await processor(job, token, signal);
    } finally {
      active.delete(job);
    }
  };
  const worker = new Worker(queue.name, counted, {
    ...limits,
    connection: redis,
    prefix: queues.prefix,
    settings: tickSettings,
    autorun: false,
    lockDuration: timings.lockMs,
    stalledInterval: timings.stalledMs,
    drainDelay: timings.drainDelayS,
    // A job that stalled in several deploys or crashes but made progress is not poison; the processor counts starts
    // instead.
    maxStalledCount: 1000,
  });
  worker.on('error', (error) => {
    if (!lockErrors.test(error.message)) onError(error);
  });
  // Without the lock another worker may start the same run, so this one must stop writing soon. A job that has ended
  // or that this worker has just moved has no lock either; nothing listens to its signal any longer.
  worker.on('lockRenewalFailed', (jobIds) => {
    for (const id of jobIds) worker.cancelJob(id, lockLost);
    onLockLost();
  });
  return {
    worker,
    queue,
    /** True if this process could take another job of it. */
    isFree: () => !isHeld && active.size < limits.concurrency,
    activeJobs: (): readonly Job[] => [...active],
    /** Jobs that this process has taken since it started. */
    taken: () => taken,
    /** While held, it takes no new jobs; active jobs continue. */
    hold: async (hold: boolean): Promise<void> => {
      if (hold === isHeld) return;
      isHeld = hold;
      if (hold) await worker.pause(true);
      else await worker.resume();
    },
    isHeld: () => isHeld,
  };
}

/** What ticks need of the worker. */
type TickContext = Pick<
  WorkerContext,
  | 'sinks'
  | 'connectors'
  | 'queues'
  | 'ledger'
  | 'timings'
  | 'closing'
  | 'onError'
  | 'clock'
  | 'log'
  | 'observe'
>;

const missedAfterMs = 60_000;
const hourMs = 60 * 60 * 1000;

/**
 * Turns a tick into a job in a queue of its sink, unless a job of the same connector or target already waits or runs
 * there. The worker need not serve that sink: a worker that does takes the job.
 */
export function createTickProcessor(context: TickContext): (job: Job) => Promise<void> {
  const { queues, timings, clock, log, observe } = context;
  return async (job) => {
    const tick = parseTickJob(job.data);
    if ('target' in tick) {
      await untilTaken(context, () => addPublication(queues.publications(tick.sink), tick.target, timings));
      return;
    }
    const { sink, connector } = tick;
    observe({ kind: 'tick', connector });
    const schedule = scheduleOf(context, sink, connector);
    const due = dueTime(job);
    if (schedule?.missed === 'skip' && clock.now() - due > missedAfterMs) {
      log.info({ connector, due: new Date(due).toISOString() }, 'missed run skipped');
      return;
    }
    const delayMs = jitterOffset(connector, schedule?.jitterMs ?? 0);
    const deadlineMs = await deadlineOf(context, tick, schedule, due);
    await untilTaken(context, () =>
      addSync(
        queues.syncs(sink),
        { connector, reason: 'schedule', due: due + delayMs },
        { delayMs, retryDelayMs: timings.retryDelayMs, deadlineMs },
      ),
    );
  };
}

/**
 * When the connector's data should be renewed: at the end of its `freshWithin` limit; without a limit, or if the sink
 * is on another machine, when the next run is due. A deadline lies at most an hour before the due time: connectors that
 * are never read because their runs fail must not starve all others.
 */
async function deadlineOf(
  { ledger, sinks }: TickContext,
  { sink, connector }: ConnectorTick,
  schedule: Schedule | null,
  due: number,
): Promise<number> {
  // If the ledger cannot be read, the run still starts; only its priority is less exact.
  const freshUntil = sinks.some(({ id }) => id === sink)
    ? await ledger.freshUntil(connector).catch(() => null)
    : null;
  if (freshUntil !== null) return Math.max(freshUntil, due - hourMs);
  return due + (schedule?.kind === 'every' ? schedule.everyMs : hourMs);
}

/**
 * Null if the config has no such connector or no schedule for it, or if the tick belongs to another deployment on the
 * same Redis that has a connector of the same name.
 */
function scheduleOf({ connectors, sinks }: TickContext, sink: string, name: ConnectorName): Schedule | null {
  const connector = connectors.get(name);
  const served = sinks.find((one) => one.name === connector?.sink.name);
  return served === undefined || served.id === sink ? (connector?.schedule ?? null) : null;
}

/**
 * Waits while Redis refuses commands. A Redis that is full or in a failover would otherwise use up the tick's attempts
 * in seconds, and a daily run would be lost silently.
 */
async function untilTaken(
  { clock, closing, onError }: TickContext,
  put: () => Promise<unknown>,
): Promise<void> {
  for (let waitMs = firstRestMs; ; waitMs = Math.min(waitMs * 2, longestRestMs)) {
    try {
      await put();
      return;
    } catch (error) {
      if (!(error instanceof Error) || refusalOf(error) === null || closing.aborted) throw error;
      onError(error);
      // The next worker retries the tick.
      if (!(await slept(clock, waitMs, closing))) throw error;
    }
  }
}

/**
 * The scheduler adds each job ahead of time, delayed until the due time. A retry changes the job's delay, not its
 * options.
 */
function dueTime(job: Job): number {
  return job.timestamp + (job.opts.delay ?? 0);
}

/**
 * How long after its due time this connector starts, within [0, jitterMs): derived from its name, so always the same.
 */
export function jitterOffset(connector: ConnectorName, jitterMs: number): number {
  const share = createHash('sha256').update(connector).digest().readUInt32BE(0) / 2 ** 32;
  return Math.floor(share * jitterMs);
}
