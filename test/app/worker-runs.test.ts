import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { App } from '../../src/app/app.ts';
import { openApp } from '../../src/app/open-app.ts';
import { tellProgress, workerRuns } from '../../src/app/worker-runs.ts';
import { systemClock } from '../../src/core/clock.ts';
import type { ConnectorName, EntityName } from '../../src/core/names.ts';
import { noCounts } from '../../src/core/records.ts';
import type { RunJob, RunResult } from '../../src/jobs/worker-context.ts';
import { ApiError } from '../../src/service/api-error.ts';
import type { SampleAccount } from '../../src/sample/sample-account.ts';
import { loadSettings } from '../../src/settings/load-settings.ts';
import { openLog } from '../../src/telemetry/log.ts';
import { openMetrics } from '../../src/telemetry/metrics.ts';
import { text as textOf } from '../support/service/served-api.ts';
import { openCliWorld, type CliWorld } from '../support/cli-world.ts';
import { instantClock } from '../support/instant-clock.ts';

const newsletter = 'newsletter' as ConnectorName;
const asked = {
  entities: ['list_members' as EntityName],
  since: '2022-01-01T00:00:00.000Z',
  until: '2025-01-01T00:00:00.000Z',
  window: '12mo',
};

describe('a worker’s backfill', () => {
  let world: CliWorld;
  let app: App;
  let run: RunJob;
  let runs: number;
  let failing = '';

  const wrap = (account: SampleAccount): SampleAccount => ({
    get: (entity, params) => account.get(entity, params),
    list: (entity, params) => {
      if (failing !== '' && textOf(params['since_last_changed']).startsWith(failing)) {
        throw new ApiError(400, 'out of order');
      }
      return account.list(entity, params);
    },
  });

  beforeEach(async () => {
    world = await openCliWorld({ wrap, settings: '    include: [lists, list_members]\n' });
    runs = 0;
    failing = '';
    const settings = loadSettings({ file: world.config, env: world.env });
    app = await openApp({ settings, clock: systemClock, command: 'a test' });
    run = workerRuns({
      app,
      metrics: openMetrics({ version: '1', sample: () => Promise.reject(new Error('nothing to sample')) }),
      log: await openLog({ level: 'fatal', write: () => undefined }),
      clock: systemClock,
    });
  });

  afterEach(async () => {
    await app[Symbol.asyncDispose]();
    await world[Symbol.asyncDispose]();
  });

  /** One job; `yieldAfter` windows it is asked to give way. */
  function job(yieldAfter = Number.POSITIVE_INFINITY): Promise<RunResult> {
    let windows = 0;
    return run(
      { connector: newsletter, kind: 'backfill', backfill: asked },
      {
        signal: new AbortController().signal,
        onEvent: ({ kind }) => {
          runs += kind === 'run-started' ? 1 : 0;
        },
        shouldYield: () => Promise.resolve((windows += 1) >= yieldAfter),
      },
    );
  }

  it('yields between windows, resumes where it stopped, and reports when it is done', async () => {
    expect(await job(1)).toMatchObject({ outcome: 'ok', isDone: false });
    expect(runs).toBe(1);
    expect(await job()).toMatchObject({ outcome: 'ok', isDone: true, error: null, resumeAt: null });
    expect(runs).toBe(3);
    expect(await job()).toMatchObject({ outcome: 'ok', run: null, isDone: true });
    expect(runs).toBe(3);
  });

  it('skips an incomplete window, and retries it in the next backfill', async () => {
    failing = '2023-12-31';
    expect(await job(1)).toMatchObject({ outcome: 'degraded', isDone: false });
    expect(await job(1)).toMatchObject({ outcome: 'ok', isDone: false });
    expect(await job()).toMatchObject({ outcome: 'ok', isDone: true });
    expect(runs).toBe(3);
    failing = '';
    expect(await job()).toMatchObject({ outcome: 'ok', isDone: true });
    expect(runs).toBe(4);
  }, 60_000);
});

it('logs the progress of a run once a minute, and none of a short run', async () => {
  const lines: unknown[] = [];
  const log = await openLog({ level: 'info', write: (line) => lines.push(JSON.parse(line)) });
  const clock = instantClock();
  const onEvent = tellProgress(log, 'news' as ConnectorName, clock);
  const page = (records: number): void =>
    onEvent({
      kind: 'page-committed',
      params: {},
      entity: 'lists' as EntityName,
      counts: { ...noCounts, fetched: records },
      newlyDue: 0,
      bytes: 1,
    });
  for (let second = 0; second < 59; second += 1) {
    clock.advance(1000);
    page(10);
  }
  expect(lines).toEqual([]);
  for (let second = 0; second < 61; second += 1) {
    clock.advance(1000);
    page(10);
  }
  expect(lines).toMatchObject([
    { msg: 'run in progress', connector: 'news', entity: 'lists', pages: 60, records: 600 },
    { pages: 120, records: 1200 },
  ]);
});
