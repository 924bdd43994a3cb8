import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Redis } from 'ioredis';
import { systemClock } from '../../src/core/clock.ts';
import { openQueueSet } from '../../src/jobs/open-queue-set.ts';
import { openQueues } from '../../src/jobs/open-queues.ts';
import { reconcileSchedules, type ReconciledSchedules } from '../../src/jobs/reconcile-schedules.ts';
import type { LastRun } from '../../src/jobs/worker-ledger.ts';
import type { Schedule } from '../../src/settings/settings.ts';
import {
  collect,
  connectorsOf,
  cron,
  every,
  eventually,
  newsletter,
  ok,
  openWorkerBench,
  pause,
  prefix,
  warehouse,
  type BenchLine,
  type Schedules,
  type WorkerBench,
} from './worker-bench.ts';

const daily = cron('30 3 * * *');
const id = `${warehouse.id}:newsletter`;

let bench: WorkerBench;

beforeEach(async () => {
  bench = await openWorkerBench();
});

afterEach(() => bench[Symbol.asyncDispose]());

describe('reconciling schedules', () => {
  it('leaves a schedule alone that is already right, so that an overdue run stays overdue', async () => {
    await reconcile({ newsletter: daily });
    // Overdue: the queue was not worked off when its time came.
    await bench.client.zadd(`${prefix}:ticks:repeat`, '1000', id);
    expect(await reconcile({ newsletter: daily })).toEqual({
      written: [],
      kept: ['newsletter'],
      removed: [],
      foreign: [],
    });
    expect((await bench.ticks.getJobScheduler(id))?.next).toBe(1000);
  });

  it.each<[string, Schedule]>([
    ['pattern', { ...daily, pattern: '30 4 * * *' }],
    ['time zone', { ...daily, timezone: 'Europe/Berlin' }],
    ['kind', every(60_000)],
  ])('writes it again when its %s has changed', async (_, changed) => {
    await reconcile({ newsletter: daily });
    expect((await reconcile({ newsletter: changed })).written).toEqual(['newsletter']);
    expect(await bench.ticks.getJobSchedulersCount()).toBe(1);
  });

  it.each<[string, Schedule, number]>([
    ['makes up for a run that was overdue', cron('30 4 * * *'), 1],
    ['leaves it out where missed runs are to be skipped', cron('30 4 * * *', { missed: 'skip' }), 0],
  ])('%s when it writes a changed schedule', async (_, changed, jobs) => {
    await reconcile({ newsletter: daily });
    await bench.client.zadd(`${prefix}:ticks:repeat`, String(Date.now() - 60_000), id);
    await reconcile({ newsletter: changed });
    const added = await bench.syncs.getJobs(['waiting']);
    expect(added.map(({ data }) => data.reason)).toEqual(jobs === 1 ? ['catch-up'] : []);
  });

  it('takes no turns with a worker that has other settings, and says so once', async () => {
    const older = { timings: { reconcileMs: 100 } };
    await bench.start({ newsletter: every(3_600_000) }, () => Promise.resolve(ok), older);
    await bench.start({ newsletter: every(7_200_000) }, () => Promise.resolve(ok), older);
    const isWarning = ({ message }: BenchLine): boolean => message.startsWith('another process');
    await eventually(() => Promise.resolve(bench.lines.some(isWarning)));
    // Several turns of both.
    await pause(1000);
    expect((await bench.ticks.getJobScheduler(id))?.every).toBe(7_200_000);
    expect(bench.events.filter(({ kind }) => kind === 'tick')).toHaveLength(2);
    expect(bench.lines.filter(isWarning)).toHaveLength(1);
  });

  it('removes the schedules of connectors that are gone, paused or without one, and of no other sink', async () => {
    await bench.ticks.upsertJobScheduler('w2:newsletter', { every: 60_000 }, { name: 'theirs', data: {} });
    await reconcile({ newsletter: daily, wiki: daily, tracker: daily, stays: daily });
    const result = await reconcile({ wiki: null, tracker: daily, stays: daily }, { paused: ['tracker'] });
    expect({ ...result, removed: [...result.removed].sort() }).toEqual({
      written: [],
      kept: ['stays'],
      removed: ['newsletter', 'tracker', 'wiki'],
      foreign: [],
    });
    const left = (await bench.ticks.getJobSchedulers()).map(({ key }) => key);
    expect(left.sort()).toEqual(['w1:stays', 'w2:newsletter']);
  });

  it('leaves one scheduler with one job when eight processes do it again and again at the same time', async () => {
    const connectors = connectorsOf({ newsletter: daily });
    const openers = await Promise.all(Array.from({ length: 8 }, () => openQueues(bench.settings({}))));
    for (let round = 0; round < 25; round += 1) {
      await Promise.all(
        openers.map((queues) =>
          queues.apply({ connectors, sinks: [warehouse], isPaused: () => false, takeOver: [] }),
        ),
      );
    }
    await Promise.all(openers.map((queues) => queues[Symbol.asyncDispose]()));
    expect(await bench.ticks.getJobSchedulersCount()).toBe(1);
    expect(await bench.ticks.getDelayedCount()).toBe(1);
  });

  it('tells when each connector is due next', async () => {
    await reconcile({ newsletter: daily });
    const next = (await bench.queues.schedules([warehouse.id])).get(id)?.next;
    expect(new Date(next ?? 0).toISOString()).toMatch(/T03:30:00.000Z$/);
    expect((await bench.queues.schedules(['w2'])).size).toBe(0);
    await bench.queues.removeSchedule(warehouse.id, newsletter);
    expect((await bench.queues.schedules([warehouse.id])).size).toBe(0);
  });

  it('is repeated by a worker, so that schedules come back after Redis has lost its memory', async () => {
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

  it('comes at once when Redis is back without its memory', async () => {
    await bench.start({ newsletter: daily }, () => Promise.resolve(ok));
    await bench.redis.restart();
    await eventually(async () => (await bench.ticks.getJobSchedulersCount()) === 1);
  });
});

describe('a cron schedule that Redis had forgotten', () => {
  const yesterday = new Date(Date.now() - 30 * 60 * 60 * 1000).toISOString();
  const justNow = new Date(Date.now() - 1000).toISOString();
  // Its last slot lies between the two, whatever the time of day.
  const halfDaily = cron(`0 ${(new Date().getUTCHours() + 12) % 24} * * *`);

  it.each<[string, LastRun | null, number]>([
    ['no run since its last slot', { startedAt: yesterday, state: 'ok' }, 1],
    ['a run that was interrupted', { startedAt: justNow, state: 'interrupted' }, 1],
    ['a run that failed', { startedAt: justNow, state: 'failed' }, 1],
    ['a run of a process that is gone', { startedAt: justNow, state: 'running' }, 1],
    ['a good run since its last slot', { startedAt: justNow, state: 'degraded' }, 0],
    ['never run', null, 0],
  ])('is made up for once where the connector has %s: %#', async (_, last, jobs) => {
    await reconcile({ newsletter: halfDaily }, { last });
    await reconcile({ newsletter: halfDaily }, { last });
    const added = await bench.syncs.getJobs(['waiting']);
    expect(added.map(({ data }) => data.reason)).toEqual(jobs === 1 ? ['catch-up'] : []);
    for (const { data } of added) expect(data.due).toBeGreaterThan(Date.now() - 25 * 60 * 60 * 1000);
  });

  it('is not made up for where missed runs are to be skipped, nor when it only changed', async () => {
    const last = { startedAt: yesterday, state: 'ok' };
    await reconcile({ newsletter: { ...halfDaily, missed: 'skip' } }, { last });
    await reconcile({ newsletter: { ...halfDaily, timezone: 'Europe/Berlin' } }, { last });
    expect(await bench.syncs.getWaitingCount()).toBe(0);
  });

  it('runs no second time when another run was made before the job came', async () => {
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
      { ledger: { pause: () => null, lastRun: () => last } },
    );
    await bench.untilEvents(({ kind }) => kind === 'job-ended');
    expect(runs.values).toEqual([]);
  });
});

async function reconcile(
  schedules: Schedules,
  { paused = [], last = null }: { readonly paused?: readonly string[]; readonly last?: LastRun | null } = {},
): Promise<ReconciledSchedules> {
  const redis = new Redis(bench.redis.url, { maxRetriesPerRequest: null });
  try {
    return await reconcileSchedules({
      queues: openQueueSet(redis, prefix, () => undefined),
      connectors: connectorsOf(schedules),
      sinks: [warehouse],
      isPaused: (name) => paused.includes(name),
      mayChange: true,
      lastRun: () => last,
      clock: systemClock,
      retryDelayMs: 100,
    });
  } finally {
    redis.disconnect();
  }
}
