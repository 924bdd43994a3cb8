import { describe, expect, it } from 'vitest';
import type { Reply } from '../../support/hostile/exchange.ts';
import { apiError, success, throttled } from '../../support/hostile/replies.ts';
import { connectorId, failureOf, never, openTestSource } from '../../support/source/open-test-source.ts';
import { instantClock } from '../../support/instant-clock.ts';
import { entityName } from '../../support/source/test-definition.ts';

const request = { entity: entityName('members'), params: {}, isRoot: false };
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

  it('is no limit where none is set', async () => {
    const { source, server } = await openTestSource({});
    await Promise.all(Array.from({ length: 30 }, () => source.list(request, never)));
    expect(server.calls).toHaveLength(30);
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
