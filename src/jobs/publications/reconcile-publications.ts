import type { JobSchedulerJson } from 'bullmq';
import type { TargetTick } from '../add-job.ts';
import { publicationSchedulerId, scheduledTarget, type QueueSet } from '../open-queue-set.ts';
import { type ServedSink, sinkOfTarget, type ScheduledTarget } from '../worker-context.ts';

interface WantedTick {
  readonly target: string;
  readonly everyMs: number;
}

/** The targets of a sink that are published on a schedule, in the order of their names. */
export function scheduledTargets(
  targets: readonly ScheduledTarget[],
  sink: ServedSink,
): readonly WantedTick[] {
  return targets
    .flatMap((target) =>
      target.when.kind === 'every' && sinkOfTarget(target) === sink.name
        ? [{ target: target.name, everyMs: target.when.everyMs }]
        : [],
    )
    .toSorted((left, right) => (left.target < right.target ? -1 : 1));
}

/**
 * Makes Redis hold exactly these ticks of the sink's targets. One that is right is left alone, as its next time would
 * move. Gives the names of jobs.
 */
export async function reconcilePublications(
  { ticks }: Pick<QueueSet, 'ticks'>,
  sink: ServedSink,
  wanted: readonly WantedTick[],
  existing: ReadonlyMap<string, JobSchedulerJson>,
): Promise<{
  readonly written: readonly string[];
  readonly kept: readonly string[];
  readonly removed: readonly string[];
}> {
  const [written, kept, removed]: [string[], string[], string[]] = [[], [], []];
  for (const { target, everyMs } of wanted) {
    const id = publicationSchedulerId(sink.id, target);
    const name = `publish-${target}`;
    if (existing.get(id)?.every === everyMs) {
      kept.push(name);
      continue;
    }
    const data: TargetTick = { sink: sink.id, target };
    await ticks.upsertJobScheduler(id, { every: everyMs }, { name, data, opts: tickOptions });
    written.push(name);
  }
  for (const id of existing.keys()) {
    const target = scheduledTarget(id, sink.id);
    if (target === null || wanted.some((one) => one.target === target)) continue;
    await ticks.removeJobScheduler(id);
    removed.push(`publish-${target}`);
  }
  return { written, kept, removed };
}

/** Of a job that only adds another one. */
const tickOptions = {
  attempts: 3,
  backoff: { type: 'exponential', delay: 1000 },
  removeOnComplete: { count: 50 },
  removeOnFail: { count: 50 },
};
