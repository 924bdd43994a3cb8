import type { Redis } from 'ioredis';
import { RateLimiterRedis, RateLimiterRes } from 'rate-limiter-flexible';
import type { Clock } from '../../core/clock.ts';
import { ThrottledError } from '../../core/errors.ts';
import type { AskRedis } from './redis-backoff.ts';

/** A rate limit shared by all processes. A throttle pauses it, then slows it down. */
interface SharedPace {
  /** Resolves when a call may start. Throws `ThrottledError` for a pause longer than `maxWaitMs`, and the signal's reason if aborted. */
  turn(signal: AbortSignal): Promise<void>;
  /** No call starts for `waitMs`; after that the rate is halved (then a quarter, an eighth, ...) for a while. Never rejects. */
  slowDown(waitMs: number): Promise<void>;
}

interface SharedPaceOptions {
  readonly redis: Redis;
  readonly ask: AskRedis;
  /** Prefix of the account's keys. */
  readonly key: string;
  readonly requestsPerSecond: number;
  readonly maxWaitMs: number;
  /** The rate doubles after each interval of this length without a throttle, up to the full rate. */
  readonly recoverEveryMs: number;
  readonly clock: Clock;
}

const leastWindowMs = 20;
/** The lowest rate is 1/16 of the full rate. */
const mostHalvings = 4;
/** Throttle responses to calls that were already in flight count as one throttle. */
const halveAtMostEveryMs = 1_000;

/**
 * The limiter's default script counts whole seconds: calls at the end of one second and the start of the next reach twice
 * the rate. This script counts milliseconds, and a window starts with its first call: with one call per window, two calls
 * are at least 1000/rate ms apart, and no second exceeds the rate.
 */
const countInWindow = `
redis.call('set', KEYS[1], 0, 'PX', ARGV[2], 'NX')
return {redis.call('incrby', KEYS[1], ARGV[1]), redis.call('pttl', KEYS[1])}`;

/**
 * Times are the TTLs of keys, so that the clocks of the machines do not matter. The slowdown starts at the end of the pause;
 * each throttle extends it by one step.
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
 * Above 50 calls a second a window holds several calls, so that it lasts at least 20 ms: a second may then exceed the rate
 * by the calls of one window, minus one.
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
    // Documented as seconds, but the limiter passes the number to the script unchanged; our script reads milliseconds.
    duration: windowMs,
    customIncrTtlLuaScript: countInWindow,
  });

  /** `waitMs`: how long to wait before the next try; 0: the call may start. */
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
            'the service asked this or another process for a long pause, which is not over yet',
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
