import { setTimeout as pause } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Redis } from 'ioredis';
import { systemClock } from '../../src/core/clock.ts';
import {
  beginClaim,
  type ScheduleClaim,
  reconcileSchedules,
  type ReconciledSchedules,
} from '../../src/jobs/reconcile-schedules.ts';
import { openQueueSet } from '../../src/jobs/open-queue-set.ts';
import { openQueues } from '../../src/jobs/open-queues.ts';
import type { LastRun } from '../../src/jobs/worker-context.ts';
import { nextSlots } from '../../src/settings/cron.ts';
import type { Schedule } from '../../src/settings/settings.ts';
import {
  emptyLedger,
  collect,
  connectorsOf,
  cron,
  every,
  ledgerWith,
  eventually,
  isEnd,
  nameOf,
  newsletter,
  ok,
  openWorkerBench,
  prefix,
  warehouse,
  type BenchLine,
  type Schedules,
  type WorkerBench,
  type RunConnector,
} from '../support/jobs/worker-bench.ts';

const daily = cron('30 3 * * *');
const id = `${warehouse.id}:newsletter`;

let bench: WorkerBench;

beforeEach(async () => {
  bench = await openWorkerBench();
});

afterEach(() => bench[Symbol.asyncDispose]());

describe('reconciling schedules', () => {
  it('does not rewrite a correct schedule, so that an overdue run stays overdue', async () => {
    await reconcile({ newsletter: daily });
    // Overdue: no worker took the tick at its due time.
    await bench.client.zadd(`${prefix}:ticks:repeat`, '1000', id);
    expect(await reconcile({ newsletter: daily })).toEqual({
      written: [],
      kept: ['newsletter'],
      removed: [],
      foreign: [],
      outdated: [],
    });
    expect((await bench.ticks.getJobScheduler(id))?.next).toBe(1000);
  });

  it('makes a tick after a gap that the clock has at midnight, as the slots of the schedule say', async () => {
    const midnight = { ...cron('0 0 * * *'), timezone: 'Africa/Cairo' };
    const gap = nextSlots(midnight, Date.now(), 400).find(
      (ms, index, all) => (all[index + 1] ?? Infinity) - ms < 86_400_000,
    );
    const day = new Date((gap ?? 0) + 3 * 3_600_000);
    const yearly = { ...midnight, pattern: `0 0 ${day.getUTCDate()} ${day.getUTCMonth() + 1} *` };
    await reconcile({ newsletter: yearly });
    expect((await bench.ticks.getJobScheduler(id))?.next).toBe(gap);
  });

  it.each<[string, Schedule]>([
    ['pattern', { ...daily, pattern: '30 4 * * *' }],
    ['time zone', { ...daily, timezone: 'Europe/Berlin' }],
    ['kind', every(60_000)],
  ])('rewrites a schedule when its %s has changed', async (_, changed) => {
    await reconcile({ newsletter: daily });
    expect((await reconcile({ newsletter: changed })).written).toEqual(['newsletter']);
    expect(await bench.ticks.getJobSchedulersCount()).toBe(1);
  });

  it.each<[string, Schedule, number]>([
    ['adds a catch-up run for an overdue tick', cron('30 4 * * *'), 1],
    ['adds no catch-up run with `missed: skip`', cron('30 4 * * *', { missed: 'skip' }), 0],
  ])('%s when it writes a changed schedule', async (_, changed, jobs) => {
    await reconcile({ newsletter: daily });
    await bench.client.zadd(`${prefix}:ticks:repeat`, String(Date.now() - 60_000), id);
    await reconcile({ newsletter: changed });
    const added = await bench.syncs.getJobs(['waiting', 'prioritized']);
    expect(added.map(({ data }) => data.reason)).toEqual(jobs === 1 ? ['catch-up'] : []);
  });

  it('does not fight a worker with other settings, and logs the conflict once', async () => {
    const older = { timings: { reconcileMs: 100 } };
    await bench.start({ newsletter: every(3_600_000) }, () => Promise.resolve(ok), older);
    await bench.start({ newsletter: every(7_200_000) }, () => Promise.resolve(ok), older);
    const isWarning = ({ message }: BenchLine): boolean =>
      message.startsWith('another worker has a newer config');
    await eventually(() => Promise.resolve(bench.lines.some(isWarning)));
    // Several intervals of both.
    await pause(1000);
    expect((await bench.ticks.getJobScheduler(id))?.every).toBe(7_200_000);
    expect(bench.events.filter(({ kind }) => kind === 'tick')).toHaveLength(2);
    expect(bench.lines.filter(isWarning)).toHaveLength(1);
  });

  // Proves promise 12
  it('gives a sink to the workers with the newest config, holds the others, and resumes them when the configs agree', async () => {
    const often = { timings: { reconcileMs: 100 } };
    const runs = collect<string>();
    const by =
      (worker: string): RunConnector =>
      () => {
        runs.add(worker);
        return Promise.resolve(ok);
      };
    const before = { newsletter: daily };
    const after = { bulletin: daily };
    const older = await bench.start(before, by('older'), often);
    const newer = await bench.start(after, by('newer'), often);
    const tells = (text: string) =>
      eventually(() => Promise.resolve(bench.lines.some(({ message }) => message.startsWith(text))));
    await tells('another worker has a newer config');
    expect((await older.state()).problems).toEqual([
      expect.stringContaining('newer config for sink warehouse') as string,
    ]);
    for (let job = 0; job < 5; job += 1) {
      // The previous job may still have the connector's deduplication key for a moment.
      await eventually(
        async () => (await bench.queues.enqueue(warehouse.id, nameOf('bulletin'), 'manual')).isNew,
      );
      await bench.untilEvents(isEnd('done'), job + 1);
    }
    expect(new Set(runs.values)).toEqual(new Set(['newer']));
    expect((await bench.ticks.getJobSchedulers()).map(({ key }) => key)).toEqual(['w1:bulletin']);
    expect(bench.lines.filter(({ facts }) => 'sinks' in facts)).toMatchObject([
      { facts: { sinks: ['warehouse'], connectors: ['newsletter', 'bulletin'] } },
    ]);

    await newer.stop();
    await bench.start(before, by('third'), often);
    await tells('the configs of all workers agree again');
    expect((await older.state()).isReady).toBe(true);
    expect((await bench.ticks.getJobSchedulers()).map(({ key }) => key)).toEqual(['w1:newsletter']);
  });

  // Proves promise 12
  it('keeps the newest config in force after Redis loses its data', async () => {
    const [first, second] = [await beginClaim(bench.client), { sinceMs: Number.MAX_SAFE_INTEGER }];
    await reconcile({ bulletin: daily }, { claim: second });
    await bench.client.flushall();
    expect(await reconcile({ newsletter: daily }, { claim: first })).toMatchObject({
      written: ['newsletter'],
    });
    expect(await reconcile({ bulletin: daily }, { claim: second })).toMatchObject({
      written: ['bulletin'],
      removed: ['newsletter'],
    });
    expect(await reconcile({ newsletter: daily }, { claim: first })).toEqual({
      written: [],
      kept: [],
      removed: [],
      foreign: ['newsletter', 'bulletin'],
      outdated: ['warehouse'],
    });
  });

  it('removes the schedules of connectors that were removed, paused or unscheduled, and of no other sink', async () => {
    await bench.ticks.upsertJobScheduler('w2:newsletter', { every: 60_000 }, { name: 'theirs', data: {} });
    await reconcile({ newsletter: daily, wiki: daily, tracker: daily, stays: daily });
    const result = await reconcile({ wiki: null, tracker: daily, stays: daily }, { paused: ['tracker'] });
    expect({ ...result, removed: [...result.removed].sort() }).toEqual({
      written: [],
      kept: ['stays'],
      removed: ['newsletter', 'tracker', 'wiki'],
      foreign: [],
      outdated: [],
    });
    const left = (await bench.ticks.getJobSchedulers()).map(({ key }) => key);
    expect(left.sort()).toEqual(['w1:stays', 'w2:newsletter']);
  });

  // Proves promise 12
  it('leaves one scheduler with one job when eight processes reconcile repeatedly at the same time', async () => {
    const connectors = connectorsOf({ newsletter: daily });
    const openers = await Promise.all(Array.from({ length: 8 }, () => openQueues(bench.settings({}))));
    for (let round = 0; round < 25; round += 1) {
      await Promise.all(
        openers.map((queues) =>
          queues.apply({
            connectors,
            sinks: [warehouse],
            paused: emptyLedger.paused,
            targets: [],
            takeOver: [],
          }),
        ),
      );
    }
    await Promise.all(openers.map((queues) => queues[Symbol.asyncDispose]()));
    expect(await bench.ticks.getJobSchedulersCount()).toBe(1);
    expect(await bench.ticks.getDelayedCount()).toBe(1);
  });

  it('reports when each connector is due next', async () => {
    await reconcile({ newsletter: daily });
    const next = (await bench.queues.schedules([warehouse.id])).connectors.get(id);
    expect(new Date(next ?? 0).toISOString()).toMatch(/T03:30:00.000Z$/);
    expect((await bench.queues.schedules(['w2'])).connectors.size).toBe(0);
    await bench.queues.removeSchedule(warehouse.id, newsletter);
    expect((await bench.queues.schedules([warehouse.id])).connectors.size).toBe(0);
  });

  it('is repeated by a worker, so that schedules are restored after Redis loses its data', async () => {
    const runs = collect<string>();
    const worker = await bench.start(
      { newsletter: cron('* * * * * *') },
      (name) => {
        runs.add(name);
        return Promise.resolve(ok);
      },
      { timings: { reconcileMs: 300 } },
    );
    await runs.until(1);
    await bench.client.flushall();
    const before = runs.values.length;
    await runs.until(before + 2);
    expect((await worker.state()).isReady).toBe(true);
  });

  it('runs at once when Redis restarts without its data', async () => {
    await bench.start({ newsletter: daily }, () => Promise.resolve(ok));
    await bench.redis.restart();
    await eventually(async () => (await bench.ticks.getJobSchedulersCount()) === 1);
  });
});

describe('the first run of an interval', () => {
  const tenHours = every(10 * 3_600_000);
  const anHourAgo = new Date(Date.now() - 3_600_000).toISOString();
  const longAgo = new Date(Date.now() - 100 * 3_600_000).toISOString();

  // Proves promise 12
  it.each<[string, LastRun | null, number]>([
    ['at once for a connector that has never run', null, 0],
    ['one interval after its last run', { startedAt: anHourAgo, state: 'ok' }, 9],
    ['one interval after a failed run', { startedAt: anHourAgo, state: 'failed' }, 9],
    ['at once if that time has passed', { startedAt: longAgo, state: 'ok' }, 0],
    ['at once after an interrupted run', { startedAt: anHourAgo, state: 'interrupted' }, 0],
  ])('starts %s', async (_, last, hours) => {
    await reconcile({ newsletter: tenHours }, { last });
    const next = (await bench.ticks.getJobScheduler(id))?.next ?? Number.NaN;
    expect(Math.abs((next - Date.now()) / 3_600_000 - hours)).toBeLessThan(0.1);
    // Redis lost its data and gets the schedule again.
    await bench.client.flushall();
    await reconcile({ newsletter: tenHours }, { last });
    expect(Math.round(((await bench.ticks.getJobScheduler(id))?.next ?? 0) / 60_000)).toBe(
      Math.round(next / 60_000),
    );
    expect(await reconcile({ newsletter: tenHours }, { last })).toMatchObject({ kept: ['newsletter'] });
  });
});

describe('a cron schedule that Redis lost', () => {
  const yesterday = new Date(Date.now() - 30 * 60 * 60 * 1000).toISOString();
  const justNow = new Date(Date.now() - 1000).toISOString();
  // Its last slot lies between the two, whatever the time of day.
  const halfDaily = cron(`0 ${(new Date().getUTCHours() + 12) % 24} * * *`);

  it.each<[string, LastRun | null, number]>([
    ['no run since its last slot', { startedAt: yesterday, state: 'ok' }, 1],
    ['a run that was interrupted', { startedAt: justNow, state: 'interrupted' }, 1],
    ['a run that failed', { startedAt: justNow, state: 'failed' }, 1],
    ['a run of a dead process', { startedAt: justNow, state: 'running' }, 1],
    ['a complete run since its last slot', { startedAt: justNow, state: 'degraded' }, 0],
    ['never run', null, 0],
  ])('gets at most one catch-up run; the connector has %s: %#', async (_, last, jobs) => {
    await reconcile({ newsletter: halfDaily }, { last });
    await reconcile({ newsletter: halfDaily }, { last });
    const added = await bench.syncs.getJobs(['waiting', 'prioritized']);
    expect(added.map(({ data }) => data.reason)).toEqual(jobs === 1 ? ['catch-up'] : []);
    for (const { data } of added) expect(data.due).toBeGreaterThan(Date.now() - 25 * 60 * 60 * 1000);
  });

  it('gets no catch-up run with `missed: skip`, nor when only the schedule changed', async () => {
    const last = { startedAt: yesterday, state: 'ok' };
    await reconcile({ newsletter: { ...halfDaily, missed: 'skip' } }, { last });
    await reconcile({ newsletter: { ...halfDaily, timezone: 'Europe/Berlin' } }, { last });
    expect(await bench.syncs.getJobCountByTypes('waiting', 'prioritized')).toBe(0);
  });

  it('skips the catch-up run if another run has started meanwhile', async () => {
    let last: LastRun = { startedAt: yesterday, state: 'ok' };
    await reconcile({ newsletter: halfDaily }, { last });
    last = { startedAt: justNow, state: 'ok' };
    const runs = collect<string>();
    await bench.start(
      { newsletter: halfDaily },
      (name) => {
        runs.add(name);
        return Promise.resolve(ok);
      },
      { ledger: ledgerWith(() => last) },
    );
    await bench.untilEvents(({ kind }) => kind === 'job-ended');
    expect(runs.values).toEqual([]);
  });
});

async function reconcile(
  schedules: Schedules,
  {
    paused = [],
    last = null,
    claim,
  }: {
    readonly paused?: readonly string[];
    readonly last?: LastRun | null;
    readonly claim?: ScheduleClaim;
  } = {},
): Promise<ReconciledSchedules> {
  const redis = new Redis(bench.redis.url, { maxRetriesPerRequest: null });
  try {
    return await reconcileSchedules({
      queues: openQueueSet(redis, prefix, () => undefined),
      connectors: connectorsOf(schedules),
      targets: [],
      sinks: [warehouse],
      ledger: {
        paused: () => Promise.resolve(new Set(paused.map(nameOf))),
        lastRun: () => Promise.resolve(last),
      },
      claim: claim ?? (await beginClaim(redis)),
      clock: systemClock,
      retryDelayMs: 100,
    });
  } finally {
    redis.disconnect();
  }
}
