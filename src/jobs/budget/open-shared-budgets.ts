import { createHash } from 'node:crypto';
import { systemClock, type Clock } from '../../core/clock.ts';
import type { SharedBudget } from '../../core/shared-budget.ts';
import type { RedisSettings } from '../../settings/settings.ts';
import { connectRedis } from '../connect-redis.ts';
import { openRedisBackoff, type BudgetParts } from './redis-backoff.ts';
import { openSharedPace } from './shared-pace.ts';
import { openSharedSlots } from './shared-slots.ts';

/**
 * Rate and concurrency per account, kept in Redis. Disposing it releases the slots of all its budgets and closes the
 * connection.
 */
export type SharedBudgets = Awaited<ReturnType<typeof openSharedBudgets>>;

export interface AccountLimits {
  /** Identifies the account; only its hash reaches Redis. */
  readonly account: string;
  readonly requestsPerSecond: number;
  /** Concurrent calls. */
  readonly concurrency: number;
  /** A longer pause throws `ThrottledError` instead of waiting. */
  readonly maxWaitMs: number;
}

export interface BudgetTimings {
  /** The slots of a killed process stay locked for this long. */
  readonly lockMs: number;
  /** After a throttle, the rate doubles each time this interval passes, up to the full rate. */
  readonly recoverEveryMs: number;
}

interface SharedBudgetsOptions {
  readonly redis: Pick<RedisSettings, 'url' | 'prefix'>;
  /** Called for each Redis error, of which there may be many. Calls do not fail because of them. */
  readonly onError: (error: Error) => void;
  readonly clock?: Clock;
  /** Tests shorten these. */
  readonly timings?: Partial<BudgetTimings>;
}

const defaultTimings: BudgetTimings = { lockMs: 15_000, recoverEveryMs: 10_000 };
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
  const shared = { redis: connection.redis, ask: openRedisBackoff(clock, onError), clock };
  const timings = { ...defaultTimings, ...options.timings };
  const opened = new Set<SharedBudget>();

  return {
    /** Sends no command yet. The caller may dispose a single budget, which releases its slots. */
    open(limits: AccountLimits): SharedBudget {
      const budget = openSharedBudget(limits, shared, timings, () => opened.delete(budget));
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
  shared: Omit<BudgetParts, 'key'>,
  timings: BudgetTimings,
  onDispose: () => void,
): SharedBudget {
  const key = createHash('sha256').update(limits.account).digest('hex').slice(0, 16);
  const slots = openSharedSlots({ ...shared, ...timings, ...limits, key: `${key}:slots` });
  const pace = openSharedPace({ ...shared, ...timings, ...limits, key });
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
    async [Symbol.asyncDispose]() {
      onDispose();
      await slots[Symbol.asyncDispose]();
    },
  };
}
