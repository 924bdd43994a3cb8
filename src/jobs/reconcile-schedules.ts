import { createHash } from 'node:crypto';
import type { JobSchedulerJson, JobSchedulerTemplateOptions, RepeatOptions } from 'bullmq';
import type { Clock } from '../core/clock.ts';
import type { ConnectorName } from '../core/names.ts';
import { previousSlot } from '../settings/cron.ts';
import type { ConnectorSettings, Schedule } from '../settings/settings.ts';
import { addSync, type ConnectorTick } from './add-job.ts';
import { reconcilePublications, scheduledTargets } from './publications/reconcile-publications.ts';
import { type ScheduledTarget, isMadeUpFor, type ServedSink, type WorkerLedger } from './worker-context.ts';
import { claimSchedules, type ScheduleClaim } from './sink-registry.ts';
import { type QueueSet, scheduledConnector, schedulerId } from './open-queue-set.ts';

/** Names of connectors, and `publish-<target>`. */
export interface ReconciledSchedules {
  readonly written: readonly string[];
  readonly kept: readonly string[];
  readonly removed: readonly string[];
  /** Differ from the settings, but are left unchanged because a process with a newer config wrote them. */
  readonly foreign: readonly string[];
  /** Names of the sinks whose schedules belong to that process. */
  readonly outdated: readonly string[];
}

export type ScheduledConnector = Pick<ConnectorSettings, 'name' | 'schedule'> & {
  readonly sink: Pick<ConnectorSettings['sink'], 'name'>;
};

interface ReconcileOptions {
  readonly queues: QueueSet;
  readonly connectors: ReadonlyMap<ConnectorName, ScheduledConnector>;
  readonly targets: readonly ScheduledTarget[];
  /** Only schedulers of these sinks are changed; all others belong to other workers. */
  readonly sinks: readonly ServedSink[];
  readonly paused: WorkerLedger['paused'];
  /** Read for cron schedules that Redis did not have: a slot that passed without a run gets a catch-up run. */
  readonly lastRun: WorkerLedger['lastRun'];
  readonly claim: ScheduleClaim;
  readonly clock: Clock;
  readonly retryDelayMs: number;
}

/**
 * Makes Redis hold exactly the schedules of the settings for the given sinks. A schedule that is already correct is not
 * written: rewriting a cron schedule drops its overdue run, so a daily sync missed during a restart would wait another
 * day. Idempotent, also for concurrent processes and beside processes with an older or newer config: if a newer config
 * holds a sink's schedules, nothing is written or removed.
 */
export async function reconcileSchedules(options: ReconcileOptions): Promise<ReconciledSchedules> {
  const { ticks } = options.queues;
  const existing = new Map(
    (await ticks.getJobSchedulers(0, -1)).map((scheduler) => [scheduler.key, scheduler]),
  );
  const written: string[] = [];
  const kept: string[] = [];
  const removed: string[] = [];
  const foreign: string[] = [];
  const outdated: string[] = [];
  for (const sink of options.sinks) {
    const wanted = await wantedSchedules(options, sink);
    if (!(await isInForce(options, sink))) {
      outdated.push(sink.name);
      foreign.push(...differences(options, sink, wanted, existing));
      continue;
    }
    for (const { connector, schedule } of wanted) {
      const id = schedulerId(sink.id, connector);
      const stored = existing.get(id);
      existing.delete(id);
      if (isCurrent(stored, sink, connector, schedule)) {
        kept.push(connector);
        continue;
      }
      const repeat = { ...repeatOf(schedule), ...(await firstTime(options, connector, schedule)) };
      await ticks.upsertJobScheduler(id, repeat, templateOf(sink, connector, schedule));
      written.push(connector);
      await catchUp(options, sink, { connector, schedule }, stored);
    }
    const targets = scheduledTargets(options.targets, sink);
    const published = await reconcilePublications(options.queues, sink, targets, existing);
    written.push(...published.written);
    kept.push(...published.kept);
    removed.push(...published.removed);
    for (const id of existing.keys()) {
      const connector = scheduledConnector(id, sink.id);
      if (connector === null) continue;
      await ticks.removeJobScheduler(id);
      removed.push(connector);
    }
  }
  return { written, kept, removed, foreign, outdated };
}

interface WantedSchedule {
  readonly connector: ConnectorName;
  readonly schedule: Schedule;
}

/** Claims with the schedules of the settings alone: paused connectors are in the ledger, which all processes read. */
async function isInForce(
  { queues, connectors, targets, claim }: ReconcileOptions,
  sink: ServedSink,
): Promise<boolean> {
  const ofConnectors = [...connectors.values()]
    .filter((connector) => connector.schedule !== null && connector.sink.name === sink.name)
    .toSorted((left, right) => (left.name < right.name ? -1 : 1))
    .map(({ name, schedule }) => [name, schedule]);
  const schedules = [...ofConnectors, ...scheduledTargets(targets, sink)];
  return await claimSchedules(queues.redis, queues.prefix, { ...claim, sink, schedules });
}

/** Connectors whose schedules differ between the settings and Redis. */
function differences(
  { connectors }: ReconcileOptions,
  sink: ServedSink,
  wanted: readonly WantedSchedule[],
  existing: ReadonlyMap<string, JobSchedulerJson>,
): readonly string[] {
  const changed = wanted
    .filter(
      ({ connector, schedule }) =>
        !isCurrent(existing.get(schedulerId(sink.id, connector)), sink, connector, schedule),
    )
    .map(({ connector }) => connector);
  const names: ReadonlySet<string> = new Set(connectors.keys());
  const unknown = [...existing.keys()].flatMap((id) => {
    const connector = scheduledConnector(id, sink.id);
    return connector === null || names.has(connector) ? [] : [connector];
  });
  return [...changed, ...unknown];
}

/**
 * The first run of an interval starts at once or, if the connector has run before, one interval after that run started.
 * Otherwise every connector would run at the same moment after Redis lost its data.
 */
async function firstTime(
  { lastRun, clock }: ReconcileOptions,
  connector: ConnectorName,
  schedule: Schedule,
): Promise<{ readonly startDate?: number }> {
  if (schedule.kind !== 'every') return {};
  const last = await lastRun(connector);
  if (last === null || last.state === 'running' || last.state === 'interrupted') return {};
  const startDate = Date.parse(last.startedAt) + schedule.everyMs;
  return startDate > clock.now() ? { startDate } : {};
}

async function wantedSchedules(
  { connectors, paused }: ReconcileOptions,
  sink: ServedSink,
): Promise<readonly WantedSchedule[]> {
  const isPaused = await paused(sink.name);
  return [...connectors.values()].flatMap(({ name, schedule, sink: own }) =>
    schedule === null || own.name !== sink.name || isPaused.has(name) ? [] : [{ connector: name, schedule }],
  );
}

/**
 * Adds a catch-up run if needed: a cron schedule that Redis lost, or that is rewritten, starts with its next slot, so a
 * daily sync whose slot passed meanwhile would wait another day. `firstTime` does the same for intervals. `stored`:
 * what Redis held before.
 */
async function catchUp(
  options: ReconcileOptions,
  sink: ServedSink,
  { connector, schedule }: WantedSchedule,
  stored: JobSchedulerJson | undefined,
): Promise<void> {
  if (schedule.kind !== 'cron' || schedule.missed === 'skip') return;
  const { queues, lastRun, clock, retryDelayMs } = options;
  const last = await lastRun(connector);
  const nowMs = clock.now();
  // A connector that never ran may be new, with its first slot ahead. Rewriting drops a tick that was due and not
  // taken.
  const lost = last === null ? null : previousSlot(schedule, nowMs);
  const overdue = stored?.next !== undefined && stored.next < nowMs ? stored.next : null;
  const due = stored === undefined ? lost : overdue;
  if (due === null || isMadeUpFor(due, last)) return;
  await addSync(
    queues.syncs(sink.id),
    { connector, reason: 'catch-up', due },
    { retryDelayMs, deadlineMs: due },
  );
}

/** The stored job's name contains a fingerprint of the schedule in the settings, whatever form BullMQ stores it in. */
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

/** Jitter and the missed-run rule are applied when the tick fires, so the fingerprint does not include them. */
function templateOf(
  sink: ServedSink,
  connector: ConnectorName,
  schedule: Schedule,
): { readonly name: string; readonly data: ConnectorTick; readonly opts: JobSchedulerTemplateOptions } {
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
