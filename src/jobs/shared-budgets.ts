import { createHash, hash, randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
import * as z from 'zod';
import { type Clock, systemClock } from '../core/clock.ts';
import { ThrottledError } from '../core/errors.ts';
import type { SharedBudget } from '../core/shared-budget.ts';
import type { RedisSettings } from '../settings/settings.ts';
import { connectRedis } from './connect-redis.ts';

/** Sends one command to Redis, or skips it during a backoff. Null: the command failed or was skipped. Never rejects. */
type AskRedis = <T>(command: () => Promise<T>) => Promise<T | null>;

export interface AccountLimits {
  /** Identifies the account; only its hash reaches Redis. */
  readonly account: string;
  readonly requestsPerSecond: number;
  /** A longer pause throws `ThrottledError` instead of waiting. */
  readonly maxWaitMs: number;
}

export type BudgetTimings = Readonly<typeof defaultTimings>;

const defaultTimings = {
  /** The rate doubles after each interval of this length without a throttle, up to the full rate. */
  recoverEveryMs: 10_000,
};

/** Settings and dependencies that the parts of one account's budget share. */
interface BudgetParts extends Omit<AccountLimits, 'account'>, BudgetTimings {
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

interface SharedBudgetsOptions {
  readonly redis: Pick<RedisSettings, 'url' | 'prefix'>;
  /** Called for each Redis error, of which there may be many. Calls do not fail because of them. */
  readonly onError: (error: Error) => void;
  readonly clock?: Clock;
  /** Tests shorten these. */
  readonly timings?: Partial<BudgetTimings>;
}

const answerWithinMs = 2_000;

/**
 * Opens rates per account, kept in Redis. Throws `SyncError` QUEUE_UNAVAILABLE if Redis does not answer within 2 s. A
 * later outage does not block calls.
 */
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
  return {
    /** Sends no command yet. */
    open({ account, ...limits }: AccountLimits): SharedBudget {
      const key = createHash('sha256').update(account).digest('hex').slice(0, 16);
      return openSharedPace({ ...shared, ...limits, key });
    },
    [Symbol.asyncDispose]: (): Promise<void> => {
      isClosed = true;
      connection.disconnect();
      return Promise.resolve();
    },
  };
}

/**
 * Calls for this many milliseconds may start at once: timers are not exact enough to start them one by one at a high
 * rate.
 */
const burstMs = 20;
/** The lowest rate is 1/16 of the full rate. */
const mostHalvings = 4;
/** Throttle responses to calls that were already in flight count as one throttle. */
const halveAtMostEveryMs = 1_000;
/** A waiting caller asks at least this often: callers before it may have given up. */
const askEveryMs = 1_000;
/**
 * A caller that is late for its turn, by more than this, loses its place to the next one: its process may have been
 * killed.
 */
const lateMs = 50;
/**
 * Allowance for the round trip to Redis: a caller that is farther away would be late every time, and never get a turn.
 */
const mostRoundTripMs = 1_000;

/**
 * Starts a call, or says how long to wait before the next try. Callers queue in the order in which they first asked.
 * The rate is kept by the time at which calls start, not by reserved times: a process that was busy when its turn came
 * must not catch up by several calls at once.
 *
 * A caller is the next when all before it are late. It may also start when a burst has room for it and for all before
 * it, which keep their places: at a high rate one that is later by a few calls would lose its place every time, and
 * never get a turn.
 *
 * KEYS: pause, slow, rate (from when the next call may start, in microseconds), queue. While a caller is not late there
 * is a separate key for it, below that of the queue. ARGV: caller, microseconds per call, calls of a burst,
 * recoverEveryMs, mostHalvings, lateMs, askEveryMs. Times are by the clock of Redis, so that the clocks of the machines
 * do not matter. Places are numbers, and whether one is late is the TTL of a key, so that it does not matter either
 * when the clock of Redis is set.
 */
const startOrWait = `
local caller = ARGV[1]
local queue = KEYS[4]
local halvings = math.min(ARGV[5], math.max(0, math.ceil(redis.call('pttl', KEYS[2]) / ARGV[4])))
local interval = ARGV[2] * 2 ^ halvings
local time = redis.call('time')
local now = time[1] * 1000000 + time[2]
local rate = tonumber(redis.call('get', KEYS[3])) or now
-- Further ahead than the lowest rate leads: the clock of Redis was set back.
if rate > now + ARGV[2] * ARGV[3] * 2 ^ ARGV[5] then rate = now end
local paused = math.max(0, redis.call('pttl', KEYS[1]))
-- At the end of a pause all ask at once: no process has been late until then.
if paused > 0 then rate = math.max(rate, now + paused * 1000) end
local free = rate - (ARGV[3] - 1) * interval

if not redis.call('zscore', queue, caller) then
  local last = redis.call('zrevrange', queue, 0, 0, 'withscores')[2] or 0
  redis.call('zadd', queue, string.format('%.0f', last + 1), caller)
end
local function isLate(place)
  return redis.call('exists', queue .. ':' .. redis.call('zrange', queue, place, place)[1]) == 0
end
local before = redis.call('zrank', queue, caller)
if paused == 0 and now >= free then
  local late = 0
  while late < before and isLate(late) do late = late + 1 end
  if late > 0 and late == before then
    redis.call('zremrangebyrank', queue, 0, late - 1)
    before = 0
  end
end

local turn = free + before * interval
local wait = 0
if paused > 0 then
  wait = paused
elseif now < turn then
  wait = math.min(ARGV[7], math.ceil((turn - now) / 1000))
elseif before >= tonumber(ARGV[3]) then
  -- A process before it should have started, and is not late yet.
  wait = math.ceil(math.min(interval / 1000, ARGV[6]))
end
if wait == 0 then
  redis.call('zrem', queue, caller)
  redis.call('del', queue .. ':' .. caller)
  rate = math.max(rate, now) + interval
else
  redis.call('set', queue .. ':' .. caller, 1, 'PX', wait + ARGV[6])
  redis.call('pexpire', queue, wait + ARGV[7] * 10)
end
-- As long as the queue: who is late is not known without it.
local kept = math.max(0, math.ceil((rate - now) / 1000)) + wait + ARGV[7] * 10
redis.call('set', KEYS[3], string.format('%.0f', rate), 'PX', kept)
return {paused, wait}`;

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

/** Runs a script by its hash, and sends its text only to a Redis that does not know it. */
async function runScript(redis: Redis, script: string, ...given: [number, ...(string | number)[]]) {
  return await redis.evalsha(hash('sha1', script), ...given).catch((error: Error) => {
    if (!error.message.startsWith('NOSCRIPT')) throw error;
    return redis.eval(script, ...given);
  });
}

/** `waitMs`: how long to wait before the next try; 0: the call may start. */
const waitingTimes = z
  .tuple([z.number(), z.number()])
  .transform(([pausedMs, waitMs]) => ({ pausedMs, waitMs }));

/** Microseconds for each call, and how many may start at once. */
function rateFigures(requestsPerSecond: number): readonly [microseconds: number, burst: number] {
  const burst = Math.max(1, Math.ceil((requestsPerSecond * burstMs) / 1_000));
  // A second may begin with a burst, which the rest of it makes up for.
  return [Math.ceil(1_000_000 / (requestsPerSecond - (burst - 1))), burst];
}

/**
 * A rate limit shared by all processes, first come, first served. A throttle pauses it, then slows it down. No second
 * exceeds the rate. Above 50 calls a second some start at once, and the rate over longer times is up to 2 %
 * lower.
 */
export function openSharedPace(options: BudgetParts) {
  const { redis, ask, key, maxWaitMs, recoverEveryMs, clock } = options;
  let rate = rateFigures(options.requestsPerSecond);
  const keys = {
    pause: `${key}:pause`,
    slow: `${key}:slow`,
    throttled: `${key}:throttled`,
    rate: `${key}:rate`,
    queue: `${key}:queue`,
  };

  const tryToStart = async (caller: string, roundTripMs: number) => {
    const lateAfterMs = lateMs + roundTripMs;
    const figures = [...rate, recoverEveryMs, mostHalvings, lateAfterMs, askEveryMs];
    const places = [keys.pause, keys.slow, keys.rate, keys.queue];
    return waitingTimes.parse(await runScript(redis, startOrWait, 4, ...places, caller, ...figures));
  };

  const turnOf = async (caller: string, signal: AbortSignal): Promise<void> => {
    let roundTripMs = 0;
    for (;;) {
      signal.throwIfAborted();
      const askedAt = clock.now();
      const answer = await ask(() => tryToStart(caller, roundTripMs));
      roundTripMs = Math.ceil(Math.min(mostRoundTripMs, Math.max(0, clock.now() - askedAt)));
      if (answer === null || answer.waitMs === 0) break;
      if (answer.pausedMs > maxWaitMs) {
        throw new ThrottledError(
          'the service asked this or another process for a long pause, which is not over yet',
          answer.pausedMs,
        );
      }
      // The next question arrives about when the turn comes.
      await clock.sleep(Math.max(1, answer.waitMs - roundTripMs), signal);
    }
    signal.throwIfAborted();
  };

  return {
    limitTo(requestsPerSecond: number): void {
      rate = rateFigures(requestsPerSecond);
    },
    /**
     * Resolves when a call may start. Throws `ThrottledError` for a pause longer than `maxWaitMs`, and the signal's
     * reason if aborted.
     */
    async enter(signal: AbortSignal): Promise<void> {
      const caller = randomUUID();
      try {
        await turnOf(caller, signal);
      } catch (error) {
        await ask(() => redis.multi().zrem(keys.queue, caller).del(`${keys.queue}:${caller}`).exec());
        throw error;
      }
    },
    /**
     * No call starts for `waitMs`; after that the rate is halved (then a quarter, an eighth, ...) for a while. Never
     * rejects.
     */
    async slowDown(waitMs: number): Promise<void> {
      const figures = [Math.ceil(waitMs), recoverEveryMs, mostHalvings, halveAtMostEveryMs];
      const places = [keys.pause, keys.slow, keys.throttled];
      await ask(() => runScript(redis, pauseAndSlow, 3, ...places, ...figures));
    },
  };
}
