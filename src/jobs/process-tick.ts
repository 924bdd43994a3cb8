import { createHash } from 'node:crypto';
import type { Job } from 'bullmq';
import type { Clock } from '../core/clock.ts';
import type { ConnectorName } from '../core/names.ts';
import type { Schedule } from '../settings/settings.ts';
import { addSync } from './add-job.ts';
import { parseTickJob } from './add-job.ts';
import type { JobLog } from './job-log.ts';
import { refusalOf } from './open-ease-off.ts';
import type { QueueSet } from './open-queue-set.ts';
import type { ScheduledConnector } from './reconcile-schedules.ts';
import type { ServedSink } from './served-sink.ts';
import type { WorkerEvent } from './worker-event.ts';
import type { WorkerLedger } from './worker-ledger.ts';

export interface TickContext {
  readonly queues: Pick<QueueSet, 'syncs'>;
  readonly connectors: ReadonlyMap<ConnectorName, ScheduledConnector>;
  /** Sinks whose files are here. */
  readonly sinks: readonly ServedSink[];
  readonly ledger: Pick<WorkerLedger, 'freshUntil'>;
  readonly retryDelayMs: number;
  /** The worker's end. */
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
 * A tick becomes a job in its sink's queue, unless one of the same connector waits or runs there already. Whose sink it
 * is does not matter: the job reaches a worker that serves it.
 */
export function createTickProcessor(context: TickContext): (job: Job) => Promise<void> {
  const { queues, retryDelayMs, clock, log, observe } = context;
  return async (job) => {
    const { sink, connector } = parseTickJob(job.data);
    observe({ kind: 'tick', connector });
    const schedule = scheduleOf(context, sink, connector);
    const due = dueTime(job);
    if (schedule?.missed === 'skip' && clock.now() - due > missedAfterMs) {
      log.info({ connector, due: new Date(due).toISOString() }, 'a run was missed and is left out');
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
 * When the connector's data should be renewed: when it runs out of freshness or, without such a limit and where the sink is
 * another machine's, when the next run would be due. Data that is older than that goes first, by an hour at most: connectors
 * that are never read because their runs fail must not keep all others waiting.
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
  // The order of work is not worth a run: a ledger that cannot be read now says nothing of it.
  const freshUntil = sinks.some(({ id }) => id === sink)
    ? await ledger.freshUntil(connector).catch(() => null)
    : null;
  if (freshUntil !== null) return Math.max(freshUntil, due - hourMs);
  return due + (schedule?.kind === 'every' ? schedule.everyMs : hourMs);
}

/** Deployments that share a Redis may each have a connector of this name: another's schedule says nothing about this tick. */
function scheduleOf({ connectors, sinks }: TickContext, sink: string, name: ConnectorName): Schedule | null {
  const connector = connectors.get(name);
  const served = sinks.find((one) => one.name === connector?.sink.name);
  return served === undefined || served.id === sink ? (connector?.schedule ?? null) : null;
}

/**
 * Attempts of a tick are for what may be wrong with the tick. A Redis that is full or in a failover would use them up in
 * seconds, and a daily run would be forgotten without a word: it is waited for.
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
      // The next worker takes the tick up.
      if (!isOver) throw error;
    }
  }
}

/** When the scheduler meant it: it makes each job ahead, delayed until then. A retry changes the job's delay, not its options. */
function dueTime(job: Job): number {
  return job.timestamp + (job.opts.delay ?? 0);
}

/** The part of [0, jitterMs) by which this connector starts after its due time: always the same for the same name. */
export function jitterOffset(connector: ConnectorName, jitterMs: number): number {
  const share = createHash('sha256').update(connector).digest().readUInt32BE(0) / 2 ** 32;
  return Math.floor(share * jitterMs);
}
