import type { Worker } from 'bullmq';
import { systemClock } from '../core/clock.ts';
import { beginClaim, registerSinks } from './sink-registry.ts';
import { errorKind, gateErrors } from './gate-errors.ts';
import { openHolds } from './hold-queues.ts';
import { keepSchedules, openReconcile } from './keep-schedules.ts';
import { openWorkerBackoff } from './open-worker-backoff.ts';
import { openQueueSet } from './open-queue-set.ts';
import {
  defaultConcurrency,
  defaultTimings,
  mostRuns,
  type RunningWorker,
  type WorkerContext,
  type WorkerOptions,
  type WorkerState,
} from './worker-context.ts';
import { openPublicationRequests } from './process-publication.ts';
import { openRunSlots } from './run-slots.ts';
import { serveQueues } from './serve-queues.ts';
import { lostSinks, watchProgress, watchSinks } from './watch-worker.ts';
import { openWorkerConnections, type WorkerConnections } from './connect-redis.ts';
import { readWorkerState } from './worker-state.ts';

/**
 * Keeps the schedules of the settings in Redis and runs connectors when they are due, until it is stopped. Resolves
 * when it takes jobs. Throws `SyncError` QUEUE_UNAVAILABLE within two seconds if Redis does not answer, and
 * SINK_INCOMPATIBLE if a sink's name is registered in Redis for another file.
 */
export async function startWorker(options: WorkerOptions): Promise<RunningWorker> {
  const connections = await openWorkerConnections(options.settings.redis);
  const stopping = new AbortController();
  const closing = new AbortController();
  stopping.signal.addEventListener('abort', () => closing.abort(), { once: true });
  try {
    return await work(options, connections, { stopping, closing });
  } catch (error) {
    stopping.abort();
    connections.disconnect();
    throw error;
  }
}

async function work(
  options: WorkerOptions,
  connections: WorkerConnections,
  ends: Readonly<Record<'stopping' | 'closing', AbortController>>,
): Promise<RunningWorker> {
  const { stopping, closing } = ends;
  const signals = { stopping: stopping.signal, closing: closing.signal };
  const { context, backoff, holds } = openContext(options, connections, signals);
  const { log, clock, onError, concurrency } = context;
  const { graceMs = 25_000 } = options;
  const { forQueues, forWorkers } = connections;
  const replaced = await registerSinks(context.queues, context.sinks, { takeOver: [], clock });
  for (const sink of replaced) {
    log.warn({ sink }, 'this sink was replaced by another one; the queued jobs of the old one were removed');
  }
  const claim = await beginClaim(forQueues.redis);
  const reconcile = openReconcile(context, claim, holds.outdated);
  const schedules = keepSchedules(context, reconcile, await reconcile());
  forQueues.redis.on('ready', schedules.soon);
  const served = serveQueues(context, { redis: forWorkers.redis, onLockLost: schedules.soon });
  holds.watch(served);
  backoff.watch(served);
  const queues = served.map(({ queue }) => queue);
  const workers = served.map(({ worker }) => worker);

  const sinksWatched = watchSinks(context, () => holds.renew().catch(onError));
  let stuck: Error | null = null;
  const takesNone = (): boolean => closing.signal.aborted || backoff.why() !== null;
  const watching = watchProgress(context, served, takesNone).catch((error: Error) => {
    stuck = error;
    throw error;
  });
  const stop = once(async () => {
    // A worker that was drained has no runs.
    if (!closing.signal.aborted) log.info({}, 'worker is stopping: runs finish their page');
    stopping.abort();
    if (!(await closeWorkers(context, workers, graceMs))) {
      log.warn(
        { graceMs },
        'worker stopped without returning its jobs: Redis did not answer, or a run took longer than the grace period',
      );
    }
    connections.disconnect();
    await Promise.all([schedules.ended, sinksWatched]);
  });
  const drain = async (isGone: (job: unknown) => boolean): Promise<void> => {
    closing.abort();
    for (const { worker, activeJobs } of served) {
      for (const { id = '', data } of activeJobs()) {
        if (isGone(data)) worker.cancelJob(id, 'the config no longer has it');
      }
    }
    // Each ends its connection that waits for jobs at once, and itself with its last job.
    await Promise.all(workers.map((worker) => worker.close()));
    await stop();
  };
  const ended = watching.then(stop);
  // Avoid an unhandled rejection when `ended` is not awaited.
  ended.catch(() => undefined);
  const state = async (): Promise<WorkerState> => {
    const lost = await lostSinks(context);
    const problems = problemsOf(stopping.signal, backoff.why(), stuck);
    return await readWorkerState(context, [...problems, ...holds.problems(), ...lost]);
  };
  try {
    await options.beforeJobs?.({ queues, state });
  } catch (error) {
    await stop();
    throw error;
  }
  for (const worker of workers) worker.run().catch(onError);
  log.info({ queues: queues.map(({ name }) => name), concurrency }, 'worker started');
  return { queues, redis: forQueues.redis, ended, state, drain, stop };
}

function openContext(
  options: WorkerOptions,
  { forQueues }: WorkerConnections,
  signals: Pick<WorkerContext, 'stopping' | 'closing'>,
) {
  const { log, clock = systemClock, targets = [], observe = () => undefined } = options;
  const { concurrency = defaultConcurrency, slots = openRunSlots(mostRuns(concurrency)) } = options;
  const { publish = () => Promise.reject(new Error('no target was given')) } = options;
  const tellError = options.tellError ?? gateErrors(log, clock);
  const backoff = openWorkerBackoff(clock, signals.closing);
  const onError = (error: Error): void => {
    tellError(error);
    observe({ kind: 'redis-error', code: errorKind(error) });
    backoff.notice(error);
  };
  const timings = { ...defaultTimings, ...options.timings };
  const queues = openQueueSet(forQueues.redis, options.settings.redis.prefix, onError);
  const holds = openHolds(options, queues, () => backoff.why() !== null);
  const context: WorkerContext = {
    ...options,
    targets,
    publish,
    publications: openPublicationRequests({ ...options, targets, queues, timings, onError }),
    publishing: new Set(),
    connectors: options.settings.connectors,
    concurrency,
    slots,
    onFull: holds.full,
    timings,
    clock,
    observe,
    onError,
    running: new Set(),
    queues,
    ...signals,
  };
  slots.onFree(() => void holds.notFull().catch(onError), signals.closing);
  return { context, backoff, holds };
}

const lookEveryMs = 50;
/** Returning the jobs takes milliseconds when Redis answers, and never ends during an outage. */
const unregisterMs = 2000;

/**
 * Ends the runs of all workers and closes them. Resolves with true if that was done in time. Otherwise, as always while
 * Redis is down, resolves with false two seconds after the last run ended and after `graceMs` at the latest; the next
 * worker then takes over the active jobs.
 */
async function closeWorkers(
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

function problemsOf(stopping: AbortSignal, refusal: string | null, stuck: Error | null): readonly string[] {
  return [
    ...(stopping.aborted ? ['the worker is stopping'] : []),
    ...(refusal === null ? [] : [`Redis rejects commands (${refusal}); the worker waits`]),
    ...(stuck === null ? [] : [stuck.message]),
  ];
}

function once(run: () => Promise<void>): () => Promise<void> {
  let running: Promise<void> | null = null;
  return () => (running ??= run());
}
