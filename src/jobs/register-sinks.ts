import type { Clock } from '../core/clock.ts';
import type { QueueSet } from './open-queue-set.ts';
import { scheduledConnector } from './queue-names.ts';
import type { ServedSink } from './served-sink.ts';
import { registerSink } from './sink-registry.ts';

/**
 * Registers every sink. If a sink's file was replaced, removes the queued jobs and schedules of the old file, which no worker
 * could run. Returns the names of those sinks. Throws `SyncError` SINK_INCOMPATIBLE if a name is registered for another
 * file, unless `takeOver` has the name.
 */
export async function registerSinks(
  queues: QueueSet,
  sinks: readonly ServedSink[],
  options: { readonly takeOver: readonly string[]; readonly clock: Clock },
): Promise<readonly string[]> {
  const tookOver: string[] = [];
  for (const sink of sinks) {
    const { replaced } = await registerSink(queues.redis, queues.prefix, sink, {
      mayTakeOver: options.takeOver.includes(sink.name),
      clock: options.clock,
    });
    if (replaced === null) continue;
    await forget(queues, replaced);
    tookOver.push(sink.name);
  }
  return tookOver;
}

async function forget(queues: QueueSet, sinkId: string): Promise<void> {
  for (const { key } of await queues.ticks.getJobSchedulers(0, -1)) {
    if (scheduledConnector(key, sinkId) !== null) await queues.ticks.removeJobScheduler(key);
  }
  await queues.syncs(sinkId).drain(true);
}
