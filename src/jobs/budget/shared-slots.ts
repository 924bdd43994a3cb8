import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
import { Semaphore } from 'redis-semaphore';
import type { Clock } from '../../core/clock.ts';
import type { SharedTurn } from '../../core/shared-budget.ts';
import type { AskRedis } from './redis-patience.ts';

/** The calls on their way at a time, over all processes. */
export interface SharedSlots extends AsyncDisposable {
  /** Resolves when there is room. Rejects with the signal's reason alone; while Redis is away there is always room. */
  take(signal: AbortSignal): Promise<SharedTurn>;
}

export interface SharedSlotsOptions {
  readonly redis: Redis;
  readonly ask: AskRedis;
  readonly key: string;
  readonly concurrency: number;
  /** A killed process's slots are free after this long. */
  readonly lockMs: number;
  readonly clock: Clock;
}

const askAgainMs = 50;

/**
 * The semaphore compares the holders' own clocks. A slot is renewed every third of its life, so clocks may differ by the
 * other two thirds before one machine takes another's slots for dead.
 */
export function openSharedSlots(options: SharedSlotsOptions): SharedSlots {
  const { redis, ask, key, concurrency, lockMs, clock } = options;
  const held = new Set<SharedTurn>();
  const waitingKey = `${key}:waiting`;

  // One attempt at a time: waiting in between is ours. Renewing too: the semaphore's own lets an error of Redis end the process.
  const limits = { lockTimeout: lockMs, acquireAttemptsLimit: 1, retryInterval: 0, refreshInterval: 0 };
  const asNew = (identifier: string): Semaphore =>
    new Semaphore(redis, key, concurrency, { ...limits, identifier });
  const asHeld = (identifier: string): Semaphore =>
    new Semaphore(redis, key, concurrency, { ...limits, identifier, acquiredExternally: true });

  const keep = async (identifier: string, released: AbortSignal): Promise<void> => {
    while (!released.aborted) {
      // Rejects for the release alone, which the loop sees by itself.
      await clock.sleep(lockMs / 3, released).catch(() => undefined);
      if (released.aborted) return;
      const isHeld = await ask(() => asHeld(identifier).tryAcquire());
      // Redis has lost it, or was away when the call began: from now on the call counts, if there is room.
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
        // What cannot be given back, because Redis is away, is free after lockMs.
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
      // Whoever has just given a slot back would take it again before those who wait have asked: it goes in line with them.
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
