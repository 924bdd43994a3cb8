import type { Redis } from 'ioredis';
import { RateLimiterRedis, RateLimiterRes } from 'rate-limiter-flexible';
import type { Clock } from '../../core/clock.ts';
import { ThrottledError } from '../../core/errors.ts';
import type { AskRedis } from './redis-patience.ts';

/** When the next call of any process may start: a rate, that a throttle pauses and slows. */
export interface SharedPace {
  /** Resolves when a call may start. Throws `ThrottledError` for a pause longer than `maxWaitMs`, and the signal's reason. */
  turn(signal: AbortSignal): Promise<void>;
  /** Nobody starts for `waitMs`, and then at half the rate (a quarter, an eighth, ...) for a while. Never rejects. */
  slowDown(waitMs: number): Promise<void>;
}

export interface SharedPaceOptions {
  readonly redis: Redis;
  readonly ask: AskRedis;
  /** Begins the account's keys. */
  readonly key: string;
  readonly requestsPerSecond: number;
  readonly maxWaitMs: number;
  /** Without a throttle, the rate doubles back after this long. */
  readonly recoverEveryMs: number;
  readonly clock: Clock;
}

const leastWindowMs = 20;
/** 1/16 of the rate is the slowest. */
const mostHalvings = 4;
/** Answers to calls that were already on their way are one throttle, not many. */
const halveAtMostEveryMs = 1_000;

/**
 * The limiter's own script counts whole seconds, and a call at the end of one and at the start of the next lets twice
 * the rate through. This one counts milliseconds, and a window begins with the call that opens it: with one call a
 * window no two calls are closer than 1000/rate ms, and no second sees more than the rate.
 */
const countInWindow = `
redis.call('set', KEYS[1], 0, 'PX', ARGV[2], 'NX')
return {redis.call('incrby', KEYS[1], ARGV[1]), redis.call('pttl', KEYS[1])}`;

/**
 * Times are the remaining lives of keys, so that no machine's clock matters. Slowness lasts from the end of the pause
 * on; each throttle adds one step to it.
 */
const pauseAndSlow = `
local paused = math.max(redis.call('pttl', KEYS[1]), 0)
local slow = math.max(redis.call('pttl', KEYS[2]) - paused, 0)
if redis.call('set', KEYS[3], 1, 'PX', ARGV[4], 'NX') then
  slow = math.min(slow + ARGV[2], ARGV[2] * ARGV[3])
end
local pause = math.max(paused, tonumber(ARGV[1]))
if pause > 0 then redis.call('set', KEYS[1], 1, 'PX', pause) end
if pause + slow > 0 then redis.call('set', KEYS[2], 1, 'PX', pause + slow) end`;

/**
 * Above 50 a second a window holds several calls, so that it lasts 20 ms: a second may then see that many, less one,
 * above the rate.
 */
export function openSharedPace(options: SharedPaceOptions): SharedPace {
  const { redis, ask, key, maxWaitMs, recoverEveryMs, clock } = options;
  const callsPerWindow = Math.max(1, Math.ceil((options.requestsPerSecond * leastWindowMs) / 1_000));
  const windowMs = Math.ceil((callsPerWindow * 1_000) / options.requestsPerSecond);
  const keys = { pause: `${key}:pause`, slow: `${key}:slow`, throttled: `${key}:throttled` };
  const limiter = new RateLimiterRedis({
    storeClient: redis,
    keyPrefix: key,
    points: callsPerWindow,
    // The limiter says seconds, and hands the figure to the script as it is: here it means milliseconds.
    duration: windowMs,
    customIncrTtlLuaScript: countInWindow,
  });

  /** How long to wait before asking again; 0: the call may start. */
  const tryToStart = async (): Promise<{ pausedMs: number; waitMs: number }> => {
    const [pausedMs, slowMs] = await Promise.all([redis.pttl(keys.pause), redis.pttl(keys.slow)]);
    if (pausedMs > 0) return { pausedMs, waitMs: pausedMs };
    const halvings = Math.min(mostHalvings, Math.max(0, Math.ceil(slowMs / recoverEveryMs)));
    const startsIn = await limiter.consume('rate', 1, { customDuration: windowMs * 2 ** halvings }).then(
      () => 0,
      (refusal: unknown) => {
        if (refusal instanceof RateLimiterRes) return refusal.msBeforeNext + 1;
        throw refusal;
      },
    );
    return { pausedMs: 0, waitMs: startsIn };
  };

  return {
    async turn(signal) {
      for (;;) {
        signal.throwIfAborted();
        const answer = await ask(tryToStart);
        if (answer === null || answer.waitMs === 0) break;
        if (answer.pausedMs > maxWaitMs) {
          throw new ThrottledError(
            'the service asked for a long pause, here or in another process; it is not over',
            answer.pausedMs,
          );
        }
        await clock.sleep(answer.waitMs, signal);
      }
      signal.throwIfAborted();
    },
    async slowDown(waitMs) {
      const figures = [Math.ceil(waitMs), recoverEveryMs, mostHalvings, halveAtMostEveryMs];
      await ask(() => redis.eval(pauseAndSlow, 3, keys.pause, keys.slow, keys.throttled, ...figures));
    },
  };
}
