import { createHash } from 'node:crypto';
import type { Redis } from 'ioredis';
import { systemClock, type Clock } from '../../core/clock.ts';
import type { SharedBudget } from '../../core/shared-budget.ts';
import type { RedisSettings } from '../../settings/settings.ts';
import { connectRedis } from '../connect-redis.ts';
import { openRedisPatience, type AskRedis } from './redis-patience.ts';
import { openSharedPace } from './shared-pace.ts';
import { openSharedSlots } from './shared-slots.ts';

/** Rate and concurrency per account, kept in Redis. Disposing it releases what all its budgets hold and closes the connection. */
export interface SharedBudgets extends AsyncDisposable {
  /** Sends nothing yet. The caller may dispose the budget by itself, which releases what it holds. */
  open(limits: AccountLimits): SharedBudget;
}

export interface AccountLimits {
  /** Whatever tells accounts apart; only its hash reaches Redis. */
  readonly account: string;
  readonly requestsPerSecond: number;
  /** Calls on their way at a time. */
  readonly concurrency: number;
  /** A longer pause is not waited for: `ThrottledError`. */
  readonly maxWaitMs: number;
}

export interface BudgetTimings {
  /** A killed process's calls count for this long. */
  readonly lockMs: number;
  /** After a throttle, the rate doubles back each time this has passed. */
  readonly recoverEveryMs: number;
}

export interface SharedBudgetsOptions {
  readonly redis: Pick<RedisSettings, 'url' | 'prefix'>;
  /** Hears each failure of Redis, which is no failure of a call; there may be many. */
  readonly onError: (error: Error) => void;
  readonly clock?: Clock;
  /** Tests shorten what they would wait for. */
  readonly timings?: Partial<BudgetTimings>;
}

const defaultTimings: BudgetTimings = { lockMs: 15_000, recoverEveryMs: 10_000 };
const answerWithinMs = 2_000;

/** Throws `SyncError` QUEUE_UNAVAILABLE where no Redis answers within 2 s. One that goes away later holds nobody up. */
export async function openSharedBudgets(options: SharedBudgetsOptions): Promise<SharedBudgets> {
  const { clock = systemClock } = options;
  const settings = {
    // Nothing waits for a connection that is gone: neither what is asked then nor what was on its way.
    enableOfflineQueue: false,
    maxRetriesPerRequest: 0,
    commandTimeout: answerWithinMs,
    keyPrefix: `${options.redis.prefix}:budget:`,
  };
  const connection = await connectRedis(options.redis, settings);
  let isClosed = false;
  const onError = (error: Error): void => {
    // A call that was broken off may still be asking; that it gets no answer then is no failure of Redis.
    if (!isClosed) options.onError(error);
  };
  connection.redis.on('error', onError);
  const shared = { redis: connection.redis, ask: openRedisPatience(clock, onError), clock };
  const timings = { ...defaultTimings, ...options.timings };
  const opened = new Set<SharedBudget>();

  return {
    open(limits) {
      const budget = openSharedBudget(limits, shared, timings, () => opened.delete(budget));
      opened.add(budget);
      return budget;
    },
    async [Symbol.asyncDispose]() {
      for (const budget of opened) await budget[Symbol.asyncDispose]();
      isClosed = true;
      connection.disconnect();
    },
  };
}

function openSharedBudget(
  limits: AccountLimits,
  shared: { readonly redis: Redis; readonly ask: AskRedis; readonly clock: Clock },
  timings: BudgetTimings,
  onDispose: () => void,
): SharedBudget {
  const key = createHash('sha256').update(limits.account).digest('hex').slice(0, 16);
  const slots = openSharedSlots({
    ...shared,
    ...timings,
    key: `${key}:slots`,
    concurrency: limits.concurrency,
  });
  const pace = openSharedPace({ ...shared, ...timings, ...limits, key });
  return {
    async enter(signal) {
      // The slot first: a turn of the pace is for this moment, and would pile up with others while waiting for a slot.
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
    async [Symbol.asyncDispose]() {
      onDispose();
      await slots[Symbol.asyncDispose]();
    },
  };
}
