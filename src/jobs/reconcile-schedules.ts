import { createHash } from 'node:crypto';
import type { JobSchedulerJson, JobSchedulerTemplateOptions, RepeatOptions } from 'bullmq';
import type { Clock } from '../core/clock.ts';
import type { ConnectorName } from '../core/names.ts';
import type { ConnectorSettings, Schedule } from '../settings/settings.ts';
import { addSync } from './add-job.ts';
import type { TickJob } from './connector-job.ts';
import type { QueueSet } from './open-queue-set.ts';
import { previousSlot } from './previous-slot.ts';
import { scheduledConnector, schedulerId } from './queue-names.ts';
import type { ServedSink } from './served-sink.ts';
import { isMadeUpFor, type WorkerLedger } from './worker-ledger.ts';

/** Names of connectors. */
export interface ReconciledSchedules {
  readonly written: readonly string[];
  readonly kept: readonly string[];
  readonly removed: readonly string[];
}

export type ScheduledConnector = Pick<ConnectorSettings, 'name' | 'schedule'> & {
  readonly sink: Pick<ConnectorSettings['sink'], 'name'>;
};

export interface ReconcileOptions {
  readonly queues: QueueSet;
  readonly connectors: ReadonlyMap<ConnectorName, ScheduledConnector>;
  /** Only schedulers of these sinks are looked at; all others belong to somebody else. */
  readonly sinks: readonly ServedSink[];
  readonly isPaused: (connector: ConnectorName) => boolean;
  /** Asked for cron schedules that were not there: a slot that passed without a run is made up for. */
  readonly lastRun: WorkerLedger['lastRun'];
  readonly clock: Clock;
  readonly retryDelayMs: number;
}

/**
 * Makes Redis hold exactly the schedules of the settings for the sinks given. One that is already right is left alone:
 * writing a cron schedule again drops a run that is overdue, so a daily sync missed during a restart would wait another
 * day. Safe to repeat, also from several processes at once.
 */
export async function reconcileSchedules(options: ReconcileOptions): Promise<ReconciledSchedules> {
  const { ticks } = options.queues;
  const existing = new Map(
    (await ticks.getJobSchedulers(0, -1)).map((scheduler) => [scheduler.key, scheduler]),
  );
  const written: string[] = [];
  const kept: string[] = [];
  const removed: string[] = [];
  for (const sink of options.sinks) {
    const wanted = wantedSchedules(options, sink);
    for (const { connector, schedule } of wanted) {
      const id = schedulerId(sink.id, connector);
      const stored = existing.get(id);
      existing.delete(id);
      if (isCurrent(stored, sink, connector, schedule)) {
        kept.push(connector);
        continue;
      }
      await ticks.upsertJobScheduler(id, repeatOf(schedule), templateOf(sink, connector, schedule));
      written.push(connector);
      if (stored === undefined) await makeUp(options, sink, connector, schedule);
    }
    for (const id of existing.keys()) {
      const connector = scheduledConnector(id, sink.id);
      if (connector === null) continue;
      await ticks.removeJobScheduler(id);
      removed.push(connector);
    }
  }
  return { written, kept, removed };
}

function wantedSchedules(
  { connectors, isPaused }: ReconcileOptions,
  sink: ServedSink,
): readonly { readonly connector: ConnectorName; readonly schedule: Schedule }[] {
  return [...connectors.values()].flatMap((connector) =>
    connector.schedule === null || connector.sink.name !== sink.name || isPaused(connector.name)
      ? []
      : [{ connector: connector.name, schedule: connector.schedule }],
  );
}

/**
 * A cron schedule that Redis forgot comes back with its next slot: a daily sync whose slot passed meanwhile would wait a
 * day more. Intervals need no such thing, their first run comes at once.
 */
async function makeUp(
  { queues, lastRun, clock, retryDelayMs }: ReconcileOptions,
  sink: ServedSink,
  connector: ConnectorName,
  schedule: Schedule,
): Promise<void> {
  if (schedule.kind !== 'cron' || schedule.missed === 'skip') return;
  const last = lastRun(connector);
  const due = last === null ? null : previousSlot(schedule, clock.now());
  if (due === null || isMadeUpFor(due, last)) return;
  await addSync(queues.syncs(sink.id), { connector, reason: 'catch-up', due }, { retryDelayMs });
}

/** The stored job's name holds the schedule's fingerprint: what was asked for, not how the queue wrote it down. */
function isCurrent(
  stored: JobSchedulerJson | undefined,
  sink: ServedSink,
  connector: ConnectorName,
  schedule: Schedule,
): boolean {
  if (stored === undefined || stored.name !== templateOf(sink, connector, schedule).name) return false;
  return schedule.kind === 'cron'
    ? stored.pattern === schedule.pattern && stored.tz === schedule.timezone
    : stored.every === schedule.everyMs;
}

/** Jitter and what to do about a missed tick are decided when the tick comes: they are no part of the schedule here. */
function templateOf(
  sink: ServedSink,
  connector: ConnectorName,
  schedule: Schedule,
): { readonly name: string; readonly data: TickJob; readonly opts: JobSchedulerTemplateOptions } {
  const fingerprint = createHash('sha256')
    .update(JSON.stringify([sink.id, connector, repeatOf(schedule)]))
    .digest('hex')
    .slice(0, 12);
  return {
    name: `tick-${fingerprint}`,
    data: { sink: sink.id, connector },
    opts: {
      attempts: 3,
      backoff: { type: 'exponential', delay: 1000 },
      removeOnComplete: { count: 50 },
      removeOnFail: { count: 50 },
    },
  };
}

function repeatOf(schedule: Schedule): Omit<RepeatOptions, 'key'> {
  return schedule.kind === 'cron'
    ? { pattern: schedule.pattern, tz: schedule.timezone }
    : { every: schedule.everyMs };
}
