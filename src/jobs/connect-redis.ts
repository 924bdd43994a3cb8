import { Redis, type Callback, type RedisOptions } from 'ioredis';
import { slept, systemClock } from '../core/clock.ts';
import type { RedisSettings } from '../settings/settings.ts';
import { checkRedisRights, type RedisRefusal } from './check-redis-rights.ts';
import { errorKind } from './gate-errors.ts';
import { failureText, readGreeting, reasonOf, refusalText, unavailable } from './redis-refusals.ts';

export type RedisConnection = Awaited<ReturnType<typeof connectRedis>>;

const answerWithinMs = 2000;
/** The deadline of the first contact is `rejectLate`. */
const socketWithinMs = 5000;
const longestPauseMs = 1000;
/** Longer than the longest blocking read, which is 10 s. */
const silentMs = 15_000;

/**
 * Opens a connection, waits for the first answer and checks the user's rights. By default the client retries forever
 * without a message, so the first contact has a limit of two seconds. After that the client reconnects by itself, once
 * a second. Throws `SyncError` QUEUE_UNAVAILABLE, whose message names the cause and the fix. The caller disconnects.
 */
export async function connectRedis(
  { url, prefix }: Pick<RedisSettings, 'url' | 'prefix'>,
  options: Pick<
    RedisOptions,
    'maxRetriesPerRequest' | 'enableOfflineQueue' | 'commandTimeout' | 'keyPrefix' | 'socketTimeout'
  >,
) {
  const redis = new Redis(url.reveal(), {
    // A firewall may forget a connection: what is sent over it gets no answer for a quarter of an hour.
    socketTimeout: silentMs,
    ...options,
    lazyConnect: true,
    connectTimeout: socketWithinMs,
    // After a failover the address may resolve to the new primary; the old connection stays on the replica.
    reconnectOnError: (error) => errorKind(error) === 'READONLY',
    retryStrategy: (attempt: number) => Math.min(longestPauseMs, 100 * 2 ** Math.min(attempt, 4)),
  });
  const known = { info: '' };
  const disconnect = trackCopies(redis, known);
  // The client rejects with "Connection is closed"; the cause is in the error event before.
  let lastError: Error | null = null;
  redis.on('error', (error: Error) => (lastError = error));
  const answered = new AbortController();
  try {
    const ask = async (): Promise<RedisRefusal | null> => {
      await connect(redis);
      return await checkRedisRights(redis, prefix);
    };
    const refusal = await Promise.race([ask(), rejectLate(answered.signal)]);
    if (refusal !== null) {
      throw new Refused(refusalText(refusal, redis.options.username ?? 'default', prefix));
    }
  } catch (error) {
    disconnect();
    if (error instanceof Refused) throw unavailable(url, error.message, error);
    // While Redis loads its data, the client retries until the deadline.
    if (/^loading:1/m.test(known.info)) {
      throw unavailable(url, refusalText({ kind: 'loading' }, '', ''), error);
    }
    const cause = lastError ?? error;
    throw unavailable(url, failureText(cause, url, await readGreeting(url, cause)), cause);
  } finally {
    answered.abort();
  }
  /**
   * `disconnect` closes this connection and every duplicate that the queue's client made of it, even if Redis does not
   * answer. Idempotent.
   */
  return { redis, disconnect };
}

/** An error whose message is ready to be shown after "Redis at host:port". */
class Refused extends Error {}

/** Selects the database explicitly: if it does not exist, the client silently uses database 0. */
async function connect(redis: Redis): Promise<void> {
  await redis.connect();
  const chosen = redis.options.db ?? 0;
  if (chosen === 0) return;
  await redis.select(chosen).catch((error: unknown) => {
    throw new Refused(
      `has no database ${chosen} (${reasonOf(error)}). Set another database at the end of redis.url, or use redis.prefix instead`,
    );
  });
}

/** The worker duplicates its connection for blocking reads, and does not close the duplicate while Redis is down. */
function trackCopies(redis: Redis, known: { info: string }): () => void {
  const all = [redis];
  guardInfo(redis, known);
  // Users of a connection add their own error listeners; this one only keeps the client from printing errors.
  const ignore = (): void => undefined;
  redis.on('error', ignore);
  const duplicate = redis.duplicate.bind(redis);
  redis.duplicate = (override) => {
    const copy = duplicate(override);
    copy.on('error', ignore);
    guardInfo(copy, known);
    all.push(copy);
    return copy;
  };
  return () => {
    for (const connection of all) connection.disconnect();
  };
}

/**
 * BullMQ runs INFO on every new connection, prints a warning about the eviction policy to the console (`examineRedis`
 * reports it), and retries without a pause if INFO is denied; ioredis then prints too. So the policy line is removed,
 * and if the user has lost the right, INFO answers with the last known text.
 */
function guardInfo(redis: Redis, known: { info: string }): void {
  const ask = redis.info.bind(redis);
  const info = async (): Promise<string> => {
    try {
      known.info = (await ask()).replace(/^maxmemory_policy:.*$/m, '');
    } catch (error) {
      if (!(error instanceof Error) || errorKind(error) !== 'NOPERM') throw error;
    }
    return known.info;
  };
  Object.assign(redis, {
    info: async (callback?: Callback<string>): Promise<string> => {
      if (callback === undefined) return await info();
      let failure: Error | null = null;
      const text = await info().catch((error: Error) => {
        failure = error;
        return '';
      });
      callback(failure, text);
      return text;
    },
  });
}

const turnMs = 100;

/**
 * Counts the turns of this process, not the time: while a worker reads a large config or stores pages, an answer may
 * have come and not be read yet.
 */
async function rejectLate(answered: AbortSignal): Promise<never> {
  for (let waitedMs = 0; waitedMs < answerWithinMs; waitedMs += turnMs) {
    await slept(systemClock, turnMs, answered);
  }
  throw new Error(`no answer within ${answerWithinMs} ms`);
}

export type WorkerConnections = Awaited<ReturnType<typeof openWorkerConnections>>;

/** Throws `SyncError` QUEUE_UNAVAILABLE within two seconds. The caller disconnects. */
export async function openWorkerConnections(settings: Pick<RedisSettings, 'url' | 'prefix'>) {
  const opening = [
    // maxRetriesPerRequest 0: commands in flight fail when the connection breaks.
    connectRedis(settings, { enableOfflineQueue: false, commandTimeout: 2000, maxRetriesPerRequest: 0 }),
    connectRedis(settings, { maxRetriesPerRequest: null }),
  ] as const;
  try {
    const [forQueues, forWorkers] = await Promise.all(opening);
    return {
      /** Commands fail fast, so that work that can be retried at the next interval never hangs. */
      forQueues,
      /** Commands have no timeout. */
      forWorkers,
      disconnect: () => [forQueues, forWorkers].forEach((one) => one.disconnect()),
    };
  } catch (error) {
    for (const one of await Promise.allSettled(opening)) {
      if (one.status === 'fulfilled') one.value.disconnect();
    }
    throw error;
  }
}
