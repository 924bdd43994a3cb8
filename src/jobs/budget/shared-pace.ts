import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
import * as z from 'zod';
import type { Clock } from '../../core/clock.ts';
import { ThrottledError } from '../../core/errors.ts';
import type { AskRedis } from './redis-backoff.ts';

/** A rate limit shared by all processes, first come, first served. A throttle pauses it, then slows it down. */
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

/** So many milliseconds' worth of calls may start at once: timers are not exact enough for one after the other at a high rate. */
const burstMs = 20;
/** The lowest rate is 1/16 of the full rate. */
const mostHalvings = 4;
/** Throttle responses to calls that were already in flight count as one throttle. */
const halveAtMostEveryMs = 1_000;
/** A waiting caller asks at least this often: callers before it may have given up. */
const askEveryMs = 1_000;
/** A caller that does not ask within this time of its turn loses its place to the next one: its process may have been killed. */
const lateMs = 50;

/**
 * Starts a call, or says how long to wait before the next try. Callers queue in the order in which they first asked. The rate is kept
 * by the time at which calls start, not by reserved times: a process that was busy when its turn came must not make up for it
 * by several calls at once.
 *
 * KEYS: pause, slow, rate (from when the next call may start, in microseconds), queue.
 * ARGV: caller, microseconds per call, calls of a burst, recoverEveryMs, mostHalvings, lateMs, askEveryMs.
 * Times are by the clock of Redis, so that the clocks of the machines do not matter.
 */
const startOrWait = `
local paused = redis.call('pttl', KEYS[1])
if paused > 0 then return {paused, paused} end
local caller = ARGV[1]
local halvings = math.min(ARGV[5], math.max(0, math.ceil(redis.call('pttl', KEYS[2]) / ARGV[4])))
local interval = ARGV[2] * 2 ^ halvings
local early = (ARGV[3] - 1) * interval
local time = redis.call('time')
local now = time[1] * 1000000 + time[2]
local rate = tonumber(redis.call('get', KEYS[3]) or 0)
-- Further ahead than the lowest rate leads: the clock of Redis was set back.
if rate > now + ARGV[2] * ARGV[3] * 2 ^ ARGV[5] then rate = now end
local free = rate - early
redis.call('zadd', KEYS[4], 'NX', string.format('%.0f', now), caller)
local before = redis.call('zrank', KEYS[4], caller)
if now >= free + before * math.min(interval, ARGV[6] * 1000) then
  redis.call('zremrangebyrank', KEYS[4], 0, before)
  local nextRate = math.max(rate, now) + interval
  redis.call('set', KEYS[3], string.format('%.0f', nextRate), 'PX', math.ceil((nextRate - now) / 1000))
  return {0, 0}
end
redis.call('pexpire', KEYS[4], ARGV[7] * 10)
return {0, math.min(ARGV[7], math.ceil((free + before * interval - now) / 1000))}`;

/** Times are the TTLs of keys. The slowdown starts at the end of the pause; each throttle extends it by one step. */
const pauseAndSlow = `
local paused = math.max(redis.call('pttl', KEYS[1]), 0)
local slow = math.max(redis.call('pttl', KEYS[2]) - paused, 0)
if redis.call('set', KEYS[3], 1, 'PX', ARGV[4], 'NX') then
  slow = math.min(slow + ARGV[2], ARGV[2] * ARGV[3])
end
local pause = math.max(paused, tonumber(ARGV[1]))
if pause > 0 then redis.call('set', KEYS[1], 1, 'PX', pause) end
if pause + slow > 0 then redis.call('set', KEYS[2], 1, 'PX', pause + slow) end`;

const waitingTimes = z.tuple([z.number(), z.number()]);

/** No second exceeds the rate. Above 50 calls a second some start at once, and the rate over longer times is up to 2 % lower. */
export function openSharedPace(options: SharedPaceOptions): SharedPace {
  const { redis, ask, key, maxWaitMs, recoverEveryMs, clock } = options;
  const burst = Math.max(1, Math.ceil((options.requestsPerSecond * burstMs) / 1_000));
  // A second may begin with a burst, which the rest of it makes up for.
  const microseconds = Math.ceil(1_000_000 / (options.requestsPerSecond - (burst - 1)));
  const keys = {
    pause: `${key}:pause`,
    slow: `${key}:slow`,
    throttled: `${key}:throttled`,
    rate: `${key}:rate`,
    queue: `${key}:queue`,
  };

  /** `waitMs`: how long to wait before the next try; 0: the call may start. */
  const tryToStart = async (caller: string): Promise<{ pausedMs: number; waitMs: number }> => {
    const figures = [microseconds, burst, recoverEveryMs, mostHalvings, lateMs, askEveryMs];
    const { pause, slow, rate, queue } = keys;
    const [pausedMs, waitMs] = waitingTimes.parse(
      await redis.eval(startOrWait, 4, pause, slow, rate, queue, caller, ...figures),
    );
    return { pausedMs, waitMs };
  };

  const turnOf = async (caller: string, signal: AbortSignal): Promise<void> => {
    for (;;) {
      signal.throwIfAborted();
      const answer = await ask(() => tryToStart(caller));
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
  };

  return {
    async turn(signal) {
      const caller = randomUUID();
      try {
        await turnOf(caller, signal);
      } catch (error) {
        await ask(() => redis.zrem(keys.queue, caller));
        throw error;
      }
    },
    async slowDown(waitMs) {
      const figures = [Math.ceil(waitMs), recoverEveryMs, mostHalvings, halveAtMostEveryMs];
      await ask(() => redis.eval(pauseAndSlow, 3, keys.pause, keys.slow, keys.throttled, ...figures));
    },
  };
}
