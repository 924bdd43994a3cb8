import { hostname } from 'node:os';
import { setTimeout as pause } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Secret } from '../../src/core/secret.ts';
import { sinksKey } from '../../src/jobs/open-queue-set.ts';
import { openQueues } from '../../src/jobs/open-queues.ts';
import {
  collect,
  connectorsOf,
  cron,
  emptyLedger,
  eventually,
  every,
  isEnd,
  newsletter,
  ok,
  openWorkerBench,
  password,
  prefix,
  untilAborted,
  warehouse,
  wiki,
  yearly,
  type WorkerBench,
} from '../support/jobs/worker-bench.ts';
import { redisContents } from '../support/redis-contents.ts';
import { freePort } from '../support/redis.ts';

it('enqueues a connector once, and returns the state of its job', async () => {
  await using bench = await openWorkerBench();
  const enqueue = (): Promise<unknown> => bench.queues.enqueue(warehouse.id, newsletter, 'manual');
  expect(await enqueue()).toEqual({ isNew: true, state: 'waiting' });
  expect(await enqueue()).toEqual({ isNew: false, state: 'waiting' });
  const begun = collect<string>();
  await bench.start(
    { newsletter: yearly },
    untilAborted(() => begun.add('run')),
  );
  await begun.until(1);
  expect(await enqueue()).toEqual({ isNew: false, state: 'active' });
});

it('throws within two seconds if Redis does not answer', async () => {
  const began = Date.now();
  const url = new Secret(`redis://127.0.0.1:${await freePort()}`);
  await expect(openQueues({ redis: { url, isConfigured: true, prefix } })).rejects.toMatchObject({
    code: 'QUEUE_UNAVAILABLE',
  });
  expect(Date.now() - began).toBeLessThan(2500);
});

it('throws within about two seconds if Redis goes down later, or hangs', async () => {
  await using bench = await openWorkerBench();
  const calls: readonly (() => Promise<unknown>)[] = [
    () => bench.queues.enqueue(warehouse.id, newsletter, 'manual'),
    () => bench.queues.schedules([warehouse.id]),
    () => bench.queues.registeredSink('warehouse'),
    () =>
      bench.queues.apply({
        connectors: connectorsOf({ newsletter: yearly }),
        sinks: [warehouse],
        paused: emptyLedger.paused,
        targets: [],
        takeOver: [],
      }),
  ];
  const allRefuse = async (): Promise<void> => {
    for (const call of calls) {
      const began = Date.now();
      await expect(call()).rejects.toMatchObject({ code: 'QUEUE_UNAVAILABLE' });
      expect(Date.now() - began).toBeLessThan(3000);
    }
  };
  await bench.queues.enqueue(warehouse.id, newsletter, 'manual');
  await bench.client.call('CLIENT', 'PAUSE', '6000');
  await expect(calls[0]?.()).rejects.toMatchObject({ code: 'QUEUE_UNAVAILABLE' });
  await bench.redis.kill();
  await allRefuse();
});

describe('sinks', () => {
  const daily = cron('30 3 * * *');
  const elsewhere = { id: 'w0', host: 'another-host', place: '/mnt/warehouse.db' };

  let bench: WorkerBench;

  beforeEach(async () => {
    bench = await openWorkerBench();
  });

  afterEach(() => bench[Symbol.asyncDispose]());

  describe('the registry of sinks', () => {
    it('registers a sink when the first worker serves it', async () => {
      expect(await bench.queues.registeredSink('warehouse')).toBeNull();
      await start();
      expect(await bench.queues.registeredSink('warehouse')).toEqual({
        id: 'w1',
        host: hostname(),
        place: '/data/warehouse.db',
      });
      await start();
    });

    // Proves promise 12
    it('rejects a worker with another file under the same name, and names both files', async () => {
      await register(elsewhere);
      const starting = start();
      await expect(starting).rejects.toMatchObject({ code: 'SINK_INCOMPATIBLE', recovery: 'stop' });
      await expect(starting).rejects.toThrow(
        /another-host.*\/data\/warehouse\.db on .*--take-over warehouse/s,
      );
      expect(await bench.queues.registeredSink('warehouse')).toEqual(elsewhere);
      expect(await bench.ticks.getJobSchedulersCount()).toBe(0);
    });

    it('updates the place of a file that moved', async () => {
      await register({ ...elsewhere, id: 'w1' });
      await start();
      expect(await bench.queues.registeredSink('warehouse')).toMatchObject({ place: '/data/warehouse.db' });
    });

    it('lets a new file at the same place take over, and removes the queued jobs of the old one', async () => {
      const old = { ...warehouse, id: 'w0' };
      const connectors = connectorsOf({ newsletter: daily });
      await bench.queues.apply({
        connectors,
        sinks: [old],
        paused: emptyLedger.paused,
        targets: [],
        takeOver: [],
      });
      await bench.queues.enqueue('w0', newsletter, 'manual');
      await start();
      expect((await bench.ticks.getJobSchedulers()).map(({ key }) => key)).toEqual(['w1:newsletter']);
      expect(await bench.client.exists(`${prefix}:syncs-w0:wait`)).toBe(0);
      expect(bench.lines.find(({ level }) => level === 'warn')).toMatchObject({
        facts: { sink: 'warehouse' },
      });
    });

    it('rejects an unknown value in the registry', async () => {
      await bench.client.hset(sinksKey(prefix), 'warehouse', 'not ours');
      await expect(start()).rejects.toThrow(/found an unknown value/);
    });
  });

  function start(): Promise<unknown> {
    return bench.start({ newsletter: daily }, () => Promise.resolve(ok));
  }

  async function register(sink: typeof elsewhere): Promise<void> {
    await bench.client.hset(sinksKey(prefix), 'warehouse', JSON.stringify(sink));
  }
});

describe('workers', () => {
  let bench: WorkerBench;

  beforeEach(async () => {
    bench = await openWorkerBench();
  });

  afterEach(() => bench[Symbol.asyncDispose]());

  describe('a worker that stops', () => {
    it('returns its jobs without using an attempt, so that the next worker resumes them at once', async () => {
      const schedules = { newsletter: yearly, wiki: yearly };
      const begun = collect<string>();
      const first = await bench.start(
        schedules,
        untilAborted(() => begun.add('run')),
      );
      await bench.queues.enqueue(warehouse.id, newsletter, 'manual');
      await bench.queues.enqueue(warehouse.id, wiki, 'manual');
      await begun.until(2);
      await first.stop();
      await first.ended;
      expect(bench.events.filter(isEnd('given-back')).length).toBeGreaterThanOrEqual(2);
      for (const job of await bench.syncs.getJobs(['waiting', 'active', 'delayed', 'failed'])) {
        expect({ state: await job.getState(), attempts: job.attemptsMade }).toEqual({
          state: 'waiting',
          attempts: 0,
        });
      }
      const taken = collect<string>();
      await bench.start(schedules, (name) => {
        taken.add(name);
        return Promise.resolve(ok);
      });
      expect([...(await taken.until(2))].sort()).toEqual([newsletter, wiki]);
    });

    it('does not take a job again that it has just returned', async () => {
      const begun = collect<string>();
      // A free slot waits for jobs and would see the returned one.
      const worker = await bench.start(
        { newsletter: yearly },
        untilAborted(() => begun.add('run')),
        { concurrency: 3 },
      );
      await bench.queues.enqueue(warehouse.id, newsletter, 'manual');
      await begun.until(1);
      await eventually(async () => (await worker.state()).depth[0]?.active === 1);
      await worker.stop();
      expect(begun.values).toHaveLength(1);
      expect(await bench.queues.enqueue(warehouse.id, newsletter, 'manual')).toEqual({
        isNew: false,
        state: 'waiting',
      });
    });

    it('takes no more jobs and may be stopped twice', async () => {
      const worker = await bench.start({ newsletter: yearly }, () => Promise.resolve(ok));
      await Promise.all([worker.stop(), worker.stop()]);
      await bench.queues.enqueue(warehouse.id, newsletter, 'manual');
      expect(bench.events.filter(({ kind }) => kind === 'job-started')).toEqual([]);
      expect(await worker.state()).toMatchObject({ isReady: false });
    });

    it('ends within its grace period during a Redis outage', async () => {
      const begun = collect<string>();
      const worker = await bench.start(
        { newsletter: every(60_000) },
        untilAborted(() => begun.add('run')),
        { graceMs: 500 },
      );
      await begun.until(1);
      await bench.redis.kill();
      const stopped = Date.now();
      await worker.stop();
      expect(Date.now() - stopped).toBeLessThan(2000);
      await worker.ended;
    });

    it('gives an active run its grace period during a Redis outage, and ends soon after that run', async () => {
      const begun = collect<() => void>();
      const worker = await bench.start(
        { newsletter: yearly },
        () =>
          new Promise((resolve) => {
            begun.add(() => resolve(ok));
          }),
      );
      await bench.queues.enqueue(warehouse.id, newsletter, 'manual');
      const [end] = await begun.until(1);
      await bench.redis.kill();
      const stopped = worker.stop();
      // Longer than a worker without a run waits.
      expect(await Promise.race([stopped.then(() => 'left'), pause(3000)])).toBeUndefined();
      const ended = Date.now();
      end?.();
      await stopped;
      expect(Date.now() - ended).toBeLessThan(3000);
    });
  });

  it('runs up to `concurrency` connectors of a sink at a time', async () => {
    const names = ['one', 'two', 'three', 'four', 'five'];
    let parallel = 0;
    let most = 0;
    const finish: (() => void)[] = [];
    const begun = collect<string>();
    await bench.start(
      Object.fromEntries(names.map((name) => [name, every(600_000)])),
      async (name) => {
        most = Math.max(most, (parallel += 1));
        begun.add(name);
        await new Promise<void>((resolve) => finish.push(resolve));
        parallel -= 1;
        return ok;
      },
      { concurrency: 3 },
    );
    for (let done = 3; done <= names.length; done += 1) {
      await begun.until(done);
      finish.shift()?.();
    }
    while (finish.length > 0) finish.shift()?.();
    await bench.untilEvents(isEnd('done'), names.length);
    expect(most).toBe(3);
  });

  it('reports the number of waiting jobs of each sink', async () => {
    const begun = collect<string>();
    const worker = await bench.start(
      { newsletter: yearly, wiki: yearly },
      untilAborted(() => begun.add('run')),
      { concurrency: 1 },
    );
    await bench.queues.enqueue(warehouse.id, newsletter, 'manual');
    await begun.until(1);
    await bench.queues.enqueue(warehouse.id, wiki, 'manual');
    expect(await worker.state()).toEqual({
      isReady: true,
      problems: [],
      depth: [{ sink: 'warehouse', waiting: 1, delayed: 0, active: 1, failed: 0, endsInMs: Infinity }],
    });
  });

  // Proves promise 10
  it('stores no secret in Redis: a job holds only names', async () => {
    await bench.start({ newsletter: every(60_000) }, () => Promise.resolve(ok));
    await bench.untilEvents(isEnd('done'));
    await eventually(async () => (await bench.syncs.getCompletedCount()) === 1);
    const [job] = await bench.syncs.getCompleted();
    expect(job?.data).toEqual({
      connector: 'newsletter',
      kind: 'sync',
      reason: 'schedule',
      due: expect.any(Number) as number,
    });
    const keys = await bench.client.keys('*');
    expect(keys.every((key) => key.startsWith(`${prefix}:`))).toBe(true);
    expect(keys.length).toBeGreaterThan(8);
    expect(await redisContents(bench.redis.url)).not.toContain(password);
  });
});
