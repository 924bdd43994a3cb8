import type { QueueSet } from './open-queue-set.ts';
import type { ServedSink } from './served-sink.ts';

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
}

/** Asks Redis for the depth of each queue, which is also how it is known to answer. */
export async function readWorkerState(
  { queues, sinks }: { readonly queues: QueueSet; readonly sinks: readonly ServedSink[] },
  problems: readonly string[],
): Promise<WorkerState> {
  try {
    const depth = await Promise.all(sinks.map((sink) => depthOf(queues, sink)));
    return { isReady: problems.length === 0, problems, depth };
  } catch {
    // Why it does not answer is in the log: the connection reports its errors itself.
    return { isReady: false, problems: ['Redis does not answer', ...problems], depth: [] };
  }
}

async function depthOf(queues: QueueSet, sink: ServedSink): Promise<SinkDepth> {
  const counts = await queues
    .syncs(sink.id)
    .getJobCounts('waiting', 'prioritized', 'delayed', 'active', 'failed');
  return {
    sink: sink.name,
    waiting: (counts['waiting'] ?? 0) + (counts['prioritized'] ?? 0),
    delayed: counts['delayed'] ?? 0,
    active: counts['active'] ?? 0,
    failed: counts['failed'] ?? 0,
  };
}
