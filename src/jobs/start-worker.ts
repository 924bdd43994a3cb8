import type { Queue } from 'bullmq';
import { systemClock, type Clock } from '../core/clock.ts';
import type { ConnectorName } from '../core/names.ts';
import type { Settings } from '../settings/settings.ts';
import { beginClaim, registerSinks } from './sink-registry.ts';
import { errorKind, gateErrors } from './gate-errors.ts';
import { keepSchedules, openReconcile } from './keep-schedules.ts';
import { openWorkerBackoff } from './open-worker-backoff.ts';
import { openQueueSet } from './open-queue-set.ts';
import {
  defaultTimings,
  type JobLog,
  type RunBackfill,
  type RunConnector,
  type RunPublication,
  type ServedSink,
  type WorkerContext,
  type WorkerEvent,
  type WorkerLedger,
  type WorkerTimings,
  type ScheduledTarget,
} from './worker-context.ts';
import { openPublicationRequests } from './publications/publication-job.ts';
import { openRunSlots } from './run-slots.ts';
import { closeWorkers, holdUnserved, type ServedQueue, serveQueues } from './serve-queues.ts';
import { lostSinks, watchProgress, watchSinks } from './watch-worker.ts';
import { openWorkerConnections, type WorkerConnections } from './connect-redis.ts';
import { readWorkerState, type WorkerState } from './worker-state.ts';

export interface WorkerOptions {
  readonly settings: Pick<Settings, 'redis' | 'connectors'>;
  /** Connectors that this worker runs; the jobs of others wait for other workers. */
  readonly serves: (connector: ConnectorName) => boolean;
  /** Sinks whose files are on this machine. */
  readonly sinks: readonly ServedSink[];
  readonly ledger: WorkerLedger;
  readonly runConnector: RunConnector;
  readonly runBackfill: RunBackfill;
  /** What is published, and how; nothing without them. */
  readonly targets?: readonly ScheduledTarget[];
  readonly publish?: RunPublication;
  readonly log: JobLog;
  readonly clock?: Clock;
  /** Concurrent runs of each sink, each of a different connector. Default 2. */
  readonly concurrency?: number;
  /**
   * Concurrent runs of this process, over all sinks; bounds its memory. Default 32, or `concurrency` if that is more.
   */
  readonly maxRuns?: number;
  /** How long stopping may take; the next worker then takes over the runs that have not ended. Default 25 s. */
  readonly graceMs?: number;
  /**
   * Awaited after everything is open and before the first job is taken; if it throws, the worker ends without taking a
   * job.
   */
  readonly beforeJobs?: (opened: Pick<RunningWorker, 'queues' | 'state'>) => Promise<void>;
  readonly observe?: (event: WorkerEvent) => void;
  /** Called for each Redis error; by default they are logged, each kind at most once in 30 s. */
  readonly tellError?: (error: Error) => void;
  readonly timings?: Partial<WorkerTimings>;
}

export interface RunningWorker {
  /** The queue of ticks first, then those of publications and the queue of each sink. */
  readonly queues: readonly Queue[];
  /** Resolves when the worker has stopped; rejects with `SyncError` WORKER_STUCK if the process should be restarted. */
  readonly ended: Promise<void>;
  state(): Promise<WorkerState>;
  /**
   * Runs finish their page and their jobs go back to the queue. Takes `graceMs` at most, even if Redis does not answer.
   * Idempotent.
   */
  stop(): Promise<void>;
}

/**
 * Keeps the schedules of the settings in Redis and runs connectors when they are due, until it is stopped. Resolves
 * when it takes jobs. Throws `SyncError` QUEUE_UNAVAILABLE within two seconds if Redis does not answer, and
 * SINK_INCOMPATIBLE if a sink's name is registered in Redis for another file.
 */
export async function startWorker(options: WorkerOptions): Promise<RunningWorker> {
  const connections = await openWorkerConnections(options.settings.redis);
  const stopping = new AbortController();
  try {
    return await work(options, connections, stopping);
  } catch (error) {
    stopping.abort();
    connections.disconnect();
    throw error;
  }
}

async function work(
  options: WorkerOptions,
  connections: WorkerConnections,
  stopping: AbortController,
): Promise<RunningWorker> {
  const { log, clock = systemClock, graceMs = 25_000, observe = () => undefined } = options;
  const tellError = options.tellError ?? gateErrors(log, clock);
  const backoff = openWorkerBackoff(clock, stopping.signal);
  const onError = (error: Error): void => {
    tellError(error);
    observe({ kind: 'redis-error', code: errorKind(error) });
    backoff.notice(error);
  };
  const { forQueues, forWorkers } = connections;
  const concurrency = options.concurrency ?? 2;
  const outdated = new Set<string>();
  const full = new Set<string>();
  let served: readonly ServedQueue[] = [];
  const isServed = async (sink: string): Promise<boolean> =>
    (await context.ledger.lost(sink)) === null && !outdated.has(sink);
  let holding: Promise<void> = Promise.resolve();
  // One call at a time, so that the last call decides from the latest state.
  const holdQueues = (): Promise<void> =>
    (holding = holding
      .catch(() => undefined)
      .then(() => holdUnserved(context, served, { isServed, isFull: (sink) => full.has(sink) }, backoff)));
  const slots = openRunSlots(options.maxRuns ?? Math.max(32, concurrency), () => {
    if (full.size === 0) return;
    full.clear();
    holdQueues().catch(onError);
  });
  const { targets = [], publish = () => Promise.reject(new Error('no target was given')) } = options;
  const timings = { ...defaultTimings, ...options.timings };
  const queueSet = openQueueSet(forQueues.redis, options.settings.redis.prefix, onError);
  const context: WorkerContext = {
    ...options,
    targets,
    publish,
    publications: openPublicationRequests({ ...options, targets, queues: queueSet, timings, onError }),
    publishing: new Set(),
    connectors: options.settings.connectors,
    concurrency,
    slots,
    onFull: async (sink) => {
      full.add(sink);
      await holdQueues();
    },
    timings,
    clock,
    observe,
    onError,
    running: new Set(),
    queues: queueSet,
    stopping: stopping.signal,
  };

  for (const sink of await registerSinks(context.queues, context.sinks, { takeOver: [], clock })) {
    log.warn({ sink }, 'this sink was replaced by another one; the queued jobs of the old one were removed');
  }
  const claim = await beginClaim(forQueues.redis);
  const reconcile = openReconcile(context, claim, async (sinks) => {
    outdated.clear();
    for (const sink of sinks) outdated.add(sink);
    await holdQueues();
  });
  const schedules = keepSchedules({
    reconcile,
    isInPlace: await reconcile(),
    everyMs: context.timings.reconcileMs,
    clock,
    signal: stopping.signal,
  });
  forQueues.redis.on('ready', schedules.soon);
  served = serveQueues(context, { redis: forWorkers.redis, onLockLost: schedules.soon });
  const workers = served.map(({ worker }) => worker);
  backoff.watch(served);
  const queues = served.map(({ watched }) => watched.queue);

  const sinksWatched = watchSinks({
    ...context,
    holdQueues: () => holdQueues().catch(onError),
    everyMs: context.timings.sinkWatchMs,
    signal: stopping.signal,
  });
  let stuck: Error | null = null;
  const watching = watchProgress({
    redis: forQueues.redis,
    queues: served.map(({ watched }) => watched),
    everyMs: context.timings.watchdogMs,
    isBackingOff: () => backoff.why() !== null,
    clock,
    signal: stopping.signal,
  }).catch((error: Error) => {
    stuck = error;
    throw error;
  });

  const end = async (): Promise<void> => {
    log.info({}, 'worker is stopping: runs finish their page');
    stopping.abort();
    if (!(await closeWorkers(context, workers, graceMs))) {
      log.warn(
        { graceMs },
        'worker stopped without returning its jobs: Redis did not answer, or a run took longer than the grace period',
      );
    }
    connections.disconnect();
    await Promise.all([schedules.ended, sinksWatched]);
  };
  const stop = once(end);
  const ended = watching.then(stop);
  // Avoid an unhandled rejection when `ended` is not awaited.
  ended.catch(() => undefined);
  const state = async (): Promise<WorkerState> => {
    const lost = await lostSinks(context.sinks, context.ledger);
    return await readWorkerState(context, [
      ...problemsOf(stopping.signal, backoff.why(), stuck, outdated),
      ...lost,
    ]);
  };
  try {
    await options.beforeJobs?.({ queues, state });
  } catch (error) {
    await stop();
    throw error;
  }
  for (const worker of workers) worker.run().catch(onError);
  log.info({ queues: queues.map(({ name }) => name), concurrency: context.concurrency }, 'worker started');
  return { queues, ended, state, stop };
}

function problemsOf(
  stopping: AbortSignal,
  refusal: string | null,
  stuck: Error | null,
  outdated: ReadonlySet<string>,
): readonly string[] {
  return [
    ...(stopping.aborted ? ['the worker is stopping'] : []),
    ...(refusal === null ? [] : [`Redis rejects commands (${refusal}); the worker waits`]),
    ...(stuck === null ? [] : [stuck.message]),
    ...[...outdated].map(
      (sink) => `another worker has a newer config for sink ${sink}; this one takes no more of its jobs`,
    ),
  ];
}

function once(run: () => Promise<void>): () => Promise<void> {
  let running: Promise<void> | null = null;
  return () => (running ??= run());
}
