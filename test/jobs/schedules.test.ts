import { setTimeout as pause } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Redis } from 'ioredis';
import { UnrecoverableError, Worker, type Job } from 'bullmq';
import { systemClock } from '../../src/core/clock.ts';
import { beginClaim, type ScheduleClaim, reconcileSchedules } from '../../src/jobs/reconcile-schedules.ts';
import {
  openQueueSet,
  addSync,
  type AddedJob,
  addBackfill,
  priorityOf,
} from '../../src/jobs/open-queue-set.ts';
import { openQueues } from '../../src/jobs/open-queues.ts';
import { type LastRun, defaultTimings } from '../../src/jobs/worker-context.ts';
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
  everySecond,
  logInto,
  wiki,
  type Collected,
  windowUntil,
} from '../support/jobs/worker-bench.ts';
import { createTickProcessor, jitterOffset } from '../../src/jobs/start-worker.ts';
import { instantClock } from '../support/instant-clock.ts';
import { repeats } from '../support/trials.ts';

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
      await eventually(async () => (await bench.queues.enqueue(warehouse.id, nameOf('bulletin'))).isNew);
      await bench.untilEvents(isEnd('done'), job + 1);
    }
    expect(new Set(runs.values)).toEqual(new Set(['newer']));
    expect((await bench.ticks.getJobSchedulers()).map(({ key }) => key)).toEqual(['w1:bulletin']);
    expect(bench.lines.filter(({ facts }) => 'sinks' in facts)).toMatchObject([
      { facts: { sinks: ['warehouse'] } },
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

  it('fires next at the time of the schedule, until it is removed', async () => {
    await reconcile({ newsletter: daily });
    const next = (await bench.ticks.getJobScheduler(id))?.next;
    expect(new Date(next ?? 0).toISOString()).toMatch(/T03:30:00.000Z$/);
    await bench.queues.removeSchedule(warehouse.id, newsletter);
    expect(await bench.ticks.getJobSchedulersCount()).toBe(0);
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
): ReturnType<typeof reconcileSchedules> {
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

describe('ticks', () => {
  it.each([
    ['interval', every(200)],
    ['cron pattern', everySecond],
  ])('run a connector repeatedly by its %s', async (_, schedule) => {
    const runs = collect<string>();
    await bench.start({ newsletter: schedule }, (name) => {
      runs.add(name);
      return Promise.resolve(ok);
    });
    expect(await runs.until(3)).toEqual([newsletter, newsletter, newsletter]);
    const [started] = await bench.untilEvents(({ kind }) => kind === 'job-started');
    expect(started).toMatchObject({ connector: newsletter, reason: 'schedule' });
  });

  // Proves promise 12
  it('never run one connector twice at the same time, however long a run takes', async () => {
    const started = collect<string>();
    let parallel = 0;
    let most = 0;
    const finish: (() => void)[] = [];
    await bench.start({ newsletter: every(100) }, async (name) => {
      most = Math.max(most, (parallel += 1));
      started.add(name);
      await new Promise<void>((resolve) => finish.push(resolve));
      parallel -= 1;
      return ok;
    });
    await started.until(1);
    const before = bench.events.filter(({ kind }) => kind === 'tick').length;
    await bench.untilEvents(({ kind }) => kind === 'tick', before + 5);
    expect(started.values).toHaveLength(1);
    expect(await bench.syncs.getJobCountByTypes('waiting', 'prioritized', 'delayed', 'active')).toBe(1);
    finish.shift()?.();
    await started.until(2);
    expect(most).toBe(1);
    finish.shift()?.();
  });

  it('add a job to the queue of their sink, even if this worker does not serve it', async () => {
    const { process } = ticksOf({});
    await process(tick({ sink: 'another-sink', connector: 'elsewhere' }, Date.now()));
    const queues = openQueueSet(bench.client, prefix, () => undefined);
    const [job] = await queues.syncs('another-sink').getJobs(['waiting', 'prioritized']);
    expect(job?.data).toMatchObject({ connector: 'elsewhere', kind: 'sync', reason: 'schedule' });
  });

  it('keep their due time, however late they are processed', async () => {
    await bench.ticks.upsertJobScheduler(
      `${warehouse.id}:newsletter`,
      { pattern: everySecond.kind === 'cron' ? everySecond.pattern : '', tz: 'UTC' },
      { name: 'tick', data: { sink: warehouse.id, connector: 'newsletter' } },
    );
    const next = (await bench.ticks.getJobScheduler(`${warehouse.id}:newsletter`))?.next ?? 0;
    // Real time on purpose: the tick must be late.
    await pause(next + 1500 - Date.now());
    const due = collect<unknown>();
    const { process } = ticksOf({});
    const [job] = await bench.ticks.getJobs(['delayed', 'waiting']);
    if (job === undefined) throw new Error('the scheduler added no job');
    await process(job);
    for (const sync of await bench.syncs.getJobs(['waiting', 'prioritized'])) due.add(sync.data.due);
    expect(due.values).toEqual([next]);
  });

  it('of another deployment ignore the schedules of this one', async () => {
    const { process, now } = ticksOf({ newsletter: cron('0 3 * * *', { missed: 'skip' }) });
    await process(tick({ sink: 'another-sink', connector: newsletter }, now() - 61_000));
    const queues = openQueueSet(bench.client, prefix, () => undefined);
    expect(await queues.syncs('another-sink').getJobCountByTypes('waiting', 'prioritized')).toBe(1);
  });

  it('more than a minute late are skipped with `missed: skip`', async () => {
    const { process, lines, now } = ticksOf({
      newsletter: cron('0 3 * * *', { missed: 'skip' }),
      wiki: cron('0 3 * * *'),
    });
    await process(tick({ sink: warehouse.id, connector: newsletter }, now() - 61_000));
    await process(tick({ sink: warehouse.id, connector: wiki }, now() - 61_000));
    expect((await bench.syncs.getJobs(['waiting', 'prioritized'])).map(({ data }) => data.connector)).toEqual(
      [wiki],
    );
    expect(lines.map(({ facts }) => facts['connector'])).toEqual([newsletter]);
    await process(tick({ sink: warehouse.id, connector: newsletter }, now() - 59_000));
    expect(await bench.syncs.getJobCountByTypes('waiting', 'prioritized')).toBe(2);
  });
});

describe('the deduplication key of a connector', () => {
  const put = (): Promise<AddedJob> =>
    addSync(bench.syncs, { connector: newsletter, reason: 'schedule', due: null }, { retryDelayMs: 100 });

  it.each<[string, (id: string) => Promise<unknown>]>([
    [
      'has failed without releasing it',
      async (id) => {
        await bench.client.hdel(bench.syncs.toKey(id), 'deid');
        const worker = new Worker(bench.syncs.name, () => Promise.reject(new UnrecoverableError('no')), {
          connection: bench.client,
          prefix,
        });
        await eventually(async () => (await bench.syncs.getFailedCount()) === 1);
        await worker.close();
      },
    ],
    ['is in no list', (id) => bench.client.lrem(bench.syncs.toKey('wait'), 1, id)],
    ['no longer exists', (id) => bench.client.del(bench.syncs.toKey(id))],
  ])('is taken from a job that %s', async (_, spoil) => {
    const first = await put();
    await spoil(first.id);
    const second = await put();
    expect(second).toMatchObject({ isNew: true });
    expect(await put()).toEqual({ id: second.id, isNew: false });
  });
});

describe('jitter', () => {
  it('delays each connector by a fixed time below the limit', async () => {
    const jitterMs = 600_000;
    const { process, now } = ticksOf({ newsletter: cron('0 3 * * *', { jitterMs }) });
    await process(tick({ sink: warehouse.id, connector: newsletter }, now()));
    const offset = jitterOffset(newsletter, jitterMs);
    const [job] = await bench.syncs.getJobs(['delayed']);
    expect(job?.opts.delay).toBe(offset);
    expect(job?.data.due).toBe(now() + offset);
    const names = Array.from({ length: 200 }, (_, index) => `connector-${index}`);
    const offsets = names.map((name) => jitterOffset(name as typeof newsletter, jitterMs));
    expect(Math.max(...offsets)).toBeLessThan(jitterMs);
    // Spread over the whole range: each tenth has some.
    const tenths = new Set(offsets.map((one) => Math.floor(one / (jitterMs / 10))));
    expect([...tenths].sort((left, right) => left - right)).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
  });
});

function ticksOf(schedules: Schedules): {
  readonly process: (job: Job) => Promise<void>;
  readonly lines: readonly BenchLine[];
  readonly errors: Collected<string>;
  readonly stop: () => void;
  readonly now: () => number;
} {
  const lines: BenchLine[] = [];
  const clock = instantClock(Date.now());
  const errors = collect<string>();
  const stopping = new AbortController();
  const process = createTickProcessor({
    queues: openQueueSet(bench.client, prefix, () => undefined),
    connectors: connectorsOf(schedules),
    sinks: [warehouse],
    ledger: emptyLedger,
    timings: { ...defaultTimings, retryDelayMs: 100 },
    closing: stopping.signal,
    onError: (error) => errors.add(error.message),
    clock,
    log: logInto(lines),
    observe: () => undefined,
  });
  return { process, lines, errors, stop: () => stopping.abort(), now: () => clock.now() };
}

/** A tick as a scheduler adds it: ahead of time, delayed until its due time. */
function tick(data: object, dueMs: number): Job {
  return { data, timestamp: dueMs - 5000, opts: { delay: 5000 } } as Job;
}

const trials = repeats('TRIALS', { share: 1, full: 20 });

// Proves promise 12
it(`runs once to catch up on several ticks missed without a worker (${trials} trials)`, async () => {
  await using bench = await openWorkerBench();
  for (let trial = 0; trial < trials; trial += 1) {
    const before = collect<number>();
    const first = await bench.start({ newsletter: everySecond }, () => {
      before.add(Date.now());
      return Promise.resolve(ok);
    });
    await before.until(1);
    await first.stop();
    // Real time on purpose: more than three ticks pass.
    await pause(3400);
    const runs = collect<number>();
    const back = Date.now();
    const second = await bench.start({ newsletter: everySecond }, () => {
      runs.add(Date.now());
      return Promise.resolve(ok);
    });
    await runs.until(3);
    await second.stop();
    // The first run catches up on all missed ticks; each further run has its own second.
    const [caughtUp = 0, ...further] = runs.values;
    expect({ trial, late: caughtUp - back > 1000 }).toEqual({ trial, late: false });
    const seconds = further.map((at) => Math.floor(at / 1000));
    expect({ trial, distinct: new Set(seconds).size }).toEqual({ trial, distinct: seconds.length });
    expect(Math.min(...seconds)).toBeGreaterThan(Math.floor(back / 1000));
  }
}, 120_000);

const hourMs = 3_600_000;
describe('with more due jobs than free slots', () => {
  // Proves promise 12
  it('runs manual jobs first, then the data that becomes stale first', async () => {
    const now = Date.now();
    const freshUntil: Readonly<Record<string, number | null>> = {
      late: now + 5 * hourMs,
      stale: now - hourMs / 2,
      soon: now + hourMs,
      never: 0,
      // Without a limit, its deadline is one interval after its due time.
      free: null,
    };
    const names = Object.keys(freshUntil);
    const order: string[] = [];
    let release = (): void => undefined;
    const released = new Promise<void>((resolve) => (release = resolve));
    await bench.start(
      {
        blocker: null,
        byhand: null,
        history: null,
        ...Object.fromEntries(names.map((name) => [name, every(3 * hourMs)])),
      },
      async (name) => {
        order.push(name);
        if (name === 'blocker') await released;
        return ok;
      },
      {
        concurrency: 1,
        runBackfill: (_backfill, name) => {
          order.push(name);
          return Promise.resolve({ ...ok, isDone: true });
        },
        ledger: { ...emptyLedger, freshUntil: (name) => Promise.resolve(freshUntil[name] ?? null) },
        beforeJobs: async () => {
          await bench.queues.enqueue(warehouse.id, nameOf('blocker'));
        },
      },
    );
    // Each schedule has fired while the only slot was taken.
    await bench.untilEvents(({ kind }) => kind === 'tick', names.length);
    await addBackfill(bench.syncs, nameOf('history'), windowUntil(2), { retryDelayMs: 100 });
    await expect.poll(() => bench.syncs.getJobCountByTypes('prioritized')).toBe(names.length + 1);
    await bench.queues.enqueue(warehouse.id, nameOf('byhand'));
    release();
    await bench.untilEvents(isEnd('done'), names.length + 3);
    expect(order).toEqual(['blocker', 'byhand', 'never', 'stale', 'soon', 'free', 'late', 'history']);
  });
});

describe('connectors that are never read because their runs fail', () => {
  it('go ahead of others by an hour at most, so that they do not starve them', async () => {
    const due = Date.now() - 2 * hourMs;
    await bench.queues.enqueue(warehouse.id, nameOf('blocker'));
    const tick = (name: string, at: number, freshUntil: number | null): Promise<void> =>
      createTickProcessor({
        queues: openQueueSet(bench.client, prefix, () => undefined),
        connectors: connectorsOf({ [name]: every(hourMs / 2) }),
        sinks: [warehouse],
        ledger: { ...emptyLedger, freshUntil: () => Promise.resolve(freshUntil) },
        timings: { ...defaultTimings, retryDelayMs: 100 },
        closing: new AbortController().signal,
        onError: () => undefined,
        clock: systemClock,
        log: logInto([]),
        observe: () => undefined,
      })({ data: { sink: warehouse.id, connector: name }, timestamp: at, opts: {} } as Job);
    await tick('waits', due, null);
    // It is queued repeatedly, each time as never read.
    for (let round = 0; round < 3; round += 1) await tick(`fails-${round}`, due + round * hourMs, 0);
    const waiting = await bench.syncs.getJobs(['prioritized'], 0, -1, true);
    const byPriority = waiting.toSorted((left, right) => left.priority - right.priority);
    expect(byPriority.map(({ data }) => data.connector)).toEqual(['fails-0', 'fails-1', 'waits', 'fails-2']);
  });

  it('still run if the ledger cannot be read', async () => {
    const runs: string[] = [];
    const freshUntil = (): Promise<never> => Promise.reject(new Error('the database is locked'));
    await bench.start(
      { newsletter: every(hourMs) },
      (name) => Promise.resolve(runs.push(name)).then(() => ok),
      {
        ledger: { ...emptyLedger, freshUntil },
      },
    );
    await bench.untilEvents(isEnd('done'));
    expect(runs).toEqual(['newsletter']);
  });
});

describe('the priority of a deadline', () => {
  it('is higher for an earlier deadline, within the limits of the queue', () => {
    const at = Date.UTC(2026, 10, 22);
    const deadlines = [0, at - hourMs, at, at + hourMs, at + 365 * 24 * hourMs, Date.UTC(2060, 0, 1)];
    const priorities = deadlines.map(priorityOf);
    expect(priorities).toEqual(priorities.toSorted((left, right) => left - right));
    expect(new Set(priorities).size).toBe(deadlines.length);
    expect([priorities[0], priorities.at(-1)]).toEqual([1, 2 ** 21 - 1]);
    expect(priorities.every((priority) => Number.isInteger(priority))).toBe(true);
  });
});
