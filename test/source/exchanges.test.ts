import { expect, it } from 'vitest';
import { systemClock } from '../../src/core/clock.ts';
import { Secret } from '../../src/core/secret.ts';
import type { SeenExchange } from '../../src/http/exchange.ts';
import { openDirectClient, openDirectSource } from '../../src/source/direct/open-direct-source.ts';
import { textOf } from '../../src/sample/sample-values.ts';
import { apiError, success } from '../support/hostile/replies.ts';
import { openTestSource } from '../support/source/open-test-source.ts';
import { entityName } from '../support/source/test-definition.ts';
import { jsonAnswer } from '../support/upstream/fake-server.ts';
import { instead, onPath } from '../support/upstream/faults.ts';
import { deskWorld } from '../support/upstream/upstream-world.ts';

const never = new AbortController().signal;
const tickets = { entity: entityName('tickets'), params: {}, isRoot: true };

it.each(['Key in a header', 'Key in the query', 'Agent', 'Token'])(
  'a direct source tells of its requests without the credentials of "%s"',
  async (signIn) => {
    await using world = await deskWorld();
    const { seen, source, client } = await openDesk(world, signIn);
    await using _client = client;
    await using _source = source;
    await source.connect(never);
    await source.list(tickets, never);
    world.fake.script({ on: onPath('/api/tickets'), effect: instead(jsonAnswer(404, { ok: false })) });
    await expect(source.list(tickets, never)).rejects.toThrow('404');
    expect(seen).toMatchObject([
      { method: 'GET', body: null, status: 200, keys: ['ok', 'account'] },
      { method: 'GET', status: 200, keys: ['object', 'data', 'has_more'] },
      { method: 'GET', status: 404, keys: null },
    ]);
    expect(seen[1]?.wireBytes).toBeGreaterThan(100);
    const query = signIn === 'Key in the query' ? '?apikey=[secret]' : '';
    expect(seen[1]?.url).toBe(`${world.fake.baseUrl}/tickets${query}`);
    const told = JSON.stringify(seen);
    for (const value of Object.values(world.credentials.get(signIn) ?? {})) {
      expect(told).not.toContain(textOf(value));
    }
  },
);

it('tells of a request that got no answer', async () => {
  await using world = await deskWorld();
  const { seen, source, client } = await openDesk(world, 'Token');
  await using _client = client;
  await using _source = source;
  const reset = ({ request }: { readonly request: { readonly socket: { destroy(): void } } }): void =>
    request.socket.destroy();
  world.fake.script({ on: onPath('/api/tickets'), times: 100, effect: instead(reset) });
  await expect(source.list(tickets, never)).rejects.toThrow();
  expect(seen[0]).toMatchObject({ status: null, wireBytes: 0, keys: null });
});

it('a source of an API tells of each attempt, with the address below its base URL and no token', async () => {
  const seen: SeenExchange[] = [];
  const { source } = await openTestSource({
    onExchange: (exchange) => void seen.push(exchange),
    respond: () => (seen.length === 0 ? apiError(503, 'down') : success([])),
  });
  await source.connect(never);
  await source.list({ entity: entityName('members'), params: {}, isRoot: false }, never);
  const url = '/api/v1/integrations/connectors/c1/execute';
  expect(seen).toMatchObject([
    { method: 'POST', url, status: 503 },
    { method: 'POST', url, status: 200, body: expect.stringContaining('"entity":"members"') as string },
  ]);
  expect(JSON.stringify(seen)).not.toMatch(/bearer|token|planted/i);
});

type Desk = Awaited<ReturnType<typeof deskWorld>>;

function openDesk({ definition, allowHosts, credentials: all }: Desk, signIn: string) {
  const seen: SeenExchange[] = [];
  const onExchange = (exchange: SeenExchange): void => void seen.push(exchange);
  const given = Object.entries(all.get(signIn) ?? {});
  const credentials = new Map(given.map(([name, value]) => [name, new Secret(textOf(value))]));
  const client = openDirectClient({ allowHosts, clock: systemClock, maxThrottleWaitMs: 1_000 });
  const account = client.account({ name: 'desk', definition, credentials, onExchange });
  const how = { definition, address: '', concurrency: 1, requestsPerSecond: 1_000, maxCalls: 5 };
  const source = openDirectSource(account, { ...how, limits: { backOffMs: 1, retries: 1 } });
  return Promise.resolve({ seen, source, client });
}
