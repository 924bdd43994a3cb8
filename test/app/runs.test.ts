import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { sampleConnector } from '../../src/app/adopt-connector.ts';
import type { App, RunEnd } from '../../src/app/app.ts';
import { auditEntity } from '../../src/app/audit-entity.ts';
import { parseWindowLength } from '../../src/app/backfill.ts';
import { openApp } from '../../src/app/open-app.ts';
import { askedRecord, refetchRecord } from '../../src/app/refetch-record.ts';
import { tellEnd } from '../../src/app/run-connector.ts';
import { closable } from '../../src/app/start-scheduled-runs.ts';
import { undoRun } from '../../src/app/undo-run.ts';
import { workerRuns } from '../../src/app/worker-runs.ts';
import { systemClock, timeMs } from '../../src/core/clock.ts';
import type { ConnectorName, EntityName } from '../../src/core/names.ts';
import type { RunJob, RunResult } from '../../src/jobs/worker-context.ts';
import type { SampleAccount } from '../../src/sample/sample-account.ts';
import { ApiError } from '../../src/service/api-error.ts';
import { entityTarget } from '../../src/settings/choices.ts';
import type { ConnectorSettings } from '../../src/settings/settings.ts';
import { loadSettings, readSettings, withParts } from '../../src/settings/load-settings.ts';
import type { RunReport } from '../../src/sinks/run-report.ts';
import { openLog } from '../../src/telemetry/log.ts';
import { openMetrics } from '../../src/telemetry/metrics.ts';
import { openCliWorld, type CliWorld } from '../support/cli-world.ts';
import { jsonLines } from '../support/run-cli.ts';
import { text as textOf } from '../support/service/served-api.ts';

const connector = { name: 'newsletter' } as unknown as ConnectorSettings;
const report = { outcome: 'ok' } as RunReport;

async function endsOf(run: () => Promise<RunReport | null>): Promise<readonly RunEnd[]> {
  const ends: RunEnd[] = [];
  await tellEnd({ clock: systemClock, onRunEnd: (end) => void ends.push(end) }, connector, {}, run).catch(
    () => undefined,
  );
  return ends;
}

it('reports the end of a run once, with its report or with the error that its caller gets', async () => {
  const error = new Error('busy');
  expect(await endsOf(() => Promise.resolve(report))).toEqual([
    { kind: 'ended', connector, asked: {}, report },
  ]);
  expect(await endsOf(() => Promise.reject(error))).toEqual([
    { kind: 'failed', connector, asked: {}, error },
  ]);
  await expect(tellEnd({ clock: systemClock }, connector, {}, () => Promise.reject(error))).rejects.toBe(
    error,
  );
});

it('reports nothing where there was nothing to do', async () => {
  expect(await endsOf(() => Promise.resolve(null))).toEqual([]);
});

it('reports no end of what is read into a temporary sink', async () => {
  await using world = await openCliWorld({ settings: '    include: [lists]\n' });
  const settings = withParts(readSettings({ file: world.config, env: world.env }), 'access');
  const target = entityTarget(settings, 'newsletter/lists');
  const newsletter = target.connector;
  const ends: string[] = [];
  await using app = await openApp({
    settings,
    clock: systemClock,
    command: 'a test',
    onRunEnd: ({ kind, connector: { sink } }) => void ends.push(`${kind} ${sink.name}`),
  });
  const asked = { onEvent: () => undefined, signal: new AbortController().signal };
  await app.sync(newsletter, { globs: { select: [], exclude: [] }, ...asked });
  expect(ends).toEqual(['ended main']);
  const audit = await auditEntity(app, target, { limit: 0, ...asked });
  expect(audit.differences).toMatchObject({ missing: { count: 0 }, extra: { count: 0 } });
  expect(await sampleConnector(app, newsletter, asked)).toMatchObject({ agrees: true });
  await expect(
    app.readAside(
      { ...newsletter, address: { kind: 'workspace', workspace: 'nowhere' } },
      {
        globs: { select: [], exclude: [] },
        ...asked,
      },
    ),
  ).rejects.toThrow();
  expect(ends).toEqual(['ended main']);
});

it('reports the end of a sync, a refetch and an undo to the same listener, and waits for its promise', async () => {
  await using world = await openCliWorld({ settings: '    include: [lists]\n' });
  const settings = withParts(readSettings({ file: world.config, env: world.env }), 'access');
  const target = entityTarget(settings, 'newsletter/lists');
  const ends: string[] = [];
  const options = {
    clock: systemClock,
    command: 'a test',
    onRunEnd: async (end: RunEnd) => {
      await systemClock.sleep(1);
      ends.push(end.kind === 'ended' ? end.report.kind : end.kind);
    },
  };
  await using app = await openApp({ settings, ...options });
  const { signal } = new AbortController();
  const globs = { select: [], exclude: [] };
  const { run } = await app.sync(target.connector, { globs, onEvent: () => undefined, signal });
  expect(ends).toEqual(['sync']);
  const [list] = jsonLines(await world.cli('export', 'newsletter/lists'));
  const asked = await askedRecord(target, [`id=${String(list?.['id'])}`], 'connector-sync');
  await refetchRecord(app, asked, { ...options, allowDeletes: false, signal });
  expect(ends).toEqual(['sync', 'refetch']);
  if (run === null) throw new Error('expected the sync to have a run');
  await undoRun(target.connector, run, { ...options, signal });
  expect(ends).toEqual(['sync', 'refetch', 'undo']);
});

it('waits five seconds at most for a listener whose promise stays open', async () => {
  const slept: number[] = [];
  const clock = {
    ...systemClock,
    sleep: (ms: number) => {
      slept.push(ms);
      return Promise.resolve();
    },
  };
  const never = new Promise<void>(() => undefined);
  await tellEnd({ clock, onRunEnd: () => never }, connector, {}, () => Promise.resolve(report));
  expect(slept).toEqual([5_000]);
});

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
    expect(await job()).toMatchObject({ outcome: 'ok', isDone: true });
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

const boom = new Error('it does not close');

/** Opens three things, of which the second does not close. */
async function openThree(closed: number[], end: () => Promise<void> = () => Promise.resolve()) {
  return await closable(async (onOpened, close) => {
    for (const one of [1, 2, 3]) {
      onOpened(async () => {
        await Promise.resolve();
        closed.push(one);
        if (one === 2) throw boom;
      });
    }
    await end();
    return { close };
  });
}

describe('what was opened', () => {
  it('is closed once, the last first, also where one does not close', async () => {
    const closed: number[] = [];
    const { close } = await openThree(closed);
    expect(await Promise.allSettled([close(), close()])).toEqual([
      { status: 'rejected', reason: boom },
      { status: 'rejected', reason: boom },
    ]);
    expect(closed).toEqual([3, 2, 1]);
  });

  it('is closed where a later one does not open, and the error says why', async () => {
    const closed: number[] = [];
    const opening = openThree(closed, () => Promise.reject(new Error('the port is taken')));
    await expect(opening).rejects.toThrow('the port is taken');
    expect(closed).toEqual([3, 2, 1]);
  });
});

const hourMs = 3_600_000;

describe('a time on the command line', () => {
  it.each([
    ['2025-01-31', '2025-01-31T00:00:00.000Z'],
    ['2025-01-31T18:05', '2025-01-31T18:05:00.000Z'],
    ['2025-01-31 18:05:09', '2025-01-31T18:05:09.000Z'],
    ['2025-01-31T18:05:09.25Z', '2025-01-31T18:05:09.250Z'],
    ['2025-01-31T18:05:09+01:30', '2025-01-31T16:35:09.000Z'],
    ['2025-01-31T18:05:09-0800', '2025-02-01T02:05:09.000Z'],
    ['2024-02-29', '2024-02-29T00:00:00.000Z'],
    ['0099-12-31', '0099-12-31T00:00:00.000Z'],
  ])('%s is %s', (text, expected) => {
    expect(new Date(timeMs(text) ?? Number.NaN).toISOString()).toBe(expected);
  });

  it.each([
    '',
    'yesterday',
    '2025-1-1',
    '2025-02-29',
    '2025-02-30',
    '2025-13-01',
    '2025-00-10',
    '2025-01-00',
  ])('"%s" is none', (text) => expect(timeMs(text)).toBeNull());

  it.each([
    '2025-01-01T24:00',
    '2025-01-01T10:60',
    '2025-01-01T10:00+25:00',
    '2025-01-01Z',
    '0000-01-01',
    '01/02/2025',
  ])('"%s" is none either', (text) => expect(timeMs(text)).toBeNull());
});

describe('the length of a window', () => {
  it('is months or a duration', () => {
    expect(parseWindowLength('1mo')).toEqual({ kind: 'months', months: 1 });
    expect(parseWindowLength('7d')).toEqual({ kind: 'duration', ms: 7 * 24 * hourMs });
    expect(parseWindowLength('1d12h')).toEqual({ kind: 'duration', ms: 36 * hourMs });
    expect(parseWindowLength('1m')).toEqual({ kind: 'duration', ms: 60_000 });
  });

  it.each(['', '0d', '0mo', '1', 'mo', '1M', '1mo7d', '-1d', '1y'])('"%s" is none', (text) => {
    expect(parseWindowLength(text)).toBeNull();
  });
});
