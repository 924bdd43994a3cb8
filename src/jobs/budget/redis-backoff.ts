import type { Redis } from 'ioredis';
import type { Clock } from '../../core/clock.ts';

/** Sends one command to Redis, or skips it during a backoff. Null: the command failed or was skipped. Never rejects. */
export type AskRedis = <T>(command: () => Promise<T>) => Promise<T | null>;

export interface AccountLimits {
  /** Identifies the account; only its hash reaches Redis. */
  readonly account: string;
  readonly requestsPerSecond: number;
  /** Concurrent calls. */
  readonly concurrency: number;
  /** A longer pause throws `ThrottledError` instead of waiting. */
  readonly maxWaitMs: number;
}

export type BudgetTimings = Readonly<typeof defaultTimings>;

export const defaultTimings = {
  /** The slots of a killed process stay locked for this long. */
  lockMs: 15_000,
  /** The rate doubles after each interval of this length without a throttle, up to the full rate. */
  recoverEveryMs: 10_000,
};

/** What the parts of one account's budget have in common. */
export interface BudgetParts extends Omit<AccountLimits, 'account'>, BudgetTimings {
  readonly redis: Redis;
  readonly ask: AskRedis;
  readonly clock: Clock;
  /** Prefix of the account's keys. */
  readonly key: string;
}

const firstPauseMs = 1_000;
const longestPauseMs = 30_000;

/**
 * A circuit breaker: each command to a hanging Redis costs the whole command timeout, which must not delay calls. After
 * a failure all commands are skipped for 1 s; then a single one is sent as a trial, and each failed trial doubles the
 * pause, up to 30 s. Any error counts: a Redis that is out of memory or denies access to the keys cannot enforce limits
 * either.
 */
export function openRedisBackoff(clock: Clock, onError: (error: Error) => void): AskRedis {
  let pauseMs = 0;
  let askAgainAt = 0;
  let isTrying = false;

  return async (command) => {
    const isTrial = pauseMs > 0;
    if (isTrial && (isTrying || clock.now() < askAgainAt)) return null;
    if (isTrial) isTrying = true;
    try {
      const answer = await command();
      pauseMs = 0;
      return answer;
    } catch (error) {
      onError(error instanceof Error ? error : new Error(String(error)));
      // Concurrent commands fail together, which counts as one failure: only a trial doubles the pause.
      pauseMs = isTrial ? Math.min(pauseMs * 2, longestPauseMs) : firstPauseMs;
      askAgainAt = clock.now() + pauseMs;
      return null;
    } finally {
      if (isTrial) isTrying = false;
    }
  };
}
