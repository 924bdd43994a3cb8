import { Redis, type Callback, type RedisOptions } from 'ioredis';
import { SyncError } from '../core/errors.ts';
import type { Secret } from '../core/secret.ts';
import { errorKind } from './gate-errors.ts';

export interface RedisConnection {
  readonly redis: Redis;
  /** Cuts this connection and every copy that the queue's client made of it, whether Redis answers or not. Idempotent. */
  disconnect(): void;
}

const answerWithinMs = 2000;
const longestPauseMs = 1000;

/**
 * A connection that has answered once. Left alone, the client would retry forever and a person would wait without a
 * word; so the first contact has two seconds. Later outages are waited out, asking once a second.
 * Throws `SyncError` QUEUE_UNAVAILABLE. The caller disconnects.
 */
export async function connectRedis(
  url: Secret,
  options: Pick<RedisOptions, 'maxRetriesPerRequest' | 'enableOfflineQueue' | 'commandTimeout'>,
): Promise<RedisConnection> {
  const redis = new Redis(url.reveal(), {
    ...options,
    lazyConnect: true,
    connectTimeout: answerWithinMs,
    // After a failover the old address may lead to the new primary; the old connection never will.
    reconnectOnError: (error) => errorKind(error) === 'READONLY',
    retryStrategy: (attempt: number) => Math.min(longestPauseMs, 100 * 2 ** Math.min(attempt, 4)),
  });
  const disconnect = trackCopies(redis);
  // The client's own rejection says only that the connection is closed; why, it says in the event before.
  let lastError: Error | null = null;
  redis.on('error', (error: Error) => (lastError = error));
  const deadline = AbortSignal.timeout(answerWithinMs);
  try {
    await Promise.race([connect(redis), rejectWhenAborted(deadline)]);
  } catch (error) {
    disconnect();
    throw unavailable(url, error instanceof NoSuchDatabase ? error : (lastError ?? error));
  }
  return { redis, disconnect };
}

class NoSuchDatabase extends Error {}

/** The client goes on with database 0 where the chosen one does not exist, and says so to nobody. */
async function connect(redis: Redis): Promise<void> {
  await redis.connect();
  const chosen = redis.options.db ?? 0;
  if (chosen === 0) return;
  await redis.select(chosen).catch((error: unknown) => {
    throw new NoSuchDatabase(
      `it has no database ${chosen} (${error instanceof Error ? error.message : 'ERR'})`,
    );
  });
}

/** The worker makes a copy for its blocking reads and, while Redis is away, cannot be made to let go of it. */
function trackCopies(redis: Redis): () => void {
  const all = [redis];
  hideEvictionPolicy(redis);
  // Whoever uses a connection listens to its errors; this listener only keeps the client from printing them by itself.
  const ignore = (): void => undefined;
  redis.on('error', ignore);
  const duplicate = redis.duplicate.bind(redis);
  redis.duplicate = (override) => {
    const copy = duplicate(override);
    copy.on('error', ignore);
    hideEvictionPolicy(copy);
    all.push(copy);
    return copy;
  };
  return () => {
    for (const connection of all) connection.disconnect();
  };
}

/**
 * The queue's client prints what it thinks of the policy past every log, once for each connection. `examineRedis` says it
 * where it is read. The connection itself asks with a callback, and is not meddled with.
 */
function hideEvictionPolicy(redis: Redis): void {
  const info = redis.info.bind(redis);
  Object.assign(redis, {
    info: async (callback?: Callback<string>) =>
      callback === undefined ? (await info()).replace(/^maxmemory_policy:.*$/m, '') : await info(callback),
  });
}

function rejectWhenAborted(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    signal.addEventListener('abort', () => reject(new Error(`no answer within ${answerWithinMs} ms`)), {
      once: true,
    });
  });
}

function unavailable(url: Secret, error: unknown): SyncError {
  const { hostname, port } = new URL(url.reveal());
  const place = `${hostname}:${port === '' ? '6379' : port}`;
  return new SyncError(`Redis at ${place} should ${expectationOf(error)}`, {
    code: 'QUEUE_UNAVAILABLE',
    recovery: 'stop',
    context: { place },
    cause: error,
  });
}

/** One that answers and says no is not mended by starting it. */
function expectationOf(error: unknown): string {
  const reason = reasonOf(error);
  if (/^(WRONGPASS|NOAUTH|NOPERM|ERR AUTH)\b/.test(reason)) {
    return `let user and password of redis.url in, it does not: ${reason}. Put the right ones into redis.url.`;
  }
  if (error instanceof NoSuchDatabase) {
    return `have the database that redis.url ends with: ${reason}. Name another one, or set redis.prefix instead.`;
  }
  if (reason.startsWith('Unknown RESP type')) {
    return 'be a Redis, another program answers there. Set redis.url to where Redis runs.';
  }
  return `answer within ${answerWithinMs / 1000} s: ${reason}. Start it, or set redis.url to where it runs.`;
}

function reasonOf(error: unknown): string {
  const message = error instanceof Error ? error.message : String(error);
  const code = error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : '';
  if (code === 'ECONNREFUSED') return 'it refused the connection (ECONNREFUSED)';
  const text = message.replace(/[.\s]+$/, '');
  return code === '' || text.includes(code) ? text : `${text} (${code})`;
}
