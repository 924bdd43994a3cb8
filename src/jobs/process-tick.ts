import { createHash } from 'node:crypto';
import type { Job } from 'bullmq';
import { slept } from '../core/clock.ts';
import type { ConnectorName } from '../core/names.ts';
import type { Schedule } from '../settings/settings.ts';
import { addSync, parseTickJob, type ConnectorTick } from './add-job.ts';
import { addPublication } from './publications/publication-job.ts';
import type { WorkerContext, WorkerLedger, WorkerTimings } from './worker-context.ts';
import { firstRestMs, longestRestMs, refusalOf } from './open-worker-backoff.ts';
import type { QueueSet } from './open-queue-set.ts';
import type { ScheduledConnector } from './reconcile-schedules.ts';

/** What ticks need of the worker. */
interface TickContext extends Pick<
  WorkerContext,
  'sinks' | 'stopping' | 'onError' | 'clock' | 'log' | 'observe'
> {
  readonly queues: Pick<QueueSet, 'syncs' | 'publications'>;
  readonly connectors: ReadonlyMap<ConnectorName, ScheduledConnector>;
  readonly ledger: Pick<WorkerLedger, 'freshUntil'>;
  readonly timings: Pick<WorkerTimings, 'retryDelayMs'>;
}

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
  { clock, stopping, onError }: TickContext,
  put: () => Promise<unknown>,
): Promise<void> {
  for (let waitMs = firstRestMs; ; waitMs = Math.min(waitMs * 2, longestRestMs)) {
    try {
      await put();
      return;
    } catch (error) {
      if (!(error instanceof Error) || refusalOf(error) === null || stopping.aborted) throw error;
      onError(error);
      // The next worker retries the tick.
      if (!(await slept(clock, waitMs, stopping))) throw error;
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
