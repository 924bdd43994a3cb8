import { expect } from 'vitest';
import { it } from '../support/it.ts';
import type { Instant } from '../../src/core/clock.ts';
import type { JsonObject } from '../../src/core/json.ts';
import type { ConnectorName } from '../../src/core/names.ts';
import { openHistory } from '../../src/sinks/registry.ts';
import type { RunReport } from '../../src/sinks/run-report.ts';
import type { HostileCall, Reply } from '../support/hostile/exchange.ts';
import { success, throttled } from '../support/hostile/replies.ts';
import { startHostileServer } from '../support/hostile-server.ts';
import { instantClock } from '../support/instant-clock.ts';
import { builtInDefinition } from '../support/sample-service.ts';
import { sampleSinks } from '../support/sample-sinks.ts';
import { chosenEntities, syncOnce } from '../support/sync-once.ts';

const mailing = builtInDefinition('email-marketing');
const pauseMs = 90_000;
const pause = throttled({ seconds: pauseMs / 1000 });
let folder: string;
it.beforeEach(({ folder: made }) => {
  folder = made;
});

const lists = [{ id: 'list-0' }, { id: 'list-1' }];
const page = (rows: readonly JsonObject[], call: HostileCall): Reply =>
  success(rows.slice(Number(call.params['offset'] ?? 0)), { links: [] });

const asOfMembers = async (): Promise<Instant | null | undefined> => {
  await using history = await openHistory(sampleSinks.sqlite.options(folder));
  return (await history.freshness(mailing.name as ConnectorName)).find(
    ({ entity }) => entity === 'list_members',
  )?.asOf;
};

// Proves promise 11.3
it('does not call an entity fresh when an earlier run of the chain put too much of it into quarantine', async () => {
  let isPaused = true;
  const members = (isGood: boolean): JsonObject[] =>
    Array.from({ length: 40 }, (_, index) => ({
      ...(isGood || index > 20 ? { id: `m-${index}` } : {}),
      last_changed: new Date(Date.UTC(2024, 0, 1) + index * 1000).toISOString(),
    }));
  const clock = instantClock();
  await using server = await startHostileServer({
    connectors: [{ id: 'c1', name: 'One', definitionId: mailing.id }],
    respond: (call) => {
      if (call.entity === 'lists') return page(lists, call);
      if (call.params['list_id'] === 'list-0') return page(members(false), call);
      return isPaused ? pause : page(members(true), call);
    },
  });
  const run = (): Promise<RunReport> =>
    syncOnce({
      baseUrl: server.baseUrl,
      definition: mailing,
      connectorId: 'c1',
      sink: sampleSinks.sqlite.options(folder),
      entities: chosenEntities(mailing, ['lists', 'list_members']),
      clock,
      concurrency: 1,
    });
  expect(await run()).toMatchObject({ outcome: 'partial' });
  expect(await asOfMembers()).toBeNull();
  isPaused = false;
  clock.advance(pauseMs);
  expect(await run()).toMatchObject({
    outcome: 'degraded',
    entities: [
      { entity: 'lists', isWhole: true },
      { entity: 'list_members', isWhole: false, counts: { quarantined: 0 } },
    ],
    failures: [{ entity: 'list_members', code: 'QUARANTINE_LIMIT' }],
  });
  expect(await asOfMembers()).toBeNull();
});
