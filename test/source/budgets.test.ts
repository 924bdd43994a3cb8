import { describe, expect, it } from 'vitest';
import { systemClock, type Clock } from '../../src/core/clock.ts';
import { ThrottledError } from '../../src/core/errors.ts';
import type { SharedBudget } from '../../src/core/shared-budget.ts';
import {
  type Reply,
  apiError,
  envelope,
  html,
  json,
  success,
  throttled,
  held,
} from '../support/hostile/replies.ts';
import { instantClock } from '../support/instant-clock.ts';
import { openPromise } from '../support/open-promise.ts';
import { failureOf, never, openTestSource, connectorId } from '../support/source/open-test-source.ts';
import { entityName } from '../support/source/test-definition.ts';

const request = { entity: entityName('members'), params: {}, isRoot: false };
const firstly =
  (reply: Reply) =>
  ({ index }: { index: number }) =>
    index === 0 ? reply : success([]);

describe('a throttle', () => {
  it.each<[string, Reply, number, number]>([
    ['seconds', throttled({ seconds: 7 }), 7_000, 7_000],
    ['an HTTP date', throttled({ dateIn: 20 }), 19_000, 21_000],
    ['529', throttled({ seconds: 3 }, 529), 3_000, 3_000],
    ['no time at all', throttled(null), 500, 1_000],
    ['a time that cannot be read', apiError(429, 'no', { 'retry-after': 'soon' }), 500, 1_000],
    ['403 without JSON', html(403), 500, 1_000],
  ])('is waited for: %s', async (_title, reply, least, most) => {
    const clock = instantClock();
    const { source, events } = await openTestSource({ respond: firstly(reply), clock });
    const startedAt = clock.now();
    await source.list(request, never);
    expect(clock.now() - startedAt).toBeGreaterThanOrEqual(least);
    expect(clock.now() - startedAt).toBeLessThanOrEqual(most);
    const ofMembers = events.filter((event) => !('entity' in event) || event.entity !== null);
    expect(ofMembers.map(({ kind }) => kind)).toEqual([
      'call-ended',
      'throttled',
      'call-retried',
      'call-ended',
    ]);
    expect(source.stats()).toMatchObject({ calls: 2, retries: 1 });
    expect(source.stats().waitedMs).toBeGreaterThanOrEqual(least);
  });

  it('longer than 30 s is passed to the caller, with its length', async () => {
    const clock = instantClock();
    const { source, server } = await openTestSource({ respond: firstly(throttled({ seconds: 90 })), clock });
    const error = await failureOf(source.list(request, never));
    expect(error).toBeInstanceOf(ThrottledError);
    expect(error).toMatchObject({ code: 'THROTTLED', recovery: 'throttle', retryAfterMs: 90_000 });
    expect(server.calls).toHaveLength(1);
    // No other call is sent before that either.
    clock.advance(40_000);
    expect(await failureOf(source.list(request, never))).toMatchObject({ retryAfterMs: 50_000 });
    expect(server.calls).toHaveLength(1);
    clock.advance(25_000);
    await source.list(request, never);
    expect(server.calls).toHaveLength(2);
    expect(clock.now()).toBeGreaterThanOrEqual(Date.parse('2026-01-01T00:01:30Z'));
  });

  it('is believed for at most an hour', async () => {
    const { source } = await openTestSource({ respond: firstly(throttled({ seconds: 999_999 })) });
    expect(await failureOf(source.list(request, never))).toMatchObject({ retryAfterMs: 3_600_000 });
  });

  it('slows the whole budget and lets it recover by steps', async () => {
    const clock = instantClock();
    const { source } = await openTestSource({
      respond: firstly(throttled({ seconds: 1 })),
      clock,
      requestsPerSecond: 2,
    });
    await source.list(request, never);
    const gaps: number[] = [];
    for (let call = 0; call < 40; call += 1) {
      const before = clock.now();
      await source.list(request, never);
      gaps.push(clock.now() - before);
    }
    expect(gaps[0]).toBe(1_000);
    expect(gaps.at(-1)).toBe(500);
    expect(gaps.some((gap) => gap > 500 && gap < 1_000)).toBe(true);
  });
});

describe('Retry-After of a service that is down', () => {
  const down = (status: number, after: string): Reply =>
    apiError(status, 'down', { 'retry-after': after, date: 'Sun, 01 Mar 2026 10:00:00 GMT' });

  // Proves promise 8.3
  it.each<[number, string, number, number]>([
    [500, '7', 7_000, 7_000],
    [502, '7', 7_000, 7_000],
    [503, '7', 7_000, 7_000],
    [504, '7', 7_000, 7_000],
    [503, '2.5', 2_500, 2_500],
    [503, 'Sun, 01 Mar 2026 10:00:20 GMT', 20_000, 20_000],
    [408, '7', 7_000, 7_000],
    [507, '7', 7_000, 7_000],
    // Nothing that can be waited for: the call backs off as without a header.
    [503, '0', 0, 1_000],
    [503, 'soon', 0, 1_000],
    [503, '-5', 0, 1_000],
    [503, 'Thu, 01 Jan 1970 00:00:00 GMT', 0, 1_000],
  ])('is waited for as that of a 429: %i with %s', async (status, after, least, most) => {
    const clock = instantClock();
    const { source, events } = await openTestSource({ respond: firstly(down(status, after)), clock });
    const startedAt = clock.now();
    await source.list({ ...request, entity: entityName('tags') }, never);
    expect(clock.now() - startedAt).toBeGreaterThanOrEqual(least);
    expect(clock.now() - startedAt).toBeLessThanOrEqual(most);
    expect(source.stats()).toMatchObject({ calls: 2, retries: 1 });
    expect(events.filter(({ kind }) => kind === 'throttled')).toHaveLength(least > 0 ? 1 : 0);
  });

  it('keeps every call quiet, and one longer than 30 s is handed to the caller, an hour at most', async () => {
    const clock = instantClock();
    const { source, server } = await openTestSource({ respond: firstly(down(503, '99999')), clock });
    expect(await failureOf(source.list(request, never))).toMatchObject({
      code: 'THROTTLED',
      recovery: 'throttle',
      retryAfterMs: 3_600_000,
    });
    clock.advance(3_500_000);
    expect(await failureOf(source.list(request, never))).toMatchObject({ retryAfterMs: 100_000 });
    expect(server.calls).toHaveLength(1);
  });

  it('is waited for by requests for a token and for the connector too', async () => {
    const clock = instantClock();
    const startedAt = clock.now();
    let connectorRequests = 0;
    const { source, server } = await openTestSource({
      clock,
      respondToken: (index) => (index === 0 ? down(503, '7') : null),
      respondGet: () => (connectorRequests++ === 0 ? down(502, '11') : null),
    });
    await source.connect(never);
    expect([server.tokensIssued(), connectorRequests]).toEqual([1, 2]);
    expect(clock.now() - startedAt).toBe(18_000);
  });
});

describe('the budget', () => {
  it('spaces calls by the rate', async () => {
    const clock = instantClock();
    const { source, server } = await openTestSource({ clock, requestsPerSecond: 4 });
    const startedAt = clock.now();
    await Promise.all(Array.from({ length: 9 }, () => source.list(request, never)));
    expect(server.calls).toHaveLength(9);
    expect(clock.now() - startedAt).toBe(2_000);
  });

  it.each([
    { statedRate: 'follow', set: 4, stated: 400, rate: 400, by: 'api', tookMs: 0 },
    { statedRate: 'lower', set: 4, stated: 400, rate: 4, by: 'definition', tookMs: 2_000 },
    { statedRate: 'lower', set: 4, stated: 2, rate: 2, by: 'api', tookMs: 4_500 },
    { statedRate: 'follow', set: 4, stated: 5_000, rate: 1_000, by: 'api', tookMs: 0 },
    { statedRate: undefined, set: 4, stated: 400, rate: undefined, by: undefined, tookMs: 2_000 },
  ] as const)('takes what the API states: $statedRate, $set, $stated', async (given) => {
    const { set, stated, rate, by, tookMs } = given;
    const clock = instantClock();
    const headers = { 'content-type': 'application/json', 'ratelimit-policy': `"token";q=${stated};w=1` };
    const { source, events } = await openTestSource({
      clock,
      requestsPerSecond: set,
      concurrency: 1,
      ...(given.statedRate === undefined ? {} : { statedRate: given.statedRate }),
      respond: () => (exchange) => json(200, envelope(exchange.connectorId, []), headers)(exchange),
    });
    const startedAt = clock.now();
    for (let call = 0; call <= 8; call += 1) await source.list(request, never);
    expect(source.stats().rate).toEqual(rate === undefined ? undefined : { requestsPerSecond: rate, by });
    const heard = events.filter(({ kind }) => kind === 'rate-stated');
    expect(heard).toEqual(by === 'api' ? [{ kind: 'rate-stated', requestsPerSecond: rate }] : []);
    expect(Math.abs(clock.now() - startedAt - tookMs)).toBeLessThanOrEqual(750);
  });

  it('never has more calls in flight than its concurrency', async () => {
    let running = 0;
    let most = 0;
    const gate = openPromise();
    const { source, server } = await openTestSource({
      concurrency: 3,
      respond: () => async (exchange) => {
        running += 1;
        most = Math.max(most, running);
        await gate.promise;
        running -= 1;
        await success([])(exchange);
      },
    });
    const calls = Promise.all(Array.from({ length: 20 }, () => source.list(request, never)));
    await server.arrived(3);
    gate.resolve();
    expect(await calls).toHaveLength(20);
    expect(most).toBe(3);
  });

  it('gives a back-off up as soon as the signal is aborted', async () => {
    const reason = new Error('stopped by test');
    const controller = new AbortController();
    // Waits for ever, as far as this test is concerned, and says that it does.
    const clock: Clock = {
      now: () => Date.now(),
      sleep: (_ms, signal) => {
        setImmediate(() => controller.abort(reason));
        return systemClock.sleep(3_600_000, signal);
      },
    };
    const { source } = await openTestSource({ respond: () => apiError(503, 'down'), clock });
    await expect(source.list(request, controller.signal)).rejects.toBe(reason);
  });

  it('stops retrying when the call as a whole has taken too long', async () => {
    const { source, server } = await openTestSource({
      respond: () => throttled({ seconds: 20 }),
      limits: { maxCallMs: 50_000 },
    });
    expect(await failureOf(source.list(request, never))).toMatchObject({ code: 'THROTTLED' });
    expect(server.calls).toHaveLength(3);
  });
});

describe('a budget shared with other processes', () => {
  it('is entered for each attempt', async () => {
    const budget = budgetInProcess();
    const replies = [apiError(503, 'down'), throttled({ seconds: 1 }), apiError(404, 'gone')];
    const { source, server } = await openTestSource({
      budget,
      respond: ({ index }) => replies[index] ?? success([]),
    });
    expect(await failureOf(source.list(request, never))).toMatchObject({ code: 'NOT_FOUND' });
    await source.list(request, never);
    expect(server.calls).toHaveLength(4);
    expect(budget.seen.entered).toBe(4);
  });

  it('passes a throttle on, and pauses this process too', async () => {
    const clock = instantClock();
    const budget = budgetInProcess();
    const { source } = await openTestSource({
      budget,
      clock,
      respond: ({ index }) => (index === 0 ? throttled({ seconds: 7 }) : success([])),
    });
    const startedAt = clock.now();
    await source.list(request, never);
    expect(budget.seen.quietMs).toEqual([7_000]);
    expect(clock.now() - startedAt).toBeGreaterThanOrEqual(7_000);
  });

  it('hands a long pause of another process to the caller: nothing is sent', async () => {
    const budget = budgetInProcess({ wait: () => Promise.reject(new ThrottledError('paused', 90_000)) });
    const { source, server } = await openTestSource({ budget });
    expect(await failureOf(source.list(request, never))).toMatchObject({
      code: 'THROTTLED',
      recovery: 'throttle',
      retryAfterMs: 90_000,
    });
    expect(server.calls).toEqual([]);
  });

  it('is given up as soon as the signal is aborted', async () => {
    const reason = new Error('stopped by test');
    const controller = new AbortController();
    const waiting: Clock['sleep'] = (ms, signal) => {
      setImmediate(() => controller.abort(reason));
      return systemClock.sleep(ms, signal);
    };
    const budget = budgetInProcess({ wait: (signal) => waiting(3_600_000, signal) });
    const { source, server } = await openTestSource({ budget });
    await expect(source.list(request, controller.signal)).rejects.toBe(reason);
    expect(server.calls).toEqual([]);
  });

  it('is not entered before there is a token: turns would pile up behind it', async () => {
    const budget = budgetInProcess();
    const [asked, answered] = [openPromise(), openPromise()];
    const { source } = await openTestSource({
      budget,
      respondToken: () => {
        asked.resolve();
        return held(answered.promise, json(503, {}));
      },
      limits: { retries: 0 },
    });
    const calls = [1, 2, 3].map(() => failureOf(source.list(request, never)));
    await asked.promise;
    expect(budget.seen.entered).toBe(0);
    answered.resolve();
    for (const error of await Promise.all(calls)) expect(error).toMatchObject({ code: 'UPSTREAM' });
    expect(budget.seen.entered).toBe(0);
  });
});

interface BudgetInProcess extends SharedBudget {
  readonly seen: { entered: number; readonly quietMs: number[] };
}

/** `wait` is what holds a call up. */
function budgetInProcess(options: { wait?: (signal: AbortSignal) => Promise<void> } = {}): BudgetInProcess {
  const seen: BudgetInProcess['seen'] = { entered: 0, quietMs: [] };
  return {
    seen,
    async enter(signal) {
      await options.wait?.(signal);
      seen.entered += 1;
    },
    slowDown(waitMs) {
      seen.quietMs.push(waitMs);
      return Promise.resolve();
    },
    limitTo: () => undefined,
  };
}

const spent = { code: 'BUDGET_SPENT', recovery: 'stop' };

describe('a limit of calls', () => {
  it('sends exactly so many, however many ask at a time', async () => {
    const { source, server } = await openTestSource({ maxCalls: 7 });
    const outcomes = await Promise.allSettled(Array.from({ length: 25 }, () => source.list(request, never)));
    expect(server.calls).toHaveLength(7);
    expect(source.stats().calls).toBe(7);
    expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(7);
    for (const outcome of outcomes) {
      if (outcome.status === 'rejected') expect(outcome.reason).toMatchObject(spent);
    }
  });

  it('counts repeated calls, and does not wait for one that may not be made', async () => {
    const { source, server, events } = await openTestSource({
      maxCalls: 3,
      respond: () => apiError(503, 'down'),
    });
    expect(await failureOf(source.list(request, never))).toMatchObject(spent);
    expect(server.calls).toHaveLength(3);
    expect(source.stats()).toMatchObject({ calls: 3, retries: 2 });
    expect(events.filter((event) => event.kind === 'call-ended' && event.entity !== null)).toHaveLength(3);
  });

  it('reports a throttle and does not wait for it, because nothing may follow', async () => {
    const clock = instantClock();
    const { source, events } = await openTestSource({
      maxCalls: 1,
      respond: () => throttled({ seconds: 20 }),
      clock,
    });
    const startedAt = clock.now();
    expect(await failureOf(source.list(request, never))).toMatchObject(spent);
    expect(events.filter(({ kind }) => kind === 'throttled')).toHaveLength(1);
    expect(clock.now()).toBe(startedAt);
  });

  it('does not count tokens and the catalog, and refuses every later call', async () => {
    const { source, server, client } = await openTestSource({ maxCalls: 1, respond: () => success([]) });
    await source.connect(never);
    await client.connector(connectorId('c1'), never);
    await source.list(request, never);
    server.expireTokens();
    expect(await failureOf(source.list(request, never))).toMatchObject(spent);
    expect(await failureOf(source.get({ ...request, params: { member_id: 'm' } }, never))).toMatchObject(
      spent,
    );
    expect(server.calls).toHaveLength(1);
    await source.connect(never);
  });
});

describe("the service's time", () => {
  const dated =
    (date: string): Reply =>
    (exchange) => {
      exchange.response.setHeader('date', date);
      return success([])(exchange);
    };

  it('is known once the connector has answered, and is that of the newest answer', async () => {
    const { source } = await openTestSource({ respond: () => dated('Wed, 21 Oct 2015 07:28:00 GMT') });
    await source.connect(never);
    expect(Date.parse(source.stats().serverTime ?? '')).toBeGreaterThan(Date.parse('2020-01-01'));
    await source.list(request, never);
    expect(source.stats().serverTime).toBe('2015-10-21T07:28:00.000Z');
  });

  it('is that of a refusal too', async () => {
    const date = 'Wed, 21 Oct 2015 07:28:00 GMT';
    const { source } = await openTestSource({ respond: () => apiError(504, 'slow', { date }) });
    expect(await failureOf(source.list(request, never))).toMatchObject({ code: 'TIMEOUT' });
    expect(source.stats().serverTime).toBe('2015-10-21T07:28:00.000Z');
  });

  it.each(['-5', 'soon', '2015-10-21T07:28:00Z'])(
    'stays what it was where an answer says %s',
    async (date) => {
      const { source } = await openTestSource({ respond: () => dated(date) });
      await source.connect(never);
      const before = source.stats().serverTime;
      await source.list(request, never);
      expect(source.stats().serverTime).toBe(before);
    },
  );
});
