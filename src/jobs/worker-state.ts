import type { Schedule } from '../settings/settings.ts';
import { readBacklog } from './backlog.ts';
import type { ServedSink } from './served-sink.ts';
import type { WorkerContext } from './worker-context.ts';

export interface WorkerState {
  readonly isReady: boolean;
  /** For people: why it is not ready. */
  readonly problems: readonly string[];
  /** Jobs of each served sink; empty while Redis does not answer. */
  readonly depth: readonly SinkDepth[];
}

export interface SinkDepth {
  readonly sink: string;
  readonly waiting: number;
  readonly delayed: number;
  readonly active: number;
  readonly failed: number;
  /** Milliseconds until the queue is empty at the current rates; Infinity: never. */
  readonly endsInMs: number;
}

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
