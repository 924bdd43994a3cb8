import { expect } from 'vitest';
import { it } from '../support/it.ts';
import { openServedLedgers } from '../../src/app/start-scheduled-runs.ts';
import { overviewOf, readOverviews } from '../../src/app/connector-states.ts';
import { systemClock } from '../../src/core/clock.ts';
import type { ConnectorName } from '../../src/core/names.ts';
import { loadSettings } from '../../src/settings/load-settings.ts';
import { openSink } from '../../src/sinks/registry.ts';
import { Bench, identity, report, type SinkKind } from '../contracts/sink/fixture.ts';
import { writeCliConfig } from '../support/cli-config.ts';

it('takes the newest sync for what was due last, whatever other runs came after it', async ({ folder }) => {
  const file = await writeCliConfig(folder, 'http://127.0.0.1:9');
  const settings = loadSettings({ file, env: { SECRET: 'secret' } });
  const name = 'newsletter' as ConnectorName;
  const connector = settings.connectors.get(name);
  if (connector === undefined) throw new Error('The config has a newsletter');

  const sink = await openSink(connector.sink, { clock: systemClock });
  const lease = await sink.acquire(identity({ connector: name }));
  const bench = new Bench({} as SinkKind);
  for (const [run, kind] of [
    ['s1', 'sync'],
    ['b1', 'backfill'],
    ['f1', 'refetch'],
  ] as const) {
    const plan = bench.plan(run, { kind, window: kind === 'sync' ? '' : kind });
    await sink.startRun(lease, plan);
    await sink.finish(lease, plan.run, report({ lease, run: plan.run }, { connector: name, kind }));
  }
  await sink[Symbol.asyncDispose]();
  await bench.close();

  await using ledgers = await openServedLedgers([connector], systemClock);
  expect(overviewOf(await readOverviews([connector]), connector)?.lastRun).toMatchObject({
    run: 's1',
    state: 'ok',
  });
  expect(await ledgers.ledger.lastRun(name)).toMatchObject({ run: 's1', state: 'ok' });
});

it('reads the states of connectors again only after another process has written', async ({ folder }) => {
  const file = await writeCliConfig(folder, 'http://127.0.0.1:9');
  const settings = loadSettings({ file, env: { SECRET: 'secret' } });
  const connectors = [...settings.connectors.values()];
  const [connector] = connectors;
  if (connector === undefined) throw new Error('The config has a connector');
  await using ledgers = await openServedLedgers(connectors, systemClock);
  const before = (await ledgers.overviews()).get('main');
  expect(before?.connectors.size).toBe(0);
  expect((await ledgers.overviews()).get('main')?.connectors).toBe(before?.connectors);
  await using sink = await openSink(connector.sink, { clock: systemClock });
  await sink.pause([connector.name], { since: '2026-01-01T00:00:00.000Z', reason: 'why' });
  expect(overviewOf(await ledgers.overviews(), connector)?.paused?.reason).toBe('why');
});
