import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import type { Redis } from 'ioredis';
import * as z from 'zod';
import { type Clock, slept, systemClock } from '../core/clock.ts';
import { SyncError } from '../core/errors.ts';
import type { ConnectorName } from '../core/names.ts';
import type { Settings } from '../settings/settings.ts';
import { connectRedis } from './connect-redis.ts';
import {
  addBackfill,
  addPublication,
  addSync,
  type AskedBackfill,
  openQueueSet,
  schedulerId,
} from './open-queue-set.ts';
import { beginClaim, reconcileSchedules, registeredSink, registerSinks } from './reconcile-schedules.ts';
import { defaultTimings } from './worker-context.ts';

type ReconcileOptions = Parameters<typeof reconcileSchedules>[0];

interface ApplyOptions extends Pick<ReconcileOptions, 'connectors' | 'targets' | 'sinks'> {
  readonly paused: ReconcileOptions['ledger']['paused'];
  /** Names of sinks whose registered file is permanently lost, so that another file may replace it. */
  readonly takeOver: readonly string[];
  /** If given, a cron slot that passed while Redis had no schedule gets a catch-up run. */
  readonly lastRun?: ReconcileOptions['ledger']['lastRun'];
}

/**
 * The queues for short-lived commands. Every call resolves within about two seconds, or throws `SyncError`
 * QUEUE_UNAVAILABLE.
 */
export type Queues = Awaited<ReturnType<typeof openQueues>>;

/** Throws `SyncError` QUEUE_UNAVAILABLE within two seconds when Redis does not answer. The caller disposes. */
export async function openQueues(settings: Pick<Settings, 'redis'>) {
  const { prefix } = settings.redis;
  const clock = systemClock;
  const connection = await connectRedis(settings.redis, { enableOfflineQueue: false, commandTimeout: 2000 });
  // Errors reject the call that caused them.
  const queues = openQueueSet(connection.redis, prefix, () => undefined);
  return {
    /** Registers the sinks and writes their schedules now. Throws SINK_INCOMPATIBLE as `startWorker` does. */
    apply: ({ takeOver, paused, lastRun = () => Promise.resolve(null), ...options }: ApplyOptions) =>
      answered(async () => {
        await registerSinks(queues, options.sinks, { takeOver, clock });
        return await reconcileSchedules({
          ...options,
          queues,
          // A manual apply counts as newer than the config of every running process.
          claim: await beginClaim(queues.redis),
          ledger: { paused, lastRun },
          clock,
          retryDelayMs: defaultTimings.retryDelayMs,
        });
      }),
    /** Null when no worker has served a sink of this name. */
    registeredSink: (name: string) => answered(() => registeredSink(queues.redis, prefix, name)),
    /** For a person. `state` of the connector's new or existing job: `waiting`, `active`, `delayed`. */
    enqueue: (
      sinkId: string,
      connector: ConnectorName,
      asked: { readonly by?: string; readonly allowDeletes?: boolean; readonly isFull?: boolean } = {},
    ) =>
      answered(async () => {
        const syncs = queues.syncs(sinkId);
        const { id, isNew } = await addSync(
          syncs,
          { connector, reason: 'manual', due: null, ...asked },
          defaultTimings,
        );
        return { isNew, state: await syncs.getJobState(id) };
      }),
    /** `isNew` is false if a publication of the target waits already: that one publishes the same. */
    enqueuePublication: (sinkId: string, target: string, by: string) =>
      answered(async () => {
        const publications = queues.publications(sinkId);
        const { id, isNew } = await addPublication(publications, target, defaultTimings, { by });
        return { job: id, isNew, state: await publications.getJobState(id) };
      }),
    /** The state of a job of `enqueuePublication`, and in a word how it ended; empty: it has not. */
    publicationJob: (sinkId: string, id: string) =>
      answered(async () => {
        const publications = queues.publications(sinkId);
        const state: string = await publications.getJobState(id);
        const job = await publications.getJob(id);
        const { outcome = '' } = publicationEnd.catch({}).parse(job?.returnvalue);
        return { state, end: outcome || (job?.failedReason ?? '') };
      }),
    /** When Redis has a connector run next, jitter left out, as a function; null: it has no schedule of it. */
    nextRuns: () =>
      answered(async () => {
        const schedulers = await queues.ticks.getJobSchedulers(0, -1);
        const nextMs = new Map(schedulers.map(({ key, next = null }) => [key, next]));
        return (sinkId: string, connector: ConnectorName) =>
          nextMs.get(schedulerId(sinkId, connector)) ?? null;
      }),
    /** Does nothing if there is no schedule. */
    removeSchedule: (sinkId: string, connector: ConnectorName) =>
      answered(() => queues.ticks.removeJobScheduler(schedulerId(sinkId, connector))),
    /** `isNew` is false if a backfill of the connector already waits or runs; that one is left unchanged. */
    enqueueBackfill: (sinkId: string, connector: ConnectorName, backfill: AskedBackfill) =>
      answered(() => addBackfill(queues.syncs(sinkId), connector, backfill, defaultTimings)),
    /** Asks all workers to read their config again. `silent`: how many have not answered after 20 seconds. */
    reload: (signal: AbortSignal) =>
      answered(async () => {
        const workers = await queues.ticks.getWorkersCount();
        const answers = await askReload(queues, workers, clock, signal);
        return { workers, answers, silent: Math.max(0, workers - answers.length) };
      }),
    /** Number of workers that wait for jobs; 0 if the server does not say. */
    workers: () => answered(() => queues.ticks.getWorkersCount()),
    [Symbol.asyncDispose]: () => {
      connection.disconnect();
      return Promise.resolve();
    },
  };
}

const publicationEnd = z.object({ outcome: z.string().optional() });

async function answered<Answer>(ask: () => Promise<Answer>): Promise<Answer> {
  try {
    return await ask();
  } catch (error) {
    if (error instanceof SyncError) throw error;
    const message = error instanceof Error ? error.message : String(error);
    throw new SyncError(
      `Redis failed to execute a command: ${message}. Check that it runs and accepts writes, then try again.`,
      { code: 'QUEUE_UNAVAILABLE', recovery: 'stop', cause: error },
    );
  }
}

/*
 * A person asks all workers of a Redis to read their config again. The request is a key with a random id, so that a
 * worker that could not reach Redis meanwhile finds it later; each worker answers in a hash of that request.
 */

const keptS = 60 * 60;
const answerWithinMs = 20_000;
const askEveryMs = 250;
/** A reload request is noticed within this time. Each check reads one key of Redis. */
const lookEveryMs = 2_000;

const answer = z.strictObject({
  /** The worker: `host:pid`. */
  worker: z.string(),
  config: z.string(),
  outcome: z.enum(['applied', 'refused']),
  /** The connectors that were added and removed, or why the config was refused. */
  text: z.string(),
});

/** A worker's answer to a request to read its config again. */
type ReloadAnswer = z.output<typeof answer>;

interface Place {
  readonly redis: Redis;
  readonly prefix: string;
}

/** Asks all workers to read their config again. Resolves when so many have answered, and after 20 seconds. */
async function askReload({ redis, prefix }: Place, workers: number, clock: Clock, signal: AbortSignal) {
  const request = randomUUID();
  await redis.set(requestKey(prefix), request, 'EX', keptS);
  const endMs = clock.now() + answerWithinMs;
  for (;;) {
    const texts = await redis.hvals(answersKey(prefix, request));
    if (texts.length >= workers || clock.now() >= endMs) {
      return texts.map((text) => answer.parse(JSON.parse(text)));
    }
    await clock.sleep(askEveryMs, signal);
  }
}

/** Reloads on each request until the signal is aborted, and answers it. `place`: where requests are now. */
export async function answerReloads(
  place: () => Place,
  reload: () => Promise<Omit<ReloadAnswer, 'worker'>>,
  clock: Clock,
  signal: AbortSignal,
): Promise<void> {
  const newest = (): Promise<string | null> => {
    const { redis, prefix } = place();
    // The connection reports its errors itself.
    return redis.get(requestKey(prefix)).catch(() => null);
  };
  let answered = await newest();
  while (await slept(clock, lookEveryMs, signal)) {
    const request = await newest();
    if (request === null || request === answered) continue;
    answered = request;
    const worker = `${hostname()}:${process.pid}`;
    const given: ReloadAnswer = { worker, ...(await reload()) };
    const { redis, prefix } = place();
    const key = answersKey(prefix, request);
    await redis
      .multi()
      .hset(key, worker, JSON.stringify(given))
      .expire(key, keptS)
      .exec()
      .catch(() => undefined);
  }
}

function requestKey(prefix: string): string {
  return `${prefix}:reload`;
}

function answersKey(prefix: string, request: string): string {
  return `${prefix}:reload:${request}`;
}
