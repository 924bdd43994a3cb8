import { setTimeout as pause } from 'node:timers/promises';
import { UnrecoverableError, Worker, type Job } from 'bullmq';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { addSync, openQueueSet, type AddedJob } from '../../src/jobs/open-queue-set.ts';
import { createTickProcessor, jitterOffset } from '../../src/jobs/start-worker.ts';
import { defaultTimings } from '../../src/jobs/worker-context.ts';
import { instantClock } from '../support/instant-clock.ts';
import {
  collect,
  connectorsOf,
  cron,
  emptyLedger,
  eventually,
  every,
  everySecond,
  logInto,
  newsletter,
  ok,
  openWorkerBench,
  prefix,
  warehouse,
  wiki,
  type BenchLine,
  type Collected,
  type Schedules,
  type WorkerBench,
} from '../support/jobs/worker-bench.ts';
import { repeats } from '../support/trials.ts';

describe('ticks and jobs', () => {
  let bench: WorkerBench;

  beforeEach(async () => {
    bench = await openWorkerBench();
  });

  afterEach(() => bench[Symbol.asyncDispose]());

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
      expect(
        (await bench.syncs.getJobs(['waiting', 'prioritized'])).map(({ data }) => data.connector),
      ).toEqual([wiki]);
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
});

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
