import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'vitest';
import { openShownProgress, readShownProgress } from '../../src/app/shown-progress.ts';
import type { RunEvent } from '../../src/core/events.ts';
import { isConnectorName, isDeclaredName } from '../../src/core/names.ts';
import { noCounts } from '../../src/core/records.ts';
import { openHistory } from '../../src/sinks/registry.ts';
import { cliSecret, startCliService, writeCliConfig } from '../support/cli-config.ts';
import { instantClock } from '../support/instant-clock.ts';
import { it } from '../support/it.ts';
import { eventually } from '../support/jobs/worker-bench.ts';
import { callCli } from '../support/run-cli.ts';
import { isLong } from '../support/trials.ts';

const [connector, entity] = ['newsletter', 'lists'];
if (!isConnectorName(connector) || !isDeclaredName(entity)) throw new Error('expected names');
const events: readonly RunEvent[] = [
  { kind: 'run-started', connector, run: 'r' as never, continues: null, due: 1 },
  { kind: 'walk-started', entity, params: {}, isIncremental: false, resumed: false },
  { kind: 'listing-counted', entity, params: {}, records: 30_000 },
  { kind: 'call-ended', entity, answer: 'ok', ms: 100, waitedMs: 1500, pacedMs: 1500 },
];

it('is what a terminal shows, at most every two seconds', () => {
  const clock = instantClock();
  const shown = openShownProgress(connector, clock);
  for (const event of events) shown.onEvent(event);
  expect(shown.text()).toBeNull();
  for (let second = 0; second < 10; second += 1) {
    shown.onEvent({ kind: 'page-fetched', entity, records: 1000, bytes: 1, ms: 1 });
    const counts = { ...noCounts, fetched: 1000, inserted: 1000 };
    shown.onEvent({ kind: 'page-committed', entity, params: {}, counts, newlyDue: 0, bytes: 1 });
    clock.advance(1000);
  }
  expect(readShownProgress(shown.text())).toEqual({
    entities: [{ entity, expected: { records: 30_000, isEstimate: false }, earlierRows: 0, pacedMs: 1500 }],
    recordsPerSecond: 1000,
    left: { ms: 20_000, isAtLeast: false },
  });
  clock.advance(1999);
  expect(shown.text()).toBeNull();
  clock.advance(1);
  expect(shown.text()).not.toBeNull();
});

it.runIf(isLong)('is in the ledger while a run is in progress', { timeout: 60_000 }, async ({ folder }) => {
  await using service = await startCliService({ latencyMs: 900 });
  const config = await writeCliConfig(folder, service.url);
  const select = ['--select', 'lists', 'list_members', 'segments'];
  const env = { SECRET: cliSecret };
  const running = callCli(['sync', 'newsletter', ...select, '--config', config], { cwd: folder, env });
  await eventually(async () => {
    if (!existsSync(join(folder, 'main.db'))) return false;
    await using history = await openHistory({ type: 'sqlite', path: join(folder, 'main.db') });
    const [run] = await history.runs({ limit: 1 });
    if (run?.state === 'ok') throw new Error('the run ended and showed nothing of itself');
    const shown = run === undefined ? null : readShownProgress(await history.progress(run.run));
    return shown?.entities.some((one) => one.expected !== null) === true;
  });
  expect((await running).code).toBe(0);
});
