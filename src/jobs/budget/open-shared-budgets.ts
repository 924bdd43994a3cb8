import { createHash } from 'node:crypto';
import { systemClock, type Clock } from '../../core/clock.ts';
import type { SharedBudget } from '../../core/shared-budget.ts';
import type { RedisSettings } from '../../settings/settings.ts';
import { connectRedis } from '../connect-redis.ts';
import {
  defaultTimings,
  openRedisBackoff,
  type AccountLimits,
  type BudgetParts,
  type BudgetTimings,
} from './redis-backoff.ts';
import { openSharedPace } from './shared-pace.ts';
import { openSharedSlots } from './shared-slots.ts';

/**
 * Rate and concurrency per account, kept in Redis. Disposing it releases the slots of all its budgets and closes the
 * connection.
 */
export type SharedBudgets = Awaited<ReturnType<typeof openSharedBudgets>>;

interface SharedBudgetsOptions {
  readonly redis: Pick<RedisSettings, 'url' | 'prefix'>;
  /** Called for each Redis error, of which there may be many. Calls do not fail because of them. */
  readonly onError: (error: Error) => void;
  readonly clock?: Clock;
  /** Tests shorten these. */
  readonly timings?: Partial<BudgetTimings>;
}

const answerWithinMs = 2_000;

/** Throws `SyncError` QUEUE_UNAVAILABLE if Redis does not answer within 2 s. A later outage does not block calls. */
export async function openSharedBudgets(options: SharedBudgetsOptions) {
  const { clock = systemClock } = options;
  const settings = {
    // Commands fail at once while the connection is down, both new ones and those in flight.
    enableOfflineQueue: false,
    maxRetriesPerRequest: 0,
    commandTimeout: answerWithinMs,
    keyPrefix: `${options.redis.prefix}:budget:`,
  };
  const connection = await connectRedis(options.redis, settings);
  let isClosed = false;
  const onError = (error: Error): void => {
    // After closing, a command of a cancelled call may still be in flight; its failure is not a Redis error.
    if (!isClosed) options.onError(error);
  };
  connection.redis.on('error', onError);
  const shared = {
    redis: connection.redis,
    ask: openRedisBackoff(clock, onError),
    clock,
    ...defaultTimings,
    ...options.timings,
  };
  const opened = new Set<SharedBudget>();

  return {
    /** Sends no command yet. The caller may dispose a single budget, which releases its slots. */
    open(limits: AccountLimits): SharedBudget {
      const budget = openSharedBudget(limits, shared, () => opened.delete(budget));
      opened.add(budget);
      return budget;
    },
    async [Symbol.asyncDispose](): Promise<void> {
      for (const budget of opened) await budget[Symbol.asyncDispose]();
      isClosed = true;
      connection.disconnect();
    },
  };
}

function openSharedBudget(
  limits: AccountLimits,
  shared: Omit<BudgetParts, 'key' | keyof AccountLimits>,
  onDispose: () => void,
): SharedBudget {
  const key = createHash('sha256').update(limits.account).digest('hex').slice(0, 16);
  const parts = { ...shared, ...limits, key };
  const slots = openSharedSlots({ ...parts, key: `${key}:slots` });
  const pace = openSharedPace(parts);
  return {
    async enter(signal) {
      // The slot first: a turn of the pace is valid now, and turns would accumulate while callers wait for slots.
      const turn = await slots.take(signal);
      try {
        await pace.turn(signal);
      } catch (error) {
        await turn.release();
        throw error;
      }
      return turn;
    },
    slowDown: (waitMs) => pace.slowDown(waitMs),
    limitTo: (requestsPerSecond) => pace.limitTo(requestsPerSecond),
    async [Symbol.asyncDispose]() {
      onDispose();
      await slots[Symbol.asyncDispose]();
    },
  };
}
