import { createHash } from 'node:crypto';
import type { Job } from 'bullmq';
import type { Clock } from '../core/clock.ts';
import type { ConnectorName } from '../core/names.ts';
import type { Schedule } from '../settings/settings.ts';
import { addSync } from './add-job.ts';
import { parseTickJob } from './add-job.ts';
import type { JobLog } from './job-log.ts';
import { refusalOf } from './open-worker-backoff.ts';
import type { QueueSet } from './open-queue-set.ts';
import type { ScheduledConnector } from './reconcile-schedules.ts';
import type { ServedSink } from './served-sink.ts';
import type { WorkerEvent } from './worker-event.ts';
import type { WorkerLedger } from './worker-ledger.ts';

export interface TickContext {
  readonly queues: Pick<QueueSet, 'syncs'>;
  readonly connectors: ReadonlyMap<ConnectorName, ScheduledConnector>;
  /** Sinks whose files are on this machine. */
  readonly sinks: readonly ServedSink[];
  readonly ledger: Pick<WorkerLedger, 'freshUntil'>;
  readonly retryDelayMs: number;
  /** Aborted when the worker stops. */
  readonly stopping: AbortSignal;
  readonly onError: (error: Error) => void;
  readonly clock: Clock;
  readonly log: JobLog;
  readonly observe: (event: WorkerEvent) => void;
}

const missedAfterMs = 60_000;
const hourMs = 60 * 60 * 1000;
const firstWaitMs = 1000;
const longestWaitMs = 30_000;

/**
 * Turns a tick into a job in its sink's queue, unless a job of the same connector already waits or runs there. The worker
 * need not serve that sink: a worker that does takes the job.
 */
export function createTickProcessor(context: TickContext): (job: Job) => Promise<void> {
  const { queues, retryDelayMs, clock, log, observe } = context;
  return async (job) => {
    const { sink, connector } = parseTickJob(job.data);
    observe({ kind: 'tick', connector });
    const schedule = scheduleOf(context, sink, connector);
    const due = dueTime(job);
    if (schedule?.missed === 'skip' && clock.now() - due > missedAfterMs) {
      log.info({ connector, due: new Date(due).toISOString() }, 'missed run skipped');
      return;
    }
    const delayMs = jitterOffset(connector, schedule?.jitterMs ?? 0);
    const deadlineMs = await deadlineOf(context, { sink, connector, schedule, due });
    await untilTaken(context, () =>
      addSync(
        queues.syncs(sink),
        { connector, reason: 'schedule', due: due + delayMs },
        { delayMs, retryDelayMs, deadlineMs },
      ),
    );
  };
}

/**
 * When the connector's data should be renewed: at the end of its `freshWithin` limit; without a limit, or if the sink is on
 * another machine, when the next run is due. A deadline lies at most an hour before the due time: connectors that are never
 * read because their runs fail must not starve all others.
 */
async function deadlineOf(
  { ledger, sinks }: TickContext,
  {
    sink,
    connector,
    schedule,
    due,
  }: {
    readonly sink: string;
    readonly connector: ConnectorName;
    readonly schedule: Schedule | null;
    readonly due: number;
  },
): Promise<number> {
  // If the ledger cannot be read, the run still starts; only its priority is less exact.
  const freshUntil = sinks.some(({ id }) => id === sink)
    ? await ledger.freshUntil(connector).catch(() => null)
    : null;
  if (freshUntil !== null) return Math.max(freshUntil, due - hourMs);
  return due + (schedule?.kind === 'every' ? schedule.everyMs : hourMs);
}

/** Null if the tick belongs to another deployment on the same Redis that has a connector of the same name. */
function scheduleOf({ connectors, sinks }: TickContext, sink: string, name: ConnectorName): Schedule | null {
  const connector = connectors.get(name);
  const served = sinks.find((one) => one.name === connector?.sink.name);
  return served === undefined || served.id === sink ? (connector?.schedule ?? null) : null;
}

/**
 * Waits while Redis refuses commands. A Redis that is full or in a failover would otherwise use up the tick's attempts in
 * seconds, and a daily run would be lost silently.
 */
async function untilTaken(
  { clock, stopping, onError }: TickContext,
  put: () => Promise<unknown>,
): Promise<void> {
  for (let waitMs = firstWaitMs; ; waitMs = Math.min(waitMs * 2, longestWaitMs)) {
    try {
      await put();
      return;
    } catch (error) {
      if (!(error instanceof Error) || refusalOf(error) === null || stopping.aborted) throw error;
      onError(error);
      const isOver = await clock.sleep(waitMs, stopping).then(
        () => true,
        () => false,
      );
      // The next worker retries the tick.
      if (!isOver) throw error;
    }
  }
}

/** The scheduler adds each job ahead of time, delayed until the due time. A retry changes the job's delay, not its options. */
function dueTime(job: Job): number {
  return job.timestamp + (job.opts.delay ?? 0);
}

/** How long after its due time this connector starts, within [0, jitterMs): derived from its name, so always the same. */
export function jitterOffset(connector: ConnectorName, jitterMs: number): number {
  const share = createHash('sha256').update(connector).digest().readUInt32BE(0) / 2 ** 32;
  return Math.floor(share * jitterMs);
}
