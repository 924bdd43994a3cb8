import type { Redis } from 'ioredis';
import type { ConnectorName } from '../core/names.ts';
import { createJobProcessor } from './process-job.ts';
import { createTickProcessor } from './process-tick.ts';
import { serveQueue, type ServedQueue } from './serve-queue.ts';
import type { WorkerContext } from './worker-context.ts';

/** The ticks, then the jobs of each sink. `redis` waits for an answer as long as it takes. */
export function serveQueues(
  context: WorkerContext,
  { redis, onLockLost }: { readonly redis: Redis; readonly onLockLost: () => void },
): readonly ServedQueue[] {
  const { queues, timings, concurrency, onError } = context;
  const { retryDelayMs, busyDelayMs } = timings;
  const suspects = new Set<ConnectorName>();
  const shared = { redis, prefix: queues.prefix, timings, onError, onLockLost };
  return [
    serveQueue(queues.ticks, createTickProcessor({ ...context, retryDelayMs }), {
      ...shared,
      concurrency: 1,
      // Schedulers go on producing whatever becomes of their jobs, so the limit on crashes has to be one on starts.
      maxStartedAttempts: 3,
    }),
    ...context.sinks.map((sink) => {
      const queue = queues.syncs(sink.id);
      const processor = createJobProcessor({
        ...context,
        sinkName: sink.name,
        queue,
        suspects,
        busyDelayMs,
      });
      return serveQueue(queue, processor, { ...shared, concurrency, maxStartedAttempts: null });
    }),
  ];
}
