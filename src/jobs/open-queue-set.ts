import { Queue } from 'bullmq';
import type { Redis } from 'ioredis';
import { syncsQueue, ticksQueue } from './queue-names.ts';

/** The queues of one deployment over one connection, which the caller owns. */
export interface QueueSet {
  readonly redis: Redis;
  readonly prefix: string;
  readonly ticks: Queue;
  /** Returns the same object for the same sink. */
  syncs(sinkId: string): Queue;
}

export function openQueueSet(redis: Redis, prefix: string, onError: (error: Error) => void): QueueSet {
  const queues = new Map<string, Queue>();
  const open = (name: string): Queue => {
    const known = queues.get(name);
    if (known !== undefined) return known;
    const queue = new Queue(name, { connection: redis, prefix });
    queue.on('error', onError);
    queues.set(name, queue);
    return queue;
  };
  return {
    redis,
    prefix,
    ticks: open(ticksQueue),
    syncs: (sinkId) => open(syncsQueue(sinkId)),
  };
}
