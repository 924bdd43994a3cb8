import { Redis } from 'ioredis';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { systemClock } from '../../../src/core/clock.ts';
import { ThrottledError } from '../../../src/core/errors.ts';
import { Secret } from '../../../src/core/secret.ts';
import type { SharedBudget } from '../../../src/core/shared-budget.ts';
import {
  openSharedBudgets,
  type AccountLimits,
  type BudgetTimings,
  openRedisBackoff,
} from '../../../src/jobs/shared-budgets.ts';
import { startRedis, type PrivateRedis } from '../../support/redis.ts';
import { mostInASecond, type Arrival } from '../../support/jobs/recording-server.ts';
import { instantClock } from '../../support/instant-clock.ts';

const never = new AbortController().signal;
const password = 'redis-password-of-this-test';

let redis: PrivateRedis;
let inspector: Redis;
const opened: Awaited<ReturnType<typeof openSharedBudgets>>[] = [];
const errors: Error[] = [];
beforeEach(async () => {
  redis = await startRedis({ password });
  inspector = new Redis(redis.url);
  inspector.on('error', () => undefined);
});
afterEach(async () => {
  for (const budgets of opened.splice(0)) await budgets[Symbol.asyncDispose]();
  inspector.disconnect();
  await redis.stop();
  errors.length = 0;
});

const open = async (
  limits: Partial<AccountLimits> = {},
  timings: Partial<BudgetTimings> = {},
): Promise<SharedBudget> => {
  const budgets = await openSharedBudgets({
    redis: { url: new Secret(redis.url), prefix: 'test' },
    onError: (error) => errors.push(error),
    timings,
  });
  opened.push(budgets);
  return budgets.open({
    account: 'https://api.example.com c1',
    requestsPerSecond: 1_000,
    maxWaitMs: 30_000,
    ...limits,
  });
};

it('keeps to the rate that the API states once it is known', async () => {
  // At the first rate the third call would begin after more than three minutes.
  const budget = await open({ requestsPerSecond: 0.01, maxWaitMs: 600_000 });
  budget.limitTo?.(1_000);
  for (let call = 0; call < 3; call += 1) await budget.enter(never);
  expect(errors).toEqual([]);
});

it('starts calls where Redis has forgotten its scripts, as after a restart', async () => {
  const budget = await open();
  await budget.enter(never);
  await inspector.script('FLUSH');
  await budget.enter(never);
  await budget.slowDown(0);
  expect(errors).toEqual([]);
  expect(await inspector.keys('*:throttled')).toHaveLength(1);
});

describe('the keys of an account', () => {
  it('start with the prefix, do not reveal the account and expire', async () => {
    const budget = await open({ requestsPerSecond: 0.1 });
    await budget.enter(never);
    await budget.slowDown(20_000);
    const keys = await inspector.keys('*');
    expect(keys.sort().map((key) => key.replace(/[0-9a-f]{16}/, '<hash>'))).toEqual([
      'test:budget:<hash>:pause',
      'test:budget:<hash>:rate',
      'test:budget:<hash>:slow',
      'test:budget:<hash>:throttled',
    ]);
    for (const key of keys) {
      expect(await inspector.pttl(key)).toBeGreaterThan(0);
      expect(await inspector.pttl(key)).toBeLessThanOrEqual(30_000);
    }
  });
});

describe('a high rate', () => {
  it('starts some calls at once, and keeps to 200 in any second', async () => {
    const budgets = [await open({ requestsPerSecond: 200 }), await open({ requestsPerSecond: 200 })];
    const arrivals: Arrival[] = [];
    const startedAt = performance.now();
    const fire = async (budget: SharedBudget): Promise<void> => {
      while (performance.now() < startedAt + 2_500) {
        await budget.enter(never);
        arrivals.push({ at: performance.now(), from: 'here' });
      }
    };
    await Promise.all([...budgets, ...budgets, ...budgets, ...budgets].map(fire));
    const most = mostInASecond(arrivals);
    console.log(`two clients at 200/s: at most ${most} in any second, ${arrivals.length / 2.5}/s over all`);
    // Calls that Redis let start in time may be seen together: a second may hold some of the one before.
    expect(most).toBeLessThanOrEqual(205);
    expect(arrivals.length / 2.5).toBeGreaterThan(20);
  });
});

describe('callers that wait for the rate', () => {
  const slowly = { requestsPerSecond: 5 };
  const queue = 'test:budget:*:queue';
  const waiting = async (): Promise<number> => {
    const [key] = await inspector.keys(queue);
    return key === undefined ? 0 : await inspector.zcard(key);
  };
  const until = async (count: number): Promise<void> => {
    await vi.waitFor(async () => expect(await waiting()).toBe(count), { interval: 1, timeout: 5_000 });
  };

  /** No call starts for the next two seconds. */
  const holdBack = async (): Promise<void> => {
    const [key = ''] = await inspector.keys('*:rate');
    await inspector.set(key, String((Date.now() + 2_000) * 1_000), 'PX', 2_000);
  };

  // Proves promise 12
  it('start in the order in which they came, from whichever process', async () => {
    const [one, two, three] = [await open(slowly), await open(slowly), await open(slowly)];
    await one.enter(never);
    await holdBack();
    const started: number[] = [];
    const calls: Promise<unknown>[] = [];
    for (const [index, budget] of [one, two, two, three, one, three].entries()) {
      calls.push(budget.enter(never).then(() => started.push(index)));
      await until(index + 1);
    }
    await Promise.all(calls);
    expect(started).toEqual([0, 1, 2, 3, 4, 5]);
    expect(await waiting()).toBe(0);
  });

  // Proves promise 12
  it('go past those of a killed process, which keep their places in the queue', async () => {
    const budget = await open(slowly);
    await budget.enter(never);
    await holdBack();
    const next = budget.enter(never);
    await until(1);
    const [key = ''] = await inspector.keys(queue);
    for (let killed = 1; killed <= 20; killed += 1) await inspector.zadd(key, -killed, `killed ${killed}`);
    await next;
    expect(await waiting()).toBe(0);
  });

  it('do not wait for an hour when the clock of Redis was set back by one', async () => {
    const budget = await open({ requestsPerSecond: 20 });
    await budget.enter(never);
    const [key = ''] = await inspector.keys('*:rate');
    await inspector.set(key, String((Date.now() + 3_600_000) * 1_000));
    await budget.enter(never);
    // What the next one waits for is right again.
    expect(Number(await inspector.get(key))).toBeLessThan((Date.now() + 60_000) * 1_000);
  });
});

describe('a throttle', () => {
  it('halves the rate once for all calls in flight', async () => {
    const budgets = [await open(), await open()];
    await Promise.all([...budgets, ...budgets].map((budget) => budget.slowDown(500)));
    expect(await remainingMs('slow')).toBeGreaterThan(9_000);
    // Redis rounds the time that remains: each of the calls may add a millisecond.
    expect(await remainingMs('slow')).toBeLessThanOrEqual(10_504);
  });

  it('halves the rate again after a second, down to a sixteenth', async () => {
    const budget = await open({}, { recoverEveryMs: 60_000 });
    for (let halvings = 1; halvings <= 6; halvings += 1) {
      await budget.slowDown(0);
      await inspector.del(...(await inspector.keys('*throttled')));
      const steps = Math.ceil((await remainingMs('slow')) / 60_000);
      expect(steps).toBe(Math.min(halvings, 4));
    }
  });

  it('extends a pause but never shortens it; the slowdown starts at its end', async () => {
    const budget = await open();
    await budget.slowDown(20_000);
    await budget.slowDown(5_000);
    expect(await remainingMs('pause')).toBeGreaterThan(19_000);
    expect(await remainingMs('slow')).toBeGreaterThan(29_000);
    await budget.slowDown(40_000);
    expect(await remainingMs('pause')).toBeGreaterThan(39_000);
    expect(await remainingMs('slow')).toBeGreaterThan(49_000);
    expect(await remainingMs('slow')).toBeLessThanOrEqual(50_003);
  });

  it('with a long pause throws in every process, with the remaining time', async () => {
    const [told, another] = [await open(), await open()];
    await told.slowDown(90_000);
    for (let attempt = 0; attempt < 2; attempt += 1) {
      const error: unknown = await another.enter(never).catch((thrown: unknown) => thrown);
      expect(error).toBeInstanceOf(ThrottledError);
      expect(error).toMatchObject({ code: 'THROTTLED', recovery: 'throttle' });
      expect(error).toHaveProperty('retryAfterMs', expect.closeTo(89_000, -4));
    }
  });
});

describe('a wait', () => {
  const reason = new Error('stopped by test');
  it.each<[string, Partial<AccountLimits>, (budget: SharedBudget) => Promise<unknown>]>([
    ['the rate', { requestsPerSecond: 0.001 }, (budget) => budget.enter(never)],
    ['the end of a pause', {}, (budget) => budget.slowDown(20_000)],
  ])('for %s ends when the signal is aborted', async (_for, limits, first) => {
    const budget = await open(limits);
    await first(budget);
    const controller = new AbortController();
    const call = budget.enter(controller.signal).then(
      () => 'started',
      (error: unknown) => error,
    );
    // It may be asking or sleeping now; either way it waits, and would for much longer.
    const waiting = systemClock.sleep(100).then(() => 'waiting');
    expect(await Promise.race([call, waiting])).toBe('waiting');
    controller.abort(reason);
    expect(await call).toBe(reason);
  });
});

describe('a Redis outage', () => {
  // Proves promise 12
  it('does not block calls, is reported, and the limits apply again when it ends', async () => {
    const budget = await open({ requestsPerSecond: 20 });
    await budget.enter(never);
    await redis.stop();
    const startedAt = Date.now();
    for (let call = 0; call < 200; call += 1) await budget.enter(never);
    await budget.slowDown(1_000);
    // At 20 a second 200 calls take 10 s; one command to a hanging Redis may take 2 s.
    expect(Date.now() - startedAt).toBeLessThan(5_000);
    expect(errors.length).toBeGreaterThan(0);
    for (const error of errors) expect(JSON.stringify(error) + error.message).not.toContain(password);

    redis = await startRedis({ port: redis.port, password });
    const returned = new Redis(redis.url);
    while ((await returned.keys('*rate')).length === 0) {
      await budget.enter(never);
      await systemClock.sleep(10);
    }
    returned.disconnect();
    const backAt = Date.now();
    for (let call = 0; call < 20; call += 1) await budget.enter(never);
    expect(Date.now() - backAt).toBeGreaterThan(900);
  });

  it('in which Redis hangs delays one call, not every call', async () => {
    const budget = await open({ requestsPerSecond: 1_000 });
    await budget.enter(never);
    await inspector.client('PAUSE', 8_000, 'ALL');
    const startedAt = Date.now();
    for (let call = 0; call < 50; call += 1) await budget.enter(never);
    expect(Date.now() - startedAt).toBeLessThan(6_000);
    expect(errors.length).toBeGreaterThan(0);
  });
});

async function remainingMs(kind: string): Promise<number> {
  const [key = ''] = await inspector.keys(`*:${kind}`);
  return await inspector.pttl(key);
}

const gone = (): Promise<never> => Promise.reject(new Error('ECONNREFUSED'));
const there = (): Promise<string> => Promise.resolve('PONG');

it('retries after 1 s, then 2, 4 and up to 30 s', async () => {
  const clock = instantClock();
  const ask = openRedisBackoff(clock, () => undefined);
  const askedAt: number[] = [];
  for (let moment = 0; moment < 200; moment += 1) {
    await ask(() => {
      askedAt.push(clock.now());
      return gone();
    });
    clock.advance(500);
  }
  const pauses = askedAt.slice(1).map((at, index) => at - (askedAt[index] ?? 0));
  expect(pauses).toEqual([1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]);
});

it('sends a single trial command after a pause', async () => {
  const clock = instantClock();
  const ask = openRedisBackoff(clock, () => undefined);
  await ask(gone);
  clock.advance(1_000);
  const answers = await Promise.all([ask(there), ask(there), ask(there)]);
  expect(answers).toEqual(['PONG', null, null]);
  expect(await Promise.all([ask(there), ask(there)])).toEqual(['PONG', 'PONG']);
});

it('counts failures of concurrent commands as one', async () => {
  const clock = instantClock();
  const errors: Error[] = [];
  const ask = openRedisBackoff(clock, (error) => errors.push(error));
  await Promise.all(Array.from({ length: 10 }, () => ask(gone)));
  expect(errors).toHaveLength(10);
  clock.advance(1_000);
  expect(await ask(there)).toBe('PONG');
});

it('starts with the short pause again after a success', async () => {
  const clock = instantClock();
  const ask = openRedisBackoff(clock, () => undefined);
  for (let failure = 0; failure < 5; failure += 1) {
    await ask(gone);
    clock.advance(30_000);
  }
  expect(await ask(there)).toBe('PONG');
  await ask(gone);
  clock.advance(1_000);
  expect(await ask(there)).toBe('PONG');
});
