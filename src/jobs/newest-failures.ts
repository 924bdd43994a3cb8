import { instant, type Instant } from '../core/clock.ts';
import type { QueueSet } from './open-queue-set.ts';
import { schedulerId } from './queue-names.ts';

export interface FailedJob {
  /** An `ErrorCode`, or the start of the queue's failure reason. */
  readonly code: string;
  readonly at: Instant;
}

const lookedAt = 100;

/** The newest failed job of each connector. A run that could not start has no row in a ledger; only its failed job shows it. */
export async function newestFailures(
  queues: QueueSet,
  sinkIds: readonly string[],
): Promise<ReadonlyMap<string, FailedJob>> {
  const newest = new Map<string, FailedJob>();
  for (const sinkId of sinkIds) {
    // Newest first.
    const jobs: readonly FailedQueueJob[] = await queues.syncs(sinkId).getFailed(0, lookedAt - 1);
    for (const { data, failedReason, finishedOn } of jobs) {
      const connector = nameIn(data);
      if (connector === null || finishedOn === undefined) continue;
      const key = schedulerId(sinkId, connector);
      if (!newest.has(key)) newest.set(key, { code: codeIn(failedReason), at: instant(finishedOn) });
    }
  }
  return newest;
}

interface FailedQueueJob {
  readonly data: unknown;
  readonly failedReason: string;
  readonly finishedOn?: number | undefined;
}

function nameIn(data: unknown): string | null {
  const isNamed = typeof data === 'object' && data !== null && 'connector' in data;
  return isNamed && typeof data.connector === 'string' ? data.connector : null;
}

/** Workers write `<connector>: <code>`. */
function codeIn(reason: string): string {
  return /^[a-z0-9_-]+: ([A-Z_]+)$/.exec(reason)?.[1] ?? reason.slice(0, 80);
}
