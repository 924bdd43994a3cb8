import { nextSlots } from '../settings/cron.ts';
import type { Schedule } from '../settings/settings.ts';
import type { QueueSet } from './open-queue-set.ts';
import type { SinkDepth } from '../core/events.ts';
import type { ServedSink, WorkerContext, WorkerState } from './worker-context.ts';

/** Reads the depth of each queue, which also checks that Redis answers. */
export async function readWorkerState(
  context: Pick<WorkerContext, 'queues' | 'sinks' | 'connectors' | 'clock'>,
  problems: readonly string[],
): Promise<WorkerState> {
  try {
    const schedules = schedulesBySink(context.connectors);
    const depth = await Promise.all(
      context.sinks.map((sink) => depthOf(context, sink, schedules.get(sink.name) ?? [])),
    );
    return { isReady: problems.length === 0, problems, depth };
  } catch {
    // The connection logs why Redis does not answer.
    return { isReady: false, problems: ['Redis does not answer', ...problems], depth: [] };
  }
}

function schedulesBySink(connectors: WorkerContext['connectors']): ReadonlyMap<string, readonly Schedule[]> {
  const bySink = new Map<string, Schedule[]>();
  for (const { schedule, sink } of connectors.values()) {
    if (schedule === null) continue;
    const known = bySink.get(sink.name);
    if (known === undefined) bySink.set(sink.name, [schedule]);
    else known.push(schedule);
  }
  return bySink;
}

async function depthOf(
  { queues, clock }: Pick<WorkerContext, 'queues' | 'clock'>,
  sink: ServedSink,
  schedules: readonly Schedule[],
): Promise<SinkDepth> {
  const counts = await queues
    .syncs(sink.id)
    .getJobCounts('waiting', 'prioritized', 'delayed', 'active', 'failed');
  const waiting = (counts['waiting'] ?? 0) + (counts['prioritized'] ?? 0);
  const { endsInMs } = await readBacklog(queues, { sinkId: sink.id, waiting, schedules }, clock.now());
  return {
    sink: sink.name,
    waiting,
    delayed: counts['delayed'] ?? 0,
    active: counts['active'] ?? 0,
    failed: counts['failed'] ?? 0,
    endsInMs,
  };
}

const lookBackMs = 10 * 60 * 1000;
const minuteMs = 60_000;

export type Backlog = Awaited<ReturnType<typeof readBacklog>>;

interface BacklogOf {
  readonly sinkId: string;
  readonly waiting: number;
  readonly schedules: readonly Schedule[];
}

/**
 * The waiting jobs of a sink with these schedules, and how fast they are processed. `doneAMinute`: jobs that ended in
 * the last ten minutes; `dueAMinute`: jobs that the schedules create; `endsInMs`: until the queue is empty at these
 * rates; Infinity: never, 0: it is empty now. Rejects if Redis does not answer.
 */
export async function readBacklog(
  { redis, syncs }: Pick<QueueSet, 'redis' | 'syncs'>,
  { sinkId, waiting, schedules }: BacklogOf,
  nowMs: number,
) {
  if (waiting === 0) return { waiting, doneAMinute: 0, dueAMinute: 0, endsInMs: 0 };
  // Scored by end time. Redis keeps few of them, so in a busy queue they cover less than the ten minutes.
  const done = syncs(sinkId).toKey('completed');
  const [lately, kept, oldest] = await Promise.all([
    redis.zcount(done, nowMs - lookBackMs, '+inf'),
    redis.zcard(done),
    redis.zrangebyscore(done, '-inf', '+inf', 'WITHSCORES', 'LIMIT', 0, 1),
  ]);
  const oldestMs = Number(oldest.flat().at(-1) ?? nowMs);
  const overMs = lately < kept ? lookBackMs : Math.min(lookBackMs, Math.max(minuteMs, nowMs - oldestMs));
  const doneAMinute = (lately * minuteMs) / overMs;
  const dueAMinute = schedules.reduce((sum, schedule) => sum + firesAMinute(schedule, nowMs), 0);
  const gain = doneAMinute - dueAMinute;
  return { waiting, doneAMinute, dueAMinute, endsInMs: gain > 0 ? (waiting / gain) * minuteMs : Infinity };
}

/** Cached: schedules do not change while a process runs, and computing ten slots for thousands of them is slow. */
const rates = new WeakMap<Schedule, number>();

/** Jobs a minute of one schedule; for a cron pattern, the average over its next ten slots. */
export function firesAMinute(schedule: Schedule, nowMs: number): number {
  if (schedule.kind === 'every') return minuteMs / schedule.everyMs;
  const known = rates.get(schedule);
  if (known !== undefined) return known;
  const slots = nextSlots(schedule, nowMs, 10);
  const spanMs = Math.max(1, (slots.at(-1) ?? nowMs) - nowMs);
  const rate = (slots.length * minuteMs) / spanMs;
  rates.set(schedule, rate);
  return rate;
}
