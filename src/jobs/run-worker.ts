import { Queue, Worker } from 'bullmq';
import { systemClock, type Clock } from '../core/clock.ts';
import type { Settings } from '../settings/settings.ts';
import { connectRedis, type RedisConnection } from './connect-redis.ts';
import { queueName } from './connector-job.ts';
import { gateErrors } from './gate-errors.ts';
import type { JobLog } from './job-log.ts';
import { createProcessor, type RunConnector } from './process-connector-job.ts';
import { reconcileSchedules } from './reconcile-schedules.ts';

export interface RunWorkerOptions {
  readonly settings: Pick<Settings, 'redis' | 'connectors'>;
  readonly runConnector: RunConnector;
  /** Aborting it ends the worker: runs finish their page and go back to the queue. */
  readonly signal: AbortSignal;
  readonly log: JobLog;
  readonly clock?: Clock;
  /** How long the end may take; what is not finished then is taken over by the next worker. */
  readonly graceMs?: number;
  /** Runs at the same time, each of another connector. */
  readonly concurrency?: number;
}

const dayS = 24 * 60 * 60;
const reconcileEveryMs = 60_000;

/**
 * Keeps the schedules of the settings in Redis and runs connectors when their time comes, until the signal is aborted.
 * Resolves within `graceMs` after that, whether Redis answers or not.
 * Throws `SyncError` QUEUE_UNAVAILABLE within two seconds when Redis is not there at the start.
 */
export async function runWorker(options: RunWorkerOptions): Promise<void> {
  const { settings, log, signal, clock = systemClock, graceMs = 25_000, concurrency = 2 } = options;
  const onError = gateErrors(log, clock);
  await using redis = await connectBoth(settings.redis.url);
  const queue = new Queue(queueName, { connection: redis.forQueue.redis });
  const processor = createProcessor({ ...options, connectors: settings.connectors });
  const worker = new Worker(queueName, processor, {
    connection: redis.forWorker.redis,
    autorun: false,
    concurrency,
    // A killed worker's run is taken over after at most 25 s; an event loop busy for half the lock would lose it.
    lockDuration: 15_000,
    stalledInterval: 5000,
    maxStalledCount: 3,
    removeOnComplete: { count: 500, age: 7 * dayS },
    removeOnFail: { count: 2000, age: 30 * dayS },
  });
  queue.on('error', onError);
  worker.on('error', onError);
  // Without its lock another worker may start the same run: this one must stop writing soon.
  worker.on('lockRenewalFailed', (jobIds) => jobIds.forEach((id) => worker.cancelJob(id, 'lock lost')));

  log.info({ ...(await reconcileSchedules(queue, settings.connectors)) }, 'schedules are in place');
  void worker.run().catch(onError);
  log.info({ queue: queueName, concurrency }, 'worker started');
  await reconcileUntil(signal, clock, () => reconcileSchedules(queue, settings.connectors).catch(onError));

  log.info({}, 'worker stops: runs finish their page');
  const hasClosed = await closeWithin(worker, queue, graceMs, clock);
  if (!hasClosed)
    log.warn({ graceMs }, 'worker left without a farewell: Redis did not answer, or a run took too long');
}

/** Repeats the reconciling: a Redis that lost its memory has lost the schedules too, without a word. */
async function reconcileUntil(
  signal: AbortSignal,
  clock: Clock,
  reconcile: () => Promise<unknown>,
): Promise<void> {
  while (!signal.aborted) {
    const slept = await clock.sleep(reconcileEveryMs, signal).then(
      () => true,
      () => false,
    );
    if (slept) await reconcile();
  }
}

/** Closing never ends while Redis is away, so it gets a deadline. */
async function closeWithin(worker: Worker, queue: Queue, graceMs: number, clock: Clock): Promise<boolean> {
  const closed = new AbortController();
  worker.cancelAllJobs('the worker stops');
  const closing = worker
    .close()
    .then(() => queue.close())
    .then(
      () => true,
      () => false,
    );
  const late = clock.sleep(graceMs, closed.signal).then(
    () => false,
    () => false,
  );
  const hasClosed = await Promise.race([closing, late]);
  closed.abort();
  return hasClosed;
}

interface BothConnections extends AsyncDisposable {
  readonly forQueue: RedisConnection;
  readonly forWorker: RedisConnection;
}

/** The worker's connection waits as long as it takes; the queue's fails soon, so that reconciling never hangs. */
async function connectBoth(url: Settings['redis']['url']): Promise<BothConnections> {
  const forQueue = await connectRedis(url, { enableOfflineQueue: false, commandTimeout: 2000 });
  const forWorker = await connectRedis(url, { maxRetriesPerRequest: null }).catch((error: unknown) => {
    forQueue.disconnect();
    throw error;
  });
  return {
    forQueue,
    forWorker,
    [Symbol.asyncDispose]: () => {
      forQueue.disconnect();
      forWorker.disconnect();
      return Promise.resolve();
    },
  };
}
