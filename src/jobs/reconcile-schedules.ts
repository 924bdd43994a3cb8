import { createHash } from 'node:crypto';
import type { JobSchedulerJson, Queue, RepeatOptions } from 'bullmq';
import type { ConnectorName } from '../core/names.ts';
import type { ConnectorSettings, Schedule } from '../settings/settings.ts';

export interface ReconciledSchedules {
  readonly written: readonly string[];
  readonly kept: readonly string[];
  readonly removed: readonly string[];
}

const prefix = 'connector:';

/**
 * Makes Redis hold exactly the schedules of the settings. One that is already right is left alone: writing a cron
 * schedule again drops a run that is overdue, so a daily sync missed during a restart would wait another day.
 * Schedulers without our prefix belong to somebody else. Safe to repeat, also from several processes at once.
 */
export async function reconcileSchedules(
  queue: Queue,
  connectors: ReadonlyMap<ConnectorName, Pick<ConnectorSettings, 'name' | 'schedule'>>,
): Promise<ReconciledSchedules> {
  const existing = new Map(
    (await queue.getJobSchedulers(0, -1)).map((scheduler) => [scheduler.key, scheduler]),
  );
  const written: string[] = [];
  const kept: string[] = [];
  const removed: string[] = [];
  for (const { name, schedule } of connectors.values()) {
    if (schedule === null) continue;
    const id = `${prefix}${name}`;
    if (isCurrent(existing.get(id), name, schedule)) {
      kept.push(name);
    } else {
      await queue.upsertJobScheduler(id, repeatOf(schedule), templateOf(name, schedule));
      written.push(name);
    }
    existing.delete(id);
  }
  for (const id of existing.keys()) {
    if (!id.startsWith(prefix)) continue;
    await queue.removeJobScheduler(id);
    removed.push(id.slice(prefix.length));
  }
  return { written, kept, removed };
}

/** The stored job's name holds the schedule's fingerprint: what was asked for, not how the queue wrote it down. */
function isCurrent(stored: JobSchedulerJson | undefined, name: ConnectorName, schedule: Schedule): boolean {
  if (stored === undefined || stored.name !== templateOf(name, schedule).name) return false;
  return schedule.kind === 'cron'
    ? stored.pattern === schedule.pattern && stored.tz === schedule.timezone
    : stored.every === schedule.everyMs;
}

function templateOf(
  connector: ConnectorName,
  schedule: Schedule,
): { readonly name: string; readonly data: object } {
  const fingerprint = createHash('sha256')
    .update(JSON.stringify([connector, schedule]))
    .digest('hex')
    .slice(0, 12);
  return { name: `sync-${fingerprint}`, data: { connector } };
}

function repeatOf(schedule: Schedule): Omit<RepeatOptions, 'key'> {
  return schedule.kind === 'cron'
    ? { pattern: schedule.pattern, tz: schedule.timezone }
    : { every: schedule.everyMs };
}
