import { expect, it } from 'vitest';
import type { RunEvent } from '../../../src/core/events.ts';
import { drip, resetBeforeHeaders } from '../../support/hostile/broken-replies.ts';
import type { Reply } from '../../support/hostile/exchange.ts';
import { apiError, html, json, success, throttled } from '../../support/hostile/replies.ts';
import { instantClock } from '../../support/instant-clock.ts';
import { connectorId, never, openTestSource } from '../../support/source/open-test-source.ts';
import { entityName } from '../../support/source/test-definition.ts';

const request = { entity: entityName('members'), params: {}, isRoot: false };

type CallEnded = Extract<RunEvent, { readonly kind: 'call-ended' }>;
const callsOf = (events: readonly RunEvent[]): readonly CallEnded[] =>
  events.filter((event) => event.kind === 'call-ended');
const answersOf = (events: readonly RunEvent[], entity: string | null): readonly string[] =>
  callsOf(events)
    .filter((call) => call.entity === entity)
    .map(({ answer }) => answer);

it.each<[string, readonly Reply[], readonly string[]]>([
  ['a good answer', [], ['ok']],
  ['a failure that passes', [apiError(503, 'down'), resetBeforeHeaders], ['retry', 'retry', 'ok']],
  ['a throttle', [throttled({ seconds: 1 })], ['throttle', 'ok']],
  ['a body that cannot be used', [html(200)], ['retry', 'ok']],
  ['a partition that is refused', [apiError(404, 'no such list')], ['skip-partition']],
  ['a page that is too large', [apiError(504, 'slow')], ['smaller-page']],
  ['an account without a plan', [apiError(402, 'no plan')], ['stop']],
])('reports one end for each attempt: %s', async (_title, replies, answers) => {
  const { source, events, server } = await openTestSource({
    respond: ({ index }) => replies[index] ?? success([]),
  });
  await source.list(request, never).catch(() => undefined);
  expect(answersOf(events, 'members')).toEqual(answers);
  expect(server.calls).toHaveLength(answers.length);
});

it('tells a refused token from refused credentials', async () => {
  const { source, events, server } = await openTestSource({});
  await source.list(request, never);
  server.expireTokens();
  await source.list(request, never);
  expect(answersOf(events, 'members')).toEqual(['ok', 'refresh-auth', 'ok']);
  server.refuseAllTokens();
  await source.list(request, never).catch(() => undefined);
  expect(answersOf(events, 'members').slice(3)).toEqual(['refresh-auth', 'stop']);
});

it('reports calls about tokens and the catalog without an entity', async () => {
  const { source, client, events } = await openTestSource({
    respondToken: (index) => (index === 0 ? json(503, {}) : null),
  });
  await source.list(request, never);
  expect(answersOf(events, null)).toEqual(['retry', 'ok']);
  await client.connector(connectorId('c1'), never);
  expect(answersOf(events, null)).toEqual(['retry', 'ok', 'ok']);
});

it('says how long a call waited for its turn, apart from how long it took', async () => {
  const clock = instantClock();
  const { source, events } = await openTestSource({
    clock,
    requestsPerSecond: 0.5,
    respond: () => async (exchange) => {
      clock.advance(300);
      await success([])(exchange);
    },
  });
  await source.list(request, never);
  await source.list(request, never);
  const calls = callsOf(events).filter(({ entity }) => entity !== null);
  expect(calls.map(({ waitedMs, pacedMs, ms }) => ({ waitedMs, pacedMs, ms }))).toEqual([
    { waitedMs: 0, pacedMs: 0, ms: 300 },
    { waitedMs: 1_700, pacedMs: 1_700, ms: 300 },
  ]);
});

it('reports no end of a call that its caller aborted', async () => {
  const { source, events, server } = await openTestSource({ respond: () => drip(20) });
  const controller = new AbortController();
  const stuck = source.list(request, controller.signal);
  await server.arrived(1);
  controller.abort(new Error('stopped by test'));
  await expect(stuck).rejects.toThrow('stopped by test');
  expect(answersOf(events, 'members')).toEqual([]);
});
