import { describe, expect, it } from 'vitest';
import { systemClock, type Clock } from '../../../src/core/clock.ts';
import { ThrottledError } from '../../../src/core/errors.ts';
import type { SharedBudget } from '../../../src/core/shared-budget.ts';
import { apiError, held, json, success, throttled } from '../../support/hostile/replies.ts';
import { instantClock } from '../../support/instant-clock.ts';
import { connectorId, failureOf, never, openTestSource } from '../../support/source/open-test-source.ts';
import { entityName } from '../../support/source/test-definition.ts';

const request = { entity: entityName('members'), params: {}, isRoot: false };

describe('a budget shared with other processes', () => {
  it('is entered for each attempt and left when that ends, however it ends', async () => {
    const budget = budgetInProcess();
    const replies = [apiError(503, 'down'), throttled({ seconds: 1 }), apiError(404, 'gone')];
    const { source, server } = await openTestSource({
      budget,
      respond: ({ index }) => replies[index] ?? success([]),
    });
    expect(await failureOf(source.list(request, never))).toMatchObject({ code: 'NOT_FOUND' });
    await source.list(request, never);
    expect(server.calls).toHaveLength(4);
    expect(budget.seen).toMatchObject({ entered: 4, released: 4 });
  });

  it('holds calls up together with those of others', async () => {
    const budget = budgetInProcess({ places: 2 });
    let running = 0;
    let most = 0;
    let answer = (): void => undefined;
    const answered = new Promise<void>((resolve) => (answer = resolve));
    const { source, server } = await openTestSource({
      budget,
      respond: () => async (exchange) => {
        most = Math.max(most, ++running);
        await answered;
        running -= 1;
        await success([])(exchange);
      },
    });
    const calls = Promise.all(Array.from({ length: 20 }, () => source.list(request, never)));
    await server.arrived(2);
    answer();
    await calls;
    expect(most).toBe(2);
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

  it('counts as waiting, in addition to the wait for this process', async () => {
    const clock = instantClock();
    const budget = budgetInProcess({ wait: (signal) => clock.sleep(5_000, signal) });
    const { source, events } = await openTestSource({ budget, clock, requestsPerSecond: 0.1 });
    await source.list(request, never);
    await source.list(request, never);
    expect(source.stats().waitedMs).toBe(15_000);
    expect(events.filter((event) => event.kind === 'call-ended' && event.entity !== null)).toMatchObject([
      { waitedMs: 5_000 },
      { waitedMs: 10_000 },
    ]);
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

  it('fails no call by failing itself', async () => {
    const failing = (): Promise<never> => Promise.reject(new Error('Redis is gone'));
    const { source } = await openTestSource({
      budget: {
        enter: () => Promise.resolve({ release: failing }),
        slowDown: failing,
        [Symbol.asyncDispose]: () => Promise.resolve(),
      },
      respond: ({ index }) => (index === 0 ? throttled({ seconds: 1 }) : success([{ id: 'a' }])),
    });
    expect([...(await source.list(request, never)).records]).toEqual([{ id: 'a' }]);
  });

  it('is not entered for the catalog and for tokens', async () => {
    const budget = budgetInProcess();
    const { client } = await openTestSource({ budget });
    await client.connector(connectorId('c1'), never);
    expect(budget.seen.entered).toBe(0);
  });

  it('is not entered before there is a token: turns would pile up behind it', async () => {
    const budget = budgetInProcess();
    let hasAsked = (): void => undefined;
    const asked = new Promise<void>((resolve) => (hasAsked = resolve));
    let answer = (): void => undefined;
    const answered = new Promise<void>((resolve) => (answer = resolve));
    const { source } = await openTestSource({
      budget,
      respondToken: () => {
        hasAsked();
        return held(answered, json(503, {}));
      },
      limits: { retries: 0 },
    });
    const calls = [1, 2, 3].map(() => failureOf(source.list(request, never)));
    await asked;
    expect(budget.seen.entered).toBe(0);
    answer();
    for (const error of await Promise.all(calls)) expect(error).toMatchObject({ code: 'UPSTREAM' });
    expect(budget.seen.entered).toBe(0);
  });
});

interface BudgetInProcess extends SharedBudget {
  readonly seen: { entered: number; released: number; readonly quietMs: number[] };
}

/** Keeps `places` by itself, for all who share the object; `wait` is what else holds a call up. */
function budgetInProcess(
  options: { places?: number; wait?: (signal: AbortSignal) => Promise<void> } = {},
): BudgetInProcess {
  const seen: BudgetInProcess['seen'] = { entered: 0, released: 0, quietMs: [] };
  const queue: (() => void)[] = [];
  let free = options.places ?? Number.POSITIVE_INFINITY;
  return {
    seen,
    async enter(signal) {
      await options.wait?.(signal);
      if (free === 0) await new Promise<void>((resolve) => queue.push(resolve));
      else free -= 1;
      seen.entered += 1;
      return {
        release: () => {
          seen.released += 1;
          const next = queue.shift();
          if (next === undefined) free += 1;
          else next();
          return Promise.resolve();
        },
      };
    },
    slowDown(waitMs) {
      seen.quietMs.push(waitMs);
      return Promise.resolve();
    },
    [Symbol.asyncDispose]: () => Promise.resolve(),
  };
}
