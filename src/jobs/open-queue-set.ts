import { Queue } from 'bullmq';
import type { Redis } from 'ioredis';
import type { ConnectorName } from '../core/names.ts';

/** The queues of one deployment over one connection, which the caller owns. */
export interface QueueSet {
  readonly redis: Redis;
  readonly prefix: string;
  readonly ticks: Queue;
  /** Returns the same object for the same sink. */
  syncs(sinkId: string): Queue;
  /** Likewise. */
  publications(sinkId: string): Queue;
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
    publications: (sinkId) => open(publicationsQueue(sinkId)),
  };
}

/** The queue of the schedulers' jobs. All names in this file are part of Redis keys. */
const ticksQueue = 'ticks';

/** One queue per sink: a file is on one machine, so only workers that can open it may take its jobs. */
export function syncsQueue(sinkId: string): string {
  return `syncs-${sinkId}`;
}

/** Its own, so that a slow target holds no connector; of a sink, because it is read from there. */
export function publicationsQueue(sinkId: string): string {
  return `publications-${sinkId}`;
}

/** The id contains the sink, because a worker writes and removes only the schedulers of its own sinks. */
export function schedulerId(sinkId: string, connector: string): string {
  return `${sinkId}:${connector}`;
}

/** The connector of a scheduler id of this sink; null for any other. */
export function scheduledConnector(id: string, sinkId: string): string | null {
  return id.startsWith(`${sinkId}:`) ? id.slice(sinkId.length + 1) : null;
}

/** No id of a connector's scheduler begins so: a sink's id is random. */
export function publicationSchedulerId(sinkId: string, target: string): string {
  return `publish:${sinkId}:${target}`;
}

/** The target of a scheduler id of this sink; null for any other. */
export function scheduledTarget(id: string, sinkId: string): string | null {
  const start = publicationSchedulerId(sinkId, '');
  return id.startsWith(start) ? id.slice(start.length) : null;
}

/** Hash from a sink's name to the host and path of its file. */
export function sinksKey(prefix: string): string {
  return `${prefix}:sinks`;
}

/** Hash from a sink's id to the start time and fingerprint of the config whose schedules are in force. */
export function schedulesKey(prefix: string): string {
  return `${prefix}:schedules`;
}

/** Deduplication key: at most one sync and one backfill of a connector wait or run at a time. */
export function backfillKey(connector: ConnectorName): string {
  return `backfill:${connector}`;
}
