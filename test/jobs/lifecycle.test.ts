import { setTimeout as pause } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { startWorker } from '../../src/jobs/start-worker.ts';
import { Secret } from '../../src/core/secret.ts';
import { redisContents } from '../support/redis-contents.ts';
import { freePort } from '../support/redis.ts';
import {
  collect,
  connectorsOf,
  emptyLedger,
  eventually,
  every,
  isEnd,
  logInto,
  newsletter,
  runsOf,
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

  it('returns the jobs of several sinks', async () => {
    const lake = { name: 'lake', id: 'l1', place: '/data/lake' };
    const connectors = new Map([
      ...connectorsOf({ newsletter: yearly }),
      ...[...connectorsOf({ wiki: yearly })].map(
        ([name, connector]) =>
          [name, { ...connector, sink: { ...connector.sink, name: lake.name } }] as const,
      ),
    ]);
    const begun = collect<string>();
    const worker = await bench.start(
      {},
      untilAborted(() => begun.add('run')),
      { settings: { ...bench.settings({}), connectors }, sinks: [warehouse, lake], concurrency: 1 },
    );
    await bench.queues.enqueue(warehouse.id, newsletter, 'manual');
    await bench.queues.enqueue(lake.id, wiki, 'manual');
    await begun.until(2);
    expect(worker.queues.map(({ name }) => name)).toEqual(['ticks', 'syncs-w1', 'syncs-l1']);
    await worker.stop();
    for (const sink of [warehouse, lake]) {
      // Enqueuing finds the waiting job.
      const connector = sink === lake ? wiki : newsletter;
      expect(await bench.queues.enqueue(sink.id, connector, 'manual')).toEqual({
        isNew: false,
        state: 'waiting',
      });
    }
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

it('fails within two seconds if Redis does not answer, without showing its password', async () => {
  const port = await freePort();
  const began = Date.now();
  const starting = startWorker({
    settings: {
      redis: { url: new Secret(`redis://:${password}@127.0.0.1:${port}`), isConfigured: true, prefix },
      connectors: new Map(),
    },
    serves: () => true,
    sinks: [warehouse],
    ledger: emptyLedger,
    log: logInto([]),
    run: runsOf(() => Promise.resolve(ok)),
  });
  await expect(starting).rejects.toMatchObject({
    code: 'QUEUE_UNAVAILABLE',
    message: expect.stringContaining(`127.0.0.1:${port}`) as string,
  });
  await expect(starting).rejects.not.toMatchObject({ message: expect.stringContaining(password) as string });
  expect(Date.now() - began).toBeLessThan(2500);
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
