import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect } from 'vitest';
import { overviewOf, readOverviews } from '../../src/app/connector-states.ts';
import { openServedLedgers, sampleWorker } from '../../src/app/start-scheduled-runs.ts';
import { readConnectorPast } from '../../src/app/connector-history.ts';
import { watchSinks } from '../../src/app/watch-sinks.ts';
import { instant, systemClock } from '../../src/core/clock.ts';
import { SyncError } from '../../src/core/errors.ts';
import { healthWords, type Health } from '../../src/core/health.ts';
import type { ConnectorName } from '../../src/core/names.ts';
import { failedStart } from '../../src/engine/sync-connector.ts';
import { openApp, status } from '../../src/library.ts';
import { openNotifier } from '../../src/notify/open-notifier.ts';
import { loadSettings } from '../../src/settings/load-settings.ts';
import { openSink } from '../../src/sinks/registry.ts';
import type { RunReport } from '../../src/sinks/run-report.ts';
import type { Sink } from '../../src/sinks/sink-access.ts';
import { openMetrics } from '../../src/telemetry/metrics.ts';
import { Bench, entityReport, identity, members, report, type SinkKind } from '../contracts/sink/fixture.ts';
import { cliSecret, writeCliConfig, openCliWorld } from '../support/cli-world.ts';
import { it } from '../support/it.ts';
import { openMcpClient } from '../support/mcp-client.ts';
import { startReceiver } from '../support/notify/receiver.ts';
import { serveUi } from '../support/page/served-ui.ts';
import { callCli, jsonLines } from '../support/run-cli.ts';

const env = { SECRET: cliSecret };
const refusal = new SyncError('401 "revoked"', { code: 'AUTH_FAILED', recovery: 'stop' });

type Act = 'refuse' | 'pause' | 'begin' | Partial<RunReport>;

/** What happened to a connector, and the word that every reader has for it. */
const states: Readonly<Record<string, { readonly acts: readonly Act[]; readonly word: Health }>> = {
  'refused-first': { acts: ['refuse'], word: 'failed' },
  'refused-later': { acts: [{}, 'refuse'], word: 'failed' },
  'refused-paused': { acts: [{}, 'refuse', 'pause'], word: 'failed' },
  stopped: {
    acts: [{ outcome: 'failed', error: { code: 'TIMEOUT', recovery: 'retry', message: 'no answer' } }],
    word: 'failed',
  },
  behind: { acts: [{}], word: 'late' },
  degraded: { acts: [{ outcome: 'degraded' }], word: 'incomplete' },
  cut: { acts: [{}, { outcome: 'interrupted' }], word: 'incomplete' },
  limited: { acts: [{ outcome: 'partial' }], word: 'incomplete' },
  throttled: { acts: [{ outcome: 'partial', resumeAt: '2026-03-01T12:00:00.000Z' }], word: 'incomplete' },
  withheld: { acts: [{ entities: [{ ...entityReport(members, {}), withheld: 5 }] }], word: 'incomplete' },
  halted: { acts: [{}, 'pause'], word: 'paused' },
  busy: { acts: [{}, 'begin'], word: 'running' },
  untried: { acts: [], word: 'new' },
  fine: { acts: ['refuse', {}], word: 'ok' },
};
const names = Object.keys(states).map((name) => name as ConnectorName);

async function play(sink: Sink, bench: Bench): Promise<void> {
  let runs = 0;
  for (const name of names) {
    for (const act of states[name]?.acts ?? []) {
      const at = instant(systemClock.now());
      if (act === 'refuse') {
        const failed = { connector: name, kind: 'sync', startedAt: at, finishedAt: at } as const;
        await sink.enterFailedStart(failedStart(failed, refusal));
      } else if (act === 'pause') await sink.pause([name], { since: at, reason: 'why' });
      else {
        const lease = await sink.acquire(identity({ connector: name }));
        const plan = bench.plan(`r${(runs += 1)}`);
        await sink.startRun(lease, plan);
        if (act === 'begin') continue;
        const change = { connector: name, finishedAt: at, entities: [entityReport(members, {})], ...act };
        await sink.finish(lease, plan.run, report({ lease, run: plan.run }, change));
        await lease[Symbol.asyncDispose]();
      }
    }
  }
}

// Proves promise 12.1
it('is one word for every reader, whatever the state', async ({ folder }) => {
  await using receiver = await startReceiver();
  const config = join(folder, 'sync.yaml');
  const connector = (name: string): string =>
    `  ${name}: { id: c-${name}${name === 'behind' ? ', freshWithin: 1h' : ''} }\n`;
  await writeFile(
    config,
    `api: { baseUrl: "http://127.0.0.1:9", clientId: local, clientSecret: "\${SECRET}" }
sinks: { main: { type: sqlite, path: ./main.db, durability: normal } }
defaults: { definition: document-library, sink: main }
connectors:
${names.map(connector).join('')}allowNotifyHosts: ["${receiver.host}"]
notify: { ops: { type: webhook, url: "${receiver.url}" } }
`,
  );
  const settings = loadSettings({ file: config, env });
  const connectors = [...settings.connectors.values()];
  const bench = new Bench({} as SinkKind);
  await using sink = await openSink(settings.sinks.get('main') ?? expect.fail('no sink'), {
    clock: systemClock,
  });
  await play(sink, bench);
  const cli = (...args: readonly string[]) => callCli([...args, '--config', config], { cwd: folder, env });
  const shown = async (...args: readonly string[]) =>
    jsonLines(await cli(...args, '--json'))[0]?.['connectors'] as readonly Record<string, string>[];
  const words = (all: readonly Record<string, unknown>[], member: string) =>
    new Map(all.map((one) => [String(one['connector']), String(one[member])]));
  const found = (text: string, pattern: (name: string) => RegExp) =>
    new Map(names.map((name) => [name as string, pattern(name).exec(text)?.[1] ?? '']));

  await using ui = await serveUi({ config, env });
  await using mcp = await openMcpClient({ config, env });
  await using ledgers = await openServedLedgers(connectors, systemClock);
  const metrics = openMetrics({
    version: '1',
    clock: systemClock,
    connectorSeries: 'all',
    sample: () => sampleWorker(connectors, ledgers, [], systemClock.now()),
  });
  const { text } = await metrics.text();
  // Each state counts, not the gravest alone.
  expect(text).toContain('connector_state{connector="refused-paused",state="paused"} 1');
  const ofMetrics = (name: string): string =>
    healthWords.find((word) => text.includes(`connector_state{connector="${name}",state="${word}"} 1`)) ??
    'ok';
  const notifier = await openNotifier({ settings, clock: systemClock, note: () => undefined });
  await notifier.look(connectors);
  await notifier[Symbol.asyncDispose]();
  const noticeOf = (name: string): string =>
    healthWords.find((word) =>
      receiver.bodies().some((one) => one['connector'] === name && String(one['kind']).startsWith(word)),
    ) ?? '';
  const pages = new Map<string, string>();
  for (const name of names) {
    const { body } = await ui.get(`/connectors/${name}`);
    pages.set(name, (/<h1>[^<]*<span class="state [\w ]+">(\w+)/.exec(body)?.[1] ?? '').toLowerCase());
  }
  const readers: Readonly<Record<string, ReadonlyMap<string, string>>> = {
    status: found((await cli('status')).stdout, (name) => new RegExp(`^${name}: (\\w+);`, 'm')),
    'status --json': words(await shown('status'), 'health'),
    'overview page': found(
      (await ui.get('/')).body.toLowerCase(),
      (name) =>
        new RegExp(
          `<td\\s*><span class="state [\\w ]+">(\\w+)</span></td>\\s*<th scope="row"\\s*><a href="connectors/${name}">`,
        ),
    ),
    'connector page': pages,
    agents: words((await mcp.call('freshness'))['connectors'] as never, 'state'),
    library: words((await status(await openApp({ config, env }))) as never, 'health'),
    metrics: new Map(names.map((name) => [name as string, ofMetrics(name)])),
  };
  const table = names.map((name) => ({
    state: name,
    ...Object.fromEntries(Object.entries(readers).map(([reader, of]) => [reader, of.get(name)])),
  }));
  expect(table).toEqual(
    names.map((name) => ({
      state: name,
      ...Object.fromEntries(Object.keys(readers).map((reader) => [reader, states[name]?.word])),
    })),
  );
  // People are notified of what does not heal by itself; deletes that wait have a kind of their own.
  expect(
    Object.fromEntries(names.flatMap((name) => (noticeOf(name) === '' ? [] : [[name, noticeOf(name)]]))),
  ).toEqual({
    'refused-first': 'failed',
    'refused-later': 'failed',
    'refused-paused': 'failed',
    stopped: 'failed',
    behind: 'late',
    degraded: 'incomplete',
  });
});

it('is not changed by a run that another process or a mistake of the config keeps from beginning', async () => {
  await using world = await openCliWorld({ settings: '    include: [lists]\n' });
  const health = async (): Promise<unknown> => {
    const [document = {}] = jsonLines(await world.cli('status', 'newsletter', '--json'));
    return (document['connectors'] as readonly Record<string, unknown>[])[0];
  };
  expect((await world.cli('sync', 'newsletter')).code).toBe(0);
  const settings = loadSettings({ file: world.config, env: world.env });
  const sink = await openSink(settings.sinks.get('main') ?? expect.fail('no sink'), { clock: systemClock });
  const [stored] = await sink.history.connectors();
  if (stored === undefined) throw new Error('nothing is stored');
  const held = await sink.acquire(identity({ ...stored, connectorId: stored.connectorId as never }));
  expect((await world.cli('sync', 'newsletter')).code).toBe(5);
  await held[Symbol.asyncDispose]();
  await sink[Symbol.asyncDispose]();
  expect((await world.cli('sync', 'newsletter', '--select', 'nothing')).code).toBe(2);
  expect(await health()).toMatchObject({ health: 'ok', reason: null });
  expect(
    (await callCli(['sync', '--config', world.config], { cwd: world.folder, env: { SECRET: 'wrong' } })).code,
  ).toBe(4);
  expect(await health()).toMatchObject({
    health: 'failed',
    reason: expect.stringMatching(
      /^The service refused the credentials \(AUTH_FAILED\): .*check newsletter"$/,
    ) as string,
    lastRun: { state: 'failed' },
  });
  await world.service.close();
  expect((await world.cli('sync', 'newsletter')).code).toBe(1);
  expect(await health()).toMatchObject({
    health: 'failed',
    reason: expect.stringContaining('NETWORK') as string,
  });
  const { stdout } = await world.cli('runs', 'newsletter', '--state', 'failed');
  expect(stdout.match(/! [A-Z_]+:/g)).toEqual(['! NETWORK:', '! AUTH_FAILED:']);
}, 60_000);

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

describe.each(['sqlite', 'jsonl', 'postgres'] as const)('the watched sinks of a config (%s)', (sink) => {
  it('show what was stored since, make nothing themselves, and say whether anything changed', async () => {
    await using world = await openCliWorld({ sink });
    const settings = loadSettings({ file: world.config, env: world.env });
    const connectors = [...settings.connectors.values()];
    const [first] = connectors;
    if (first === undefined) throw new Error('no connector');
    await using watched = watchSinks(connectors, systemClock);
    const none = await watched.overviews();
    expect(none.unreadable).toEqual([]);
    expect(none.overviews.get('main')).toMatchObject({ id: null });
    expect((await watched.overviews()).version).toBe((await watched.overviews()).version);

    await world.cli('sync', 'newsletter', '--select', 'lists');
    const second = await watched.overviews();
    expect(second.version).not.toBe(none.version);
    const newsletter = second.overviews.get('main')?.connectors.get(first.name);
    expect(newsletter).toMatchObject({
      rows: 2,
      error: null,
      failures: [],
      quarantined: [],
      lastRun: { state: 'ok' },
    });
    expect(newsletter?.lastEnded).toEqual(newsletter?.lastRun);
    expect((await watched.overviews()).version).toBe(second.version);

    await world.cli('sync', 'newsletter', '--select', 'lists');
    const third = await watched.overviews();
    expect(third.version).not.toBe(second.version);
    await world.cli('schedule', 'pause', 'newsletter', '--reason', 'moving');
    const fourth = await watched.overviews();
    expect(fourth.version).not.toBe(third.version);
    expect(fourth.overviews.get('main')?.connectors.get(first.name)?.paused).toMatchObject({
      reason: 'moving',
    });
    const recent = (await watched.recentRuns(connectors, 1)).get(first.name);
    const newest = await readConnectorPast(first, 9, instant(0));
    expect(recent?.map(({ run }) => run)).toEqual([newest.runs[0]?.run]);
    expect(newest.counts).toMatchObject([{ entity: 'lists', fetched: 3 }]);
  });
});
