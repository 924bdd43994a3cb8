import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
import { Semaphore } from 'redis-semaphore';
import type { Clock } from '../../core/clock.ts';
import type { SharedTurn } from '../../core/shared-budget.ts';
import type { AskRedis } from './redis-backoff.ts';

/** Limits concurrent calls across all processes. */
export interface SharedSlots extends AsyncDisposable {
  /** Resolves when a slot is free, at once during a Redis outage. Rejects only with the signal's reason. */
  take(signal: AbortSignal): Promise<SharedTurn>;
}

export interface SharedSlotsOptions {
  readonly redis: Redis;
  readonly ask: AskRedis;
  readonly key: string;
  readonly concurrency: number;
  /** The slots of a killed process become free after this long. */
  readonly lockMs: number;
  readonly clock: Clock;
}

const askAgainMs = 50;

/**
 * The semaphore compares the clocks of the holders. A slot is renewed after each third of its lock time, so clocks may
 * differ by the other two thirds before one machine considers the slots of another expired.
 */
export function openSharedSlots(options: SharedSlotsOptions): SharedSlots {
  const { redis, ask, key, concurrency, lockMs, clock } = options;
  const held = new Set<SharedTurn>();
  const waitingKey = `${key}:waiting`;

  // We retry and renew ourselves: the semaphore's own renewal lets a Redis error crash the process.
  const limits = { lockTimeout: lockMs, acquireAttemptsLimit: 1, retryInterval: 0, refreshInterval: 0 };
  const asNew = (identifier: string): Semaphore =>
    new Semaphore(redis, key, concurrency, { ...limits, identifier });
  const asHeld = (identifier: string): Semaphore =>
    new Semaphore(redis, key, concurrency, { ...limits, identifier, acquiredExternally: true });

  const keep = async (identifier: string, released: AbortSignal): Promise<void> => {
    while (!released.aborted) {
      // Rejects only on release, which the loop checks.
      await clock.sleep(lockMs / 3, released).catch(() => undefined);
      if (released.aborted) return;
      const isHeld = await ask(() => asHeld(identifier).tryAcquire());
      // Redis lost the slot or was down when the call started: take a slot now if one is free, so that the call counts.
      if (isHeld === false && !released.aborted) await ask(() => asNew(identifier).tryAcquire());
    }
  };

  const hold = (identifier: string): SharedTurn => {
    const releasing = new AbortController();
    const keeping = keep(identifier, releasing.signal);
    const turn: SharedTurn = {
      async release() {
        if (!held.delete(turn)) return;
        releasing.abort();
        await keeping;
        // If Redis is down, the slot expires after lockMs.
        await ask(() => asHeld(identifier).release());
      },
    };
    held.add(turn);
    return turn;
  };

  return {
    async take(signal) {
      const identifier = randomUUID();
      signal.throwIfAborted();
      // Without this delay a caller that has just released a slot would take it again before the waiting callers retry.
      if ((await ask(() => redis.exists(waitingKey))) === 1) {
        await clock.sleep(Math.random() * 2 * askAgainMs, signal);
      }
      for (;;) {
        signal.throwIfAborted();
        const isTaken = await ask(() => asNew(identifier).tryAcquire());
        if (isTaken !== false) break;
        await ask(() => redis.set(waitingKey, 1, 'PX', 4 * askAgainMs));
        await clock.sleep(askAgainMs, signal);
      }
      const turn = hold(identifier);
      if (signal.aborted) await turn.release();
      signal.throwIfAborted();
      return turn;
    },
    async [Symbol.asyncDispose]() {
      await Promise.all([...held].map((turn) => turn.release()));
    },
  };
}
