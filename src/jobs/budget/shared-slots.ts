import { randomUUID } from 'node:crypto';
import type { SharedTurn } from '../../core/shared-budget.ts';
import type { BudgetParts } from './redis-backoff.ts';

const askAgainMs = 50;

/**
 * A slot is a member of a sorted set, with the time of its last renewal by the clock of Redis: the machines' clocks may
 * differ by any amount. Takes or renews a slot; with ARGV[4] = 'held' only one that is still there.
 */
const takeOrRenew = `
local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('zremrangebyscore', KEYS[1], '-inf', now - ARGV[3])
local isHeld = redis.call('zscore', KEYS[1], ARGV[1])
if not isHeld and (ARGV[4] == 'held' or redis.call('zcard', KEYS[1]) >= tonumber(ARGV[2])) then
  return 0
end
redis.call('zadd', KEYS[1], now, ARGV[1])
redis.call('pexpire', KEYS[1], ARGV[3])
return 1`;

/** Limits concurrent calls across all processes. A slot is renewed after each third of its lock time. */
export function openSharedSlots({ redis, ask, key, concurrency, lockMs, clock }: BudgetParts) {
  const held = new Set<SharedTurn>();
  const waitingKey = `${key}:waiting`;
  const slotsKey = `semaphore:${key}`;
  /** Null: Redis did not answer. */
  const isGiven = async (identifier: string, as: 'new' | 'held'): Promise<boolean | null> =>
    await ask(
      async () => (await redis.eval(takeOrRenew, 1, slotsKey, identifier, concurrency, lockMs, as)) === 1,
    );

  const keep = async (identifier: string, released: AbortSignal): Promise<void> => {
    while (!released.aborted) {
      // Rejects only on release, which the loop checks.
      await clock.sleep(lockMs / 3, released).catch(() => undefined);
      if (released.aborted) return;
      const isHeld = await isGiven(identifier, 'held');
      // Redis lost the slot or was down when the call started: take a slot now if one is free, so that the call counts.
      if (isHeld === false && !released.aborted) await isGiven(identifier, 'new');
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
        await ask(() => redis.zrem(slotsKey, identifier));
      },
    };
    held.add(turn);
    return turn;
  };

  return {
    /** Resolves when a slot is free, at once during a Redis outage. Rejects only with the signal's reason. */
    async take(signal: AbortSignal): Promise<SharedTurn> {
      const identifier = randomUUID();
      signal.throwIfAborted();
      // Without this delay a caller that has just released a slot would take it again before the waiting callers retry.
      if ((await ask(() => redis.exists(waitingKey))) === 1) {
        await clock.sleep(Math.random() * 2 * askAgainMs, signal);
      }
      for (;;) {
        signal.throwIfAborted();
        const isTaken = await isGiven(identifier, 'new');
        if (isTaken !== false) break;
        await ask(() => redis.set(waitingKey, 1, 'PX', 4 * askAgainMs));
        await clock.sleep(askAgainMs, signal);
      }
      const turn = hold(identifier);
      if (signal.aborted) await turn.release();
      signal.throwIfAborted();
      return turn;
    },
    async [Symbol.asyncDispose](): Promise<void> {
      await Promise.all([...held].map((turn) => turn.release()));
    },
  };
}
