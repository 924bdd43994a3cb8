import type { Redis } from 'ioredis';
import type { ConnectorName } from '../core/names.ts';
import type { EaseOff } from './open-ease-off.ts';
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
  const { retryDelayMs, busyDelayMs, slotPatienceMs } = timings;
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
        slotPatienceMs,
      });
      return serveQueue(queue, processor, { ...shared, concurrency, maxStartedAttempts: null });
    }),
  ];
}

/** Takes no more jobs of a sink that cannot be served now: a newer config holds it, its file is not there, or every slot is taken. */
export async function holdUnserved(
  { sinks, queues }: WorkerContext,
  served: readonly ServedQueue[],
  isServed: (sink: string) => boolean,
  easeOff: EaseOff,
): Promise<void> {
  // While Redis is left alone all rest, and begin again by themselves.
  if (easeOff.why() !== null) return;
  for (const sink of sinks) {
    const one = served.find(({ watched }) => watched.queue === queues.syncs(sink.id));
    await one?.hold(!isServed(sink.name));
  }
}
