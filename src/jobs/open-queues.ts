import { systemClock, instant, type Instant } from '../core/clock.ts';
import { SyncError } from '../core/errors.ts';
import type { ConnectorName } from '../core/names.ts';
import type { Schedule, Settings } from '../settings/settings.ts';
import { addBackfill, addSync } from './add-job.ts';
import { beginClaim, registeredSink, type RegisteredSink, registerSinks } from './sink-registry.ts';
import { connectRedis } from './connect-redis.ts';
import { openQueueSet, type QueueSet, backfillKey, schedulerId } from './open-queue-set.ts';
import {
  reconcileSchedules,
  type ReconciledSchedules,
  type ScheduledConnector,
} from './reconcile-schedules.ts';
import type { ScheduledTarget } from './publications/scheduled-target.ts';
import { defaultTimings, type ServedSink, type WorkerLedger } from './worker-context.ts';
import { type Backlog, readBacklog } from './worker-state.ts';

interface ApplyOptions {
  readonly connectors: ReadonlyMap<ConnectorName, ScheduledConnector>;
  readonly targets: readonly ScheduledTarget[];
  /** Sinks whose files are on this machine. */
  readonly sinks: readonly ServedSink[];
  readonly paused: WorkerLedger['paused'];
  /** Names of sinks whose registered file is permanently lost, so that another file may replace it. */
  readonly takeOver: readonly string[];
  /** If given, a cron slot that passed while Redis had no schedule gets a catch-up run. */
  readonly lastRun?: WorkerLedger['lastRun'];
}

/** The queues for short-lived commands. Every call resolves within about two seconds, or throws `SyncError` QUEUE_UNAVAILABLE. */
export interface Queues extends AsyncDisposable {
  /** Registers the sinks and writes their schedules now. Throws SINK_INCOMPATIBLE as `startWorker` does. */
  apply(options: ApplyOptions): Promise<ReconciledSchedules>;
  /** By `<sink id>:<connector>`: the next due time, in milliseconds since the epoch. */
  schedules(sinkIds: readonly string[]): Promise<ReadonlyMap<string, { readonly next: number | null }>>;
  /** By `<sink id>:<connector>`: the newest failed job, among the last hundred of each sink. */
  failures(sinkIds: readonly string[]): Promise<ReadonlyMap<string, FailedJob>>;
  /** Null when no worker has served a sink of this name. */
  registeredSink(name: string): Promise<RegisteredSink | null>;
  /** `state` of the connector's new or existing job: `waiting`, `active`, `delayed`. */
  enqueue(
    sinkId: string,
    connector: ConnectorName,
    reason: 'manual',
  ): Promise<{ readonly isNew: boolean; readonly state: string }>;
  /** Does nothing if there is no schedule. */
  removeSchedule(sinkId: string, connector: ConnectorName): Promise<void>;
  /** `isNew` is false if a backfill of the connector already waits or runs; that one is left unchanged. */
  enqueueBackfill(
    sinkId: string,
    connector: ConnectorName,
    backfill: string,
  ): Promise<{ readonly isNew: boolean }>;
  /** For a sink with these schedules. */
  backlog(sinkId: string, schedules: readonly Schedule[]): Promise<Backlog>;
  /** Removes a waiting backfill; a running one ends after its current window. False if there is none. */
  cancelBackfill(sinkId: string, connector: ConnectorName): Promise<boolean>;
}

/** Throws `SyncError` QUEUE_UNAVAILABLE within two seconds when Redis does not answer. The caller disposes. */
export async function openQueues(settings: Pick<Settings, 'redis'>): Promise<Queues> {
  const { prefix } = settings.redis;
  const clock = systemClock;
  const connection = await connectRedis(settings.redis, { enableOfflineQueue: false, commandTimeout: 2000 });
  // Errors reject the call that caused them.
  const queues = openQueueSet(connection.redis, prefix, () => undefined);
  return {
    apply: ({ takeOver, lastRun, ...options }) =>
      answered(async () => {
        await registerSinks(queues, options.sinks, { takeOver, clock });
        return await reconcileSchedules({
          ...options,
          queues,
          // A manual apply counts as newer than the config of every running process.
          claim: await beginClaim(queues.redis),
          lastRun: lastRun ?? (() => Promise.resolve(null)),
          clock,
          retryDelayMs: defaultTimings.retryDelayMs,
        });
      }),
    schedules: (sinkIds) =>
      answered(async () => {
        const schedulers = await queues.ticks.getJobSchedulers(0, -1);
        const ours = schedulers.filter(({ key }) =>
          sinkIds.some((id) => key.startsWith(schedulerId(id, ''))),
        );
        return new Map(ours.map(({ key, next }) => [key, { next: next ?? null }]));
      }),
    failures: (sinkIds) => answered(() => newestFailures(queues, sinkIds)),
    registeredSink: (name) => answered(() => registeredSink(queues.redis, prefix, name)),
    enqueue: (sinkId, connector, reason) =>
      answered(async () => {
        const syncs = queues.syncs(sinkId);
        const { id, isNew } = await addSync(syncs, { connector, reason, due: null }, defaultTimings);
        return { isNew, state: await syncs.getJobState(id) };
      }),
    removeSchedule: (sinkId, connector) =>
      answered(async () => {
        await queues.ticks.removeJobScheduler(schedulerId(sinkId, connector));
      }),
    enqueueBackfill: (sinkId, connector, backfill) =>
      answered(() => addBackfill(queues.syncs(sinkId), connector, backfill, defaultTimings)),
    backlog: (sinkId, schedules) =>
      answered(async () => {
        const waiting = await queues.syncs(sinkId).getJobCountByTypes('waiting', 'prioritized');
        return await readBacklog(queues, { sinkId, waiting, schedules }, clock.now());
      }),
    cancelBackfill: (sinkId, connector) =>
      answered(async () => {
        const syncs = queues.syncs(sinkId);
        const id = await syncs.getDeduplicationJobId(backfillKey(connector));
        if (id === null) return false;
        // A running backfill checks between windows whether it still has the key.
        await syncs.removeDeduplicationKey(backfillKey(connector));
        await syncs.remove(id);
        return true;
      }),
    [Symbol.asyncDispose]: () => {
      connection.disconnect();
      return Promise.resolve();
    },
  };
}

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

export interface FailedJob {
  /** An `ErrorCode`, or the start of the queue's failure reason. */
  readonly code: string;
  readonly at: Instant;
}

const lookedAt = 100;

/** The newest failed job of each connector. A run that could not start has no row in a ledger; only its failed job shows it. */
async function newestFailures(
  queues: QueueSet,
  sinkIds: readonly string[],
): Promise<ReadonlyMap<string, FailedJob>> {
  const newest = new Map<string, FailedJob>();
  for (const sinkId of sinkIds) {
    // Newest first.
    const jobs = await queues.syncs(sinkId).getFailed(0, lookedAt - 1);
    for (const { data, failedReason, finishedOn } of jobs) {
      const connector = nameIn(data);
      if (connector === null || finishedOn === undefined) continue;
      const key = schedulerId(sinkId, connector);
      if (!newest.has(key)) newest.set(key, { code: codeIn(failedReason), at: instant(finishedOn) });
    }
  }
  return newest;
}

function nameIn(data: unknown): string | null {
  const isNamed = typeof data === 'object' && data !== null && 'connector' in data;
  return isNamed && typeof data.connector === 'string' ? data.connector : null;
}

/** Workers write `<connector>: <code>`. */
function codeIn(reason: string): string {
  return /^[a-z0-9_-]+: ([A-Z_]+)$/.exec(reason)?.[1] ?? reason.slice(0, 80);
}
