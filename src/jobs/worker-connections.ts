import type { RedisSettings } from '../settings/settings.ts';
import { connectRedis, type RedisConnection } from './connect-redis.ts';

export interface WorkerConnections {
  /** Commands fail fast, so that work that can be retried at the next interval never hangs. */
  readonly forQueues: RedisConnection;
  /** Commands have no timeout. */
  readonly forWorkers: RedisConnection;
  disconnect(): void;
}

/** Throws `SyncError` QUEUE_UNAVAILABLE within two seconds. The caller disconnects. */
export async function openWorkerConnections(
  settings: Pick<RedisSettings, 'url' | 'prefix'>,
): Promise<WorkerConnections> {
  const opened = await Promise.allSettled([
    // maxRetriesPerRequest 0: commands in flight fail when the connection breaks.
    connectRedis(settings, { enableOfflineQueue: false, commandTimeout: 2000, maxRetriesPerRequest: 0 }),
    connectRedis(settings, { maxRetriesPerRequest: null }),
  ]);
  const [forQueues, forWorkers] = opened;
  if (forQueues.status === 'fulfilled' && forWorkers.status === 'fulfilled') {
    return {
      forQueues: forQueues.value,
      forWorkers: forWorkers.value,
      disconnect: () => {
        forQueues.value.disconnect();
        forWorkers.value.disconnect();
      },
    };
  }
  for (const one of opened) if (one.status === 'fulfilled') one.value.disconnect();
  throw opened.find((one) => one.status === 'rejected')?.reason;
}
