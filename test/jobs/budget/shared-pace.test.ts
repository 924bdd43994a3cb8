import { Redis } from 'ioredis';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { systemClock, type Clock } from '../../../src/core/clock.ts';
import { openSharedPace } from '../../../src/jobs/shared-budgets.ts';
import { startRedis, type PrivateRedis } from '../../support/redis.ts';
import { isLong } from '../../support/trials.ts';

const never = new AbortController().signal;

let server: PrivateRedis;
let redis: Redis;
beforeAll(async () => {
  server = await startRedis();
});
beforeEach(async () => {
  redis = new Redis(server.url);
  await redis.flushall();
});
afterEach(() => {
  redis.disconnect();
});
afterAll(() => server.stop());

/** `roundTripMs`: what Redis is away, there and back. */
function openPace(requestsPerSecond: number, clock: Clock = systemClock, roundTripMs = 0) {
  return openSharedPace({
    redis,
    key: 'account',
    requestsPerSecond,
    maxWaitMs: 120_000,
    recoverEveryMs: 10_000,
    clock,
    ask: async (command) => {
      if (roundTripMs === 0) return await command();
      await systemClock.sleep(roundTripMs / 2);
      const answer = await command();
      await systemClock.sleep(roundTripMs / 2);
      return answer;
    },
  });
}

interface Caller {
  /** Asks once, when the test says so: how long it has to wait, 0 where its call may start. */
  readonly ask: () => Promise<number>;
}

function openCaller(requestsPerSecond: number): Caller {
  let answer: (waitMs: number) => void = () => undefined;
  let wake: (() => void) | null = null;
  const clock: Clock = {
    now: Date.now,
    sleep: (ms) =>
      new Promise((resolve) => {
        wake = resolve;
        answer(ms);
      }),
  };
  const pace = openPace(requestsPerSecond, clock);
  return {
    ask: () =>
      new Promise((resolve, reject) => {
        answer = resolve;
        if (wake === null) pace.enter(never).then(() => answer(0), reject);
        else wake();
      }),
  };
}

/** The first has just started; the others wait, in this order. */
async function openQueue(requestsPerSecond: number): Promise<Record<'b' | 'c' | 'd', Caller>> {
  expect(await openCaller(requestsPerSecond).ask()).toBe(0);
  const [b, c, d] = [
    openCaller(requestsPerSecond),
    openCaller(requestsPerSecond),
    openCaller(requestsPerSecond),
  ];
  for (const caller of [b, c, d]) expect(await caller.ask()).toBeGreaterThan(0);
  await letNobodyBeLate();
  return { b, c, d };
}

/** However busy the machine is. */
async function letNobodyBeLate(): Promise<void> {
  for (const key of await redis.keys('account:queue:*')) await redis.pexpire(key, 10_000);
}

/** Every key that only lasts until then has expired. */
async function untilNextStart(): Promise<void> {
  const rate = Number(await redis.get('account:rate'));
  await vi.waitFor(
    async () => {
      const [seconds, microseconds] = await redis.time();
      expect(Number(seconds) * 1_000_000 + Number(microseconds)).toBeGreaterThan(rate + 3_000);
    },
    { interval: 1, timeout: 5_000 },
  );
}

describe('the caller that asks first', () => {
  it('does not start before those who came earlier and are not late', async () => {
    const { b, c, d } = await openQueue(1);
    await untilNextStart();
    expect(await d.ask()).toBeGreaterThan(0);
    expect(await c.ask()).toBeGreaterThan(0);
    expect(await b.ask()).toBe(0);
    await letNobodyBeLate();
    await untilNextStart();
    expect(await d.ask()).toBeGreaterThan(0);
    expect(await c.ask()).toBe(0);
  });

  it.each([
    ['the last start is no longer known', async () => await redis.del('account:rate')],
    [
      'the clock of Redis was set back by an hour',
      async () => await redis.set('account:rate', `${(Date.now() + 3_600_000) * 1_000}`),
    ],
  ])('does not either where %s', async (_where, change) => {
    const { b, d } = await openQueue(1);
    await change();
    expect(await d.ask()).toBeGreaterThan(0);
    expect(await b.ask()).toBe(0);
  });

  it('does not either at the end of a pause, however long it was', async () => {
    const { b, c, d } = await openQueue(1);
    await openPace(1).slowDown(60_000);
    for (const caller of [d, c, b]) expect(await caller.ask()).toBeGreaterThan(59_000);
    // What is known of them outlives the pause.
    for (const key of ['account:queue', 'account:rate']) {
      expect(await redis.pttl(key)).toBeGreaterThan(65_000);
    }
    await redis.del('account:pause', 'account:slow');
    expect(await d.ask()).toBeGreaterThan(0);
    expect(await b.ask()).toBe(0);
  });
});

describe('a caller that no longer asks', () => {
  it('is passed by the next one, and so are all that were killed with it, at once', async () => {
    await openPace(5).enter(never);
    const killed = Array.from({ length: 20 }, () => openCaller(5));
    for (const caller of killed) expect(await caller.ask()).toBeGreaterThan(0);
    await openPace(5).enter(never);
    expect(await redis.keys('account:queue')).toEqual([]);
  });

  it('leaves nothing behind', async () => {
    const controller = new AbortController();
    await openPace(0.1).enter(never);
    const call = openPace(0.1).enter(controller.signal);
    const ended = call.catch((error: unknown) => error);
    await vi.waitFor(async () => expect(await redis.zcard('account:queue')).toBe(1));
    controller.abort('stopped by test');
    expect(await ended).toBe('stopped by test');
    expect(await redis.keys('account:queue*')).toEqual([]);
  });
});

describe('callers of which one is farther away from Redis than the others', () => {
  const cases = [
    { requestsPerSecond: 2, trips: [0, 0, 0, 10], seconds: 8 },
    { requestsPerSecond: 10, trips: [0, 0, 0, 150], seconds: 5 },
    { requestsPerSecond: 50, trips: [0, 0, 0, 50], seconds: 3 },
    { requestsPerSecond: 100, trips: [0, 0, 0, 20], seconds: 3 },
    ...(isLong
      ? [
          { requestsPerSecond: 1, trips: [0, 0, 0, 10], seconds: 40 },
          { requestsPerSecond: 10, trips: [0, 0, 0, 80], seconds: 20 },
          { requestsPerSecond: 10, trips: [0, 0, 0, 300], seconds: 20 },
          { requestsPerSecond: 10, trips: [120, 120, 120, 120], seconds: 20 },
        ]
      : []),
  ];

  it.each(cases)(
    'share $requestsPerSecond calls a second: $trips ms there and back',
    async ({ requestsPerSecond, trips, seconds }) => {
      const ending = AbortSignal.timeout(seconds * 1_000);
      const counts = trips.map(() => 0);
      const fire = async (tripMs: number, index: number): Promise<void> => {
        const pace = openPace(requestsPerSecond, systemClock, tripMs);
        for (;;) {
          await pace.enter(ending);
          counts[index] = (counts[index] ?? 0) + 1;
          await systemClock.sleep(3);
        }
      };
      await Promise.allSettled(trips.map(fire));
      console.log(`${requestsPerSecond}/s, ${trips.join()} ms away: ${counts.join()} calls in ${seconds} s`);
      const all = counts.reduce((sum, count) => sum + count, 0);
      // A quarter each, but for the time that one of them takes to ask. On a busy machine the others are late too.
      expect(Math.min(...counts)).toBeGreaterThan(all / 10);
    },
  );
});
