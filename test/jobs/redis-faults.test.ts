import { setTimeout as pause } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import type { Redis } from 'ioredis';
import { addSync } from '../../src/jobs/open-queue-set.ts';
import type { LastRun } from '../../src/jobs/worker-context.ts';
import {
  collect,
  eventually,
  every,
  everySecond,
  interrupted,
  ledgerWith,
  newsletter,
  ok,
  openWorkerBench,
  yearly,
  type WorkerBench,
} from '../support/jobs/worker-bench.ts';

describe.concurrent('a worker whose Redis', () => {
  it('is killed and restarts continues, and loses no active job', async () => {
    await using bench = await openWorkerBench({ appendOnly: true });
    const begun = collect<string>();
    let release: () => void = () => undefined;
    const held = new Promise<void>((resolve) => (release = resolve));
    const worker = await bench.start({ newsletter: every(300) }, async (_, { signal }) => {
      begun.add('run');
      if (begun.values.length > 1) return ok;
      await held;
      return signal.aborted ? interrupted : ok;
    });
    await begun.until(1);
    await bench.redis.kill();
    expect(await worker.state()).toEqual({
      isReady: false,
      problems: ['Redis does not answer'],
      depth: [],
    });
    // Longer than the lock duration, which is the harder case.
    await pause(3000);
    await bench.redis.restart();
    const back = Date.now();
    await eventually(async () => (await worker.state()).isReady);
    expect(Date.now() - back).toBeLessThan(5000);
    release();
    await begun.until(4);
    expect(
      bench.lines.filter(({ message }) => message.startsWith('Redis reports an error')).length,
    ).toBeLessThan(10);
  }, 60_000);

  it('loses its data during a run interrupts the run, then resumes it', async () => {
    await using bench = await openWorkerBench();
    let last: LastRun | null = null;
    const begun = collect<string>();
    await bench.start(
      { newsletter: yearly },
      (_, { signal }) => {
        begun.add('run');
        last = { startedAt: new Date().toISOString(), state: 'running' };
        if (begun.values.length > 1) return Promise.resolve(ok);
        return new Promise((resolve) => {
          signal.addEventListener('abort', () => {
            last = { startedAt: new Date().toISOString(), state: 'interrupted' };
            resolve(interrupted);
          });
        });
      },
      { ledger: ledgerWith(() => last) },
    );
    await addNow(bench);
    await begun.until(1);
    await bench.client.flushall();
    await begun.until(2);
    expect(await bench.ticks.getJobSchedulersCount()).toBe(1);
    expect(bench.events.filter(({ kind }) => kind === 'job-started')).toMatchObject([
      { reason: 'manual' },
      { reason: 'catch-up' },
    ]);
  });

  it.each<[string, (client: Redis) => Promise<unknown>, (client: Redis) => Promise<unknown>]>([
    [
      'OOM',
      (client) => client.config('SET', 'maxmemory', '1'),
      (client) => client.config('SET', 'maxmemory', '0'),
    ],
    ['READONLY', (client) => client.replicaof('127.0.0.1', 1), (client) => client.replicaof('NO', 'ONE')],
  ])(
    'rejects commands (%s) backs off, logs it once, and resumes afterwards',
    async (kind, spoil, mend) => {
      await using bench = await openWorkerBench();
      const runs = collect<string>();
      const worker = await bench.start({ newsletter: everySecond }, () => {
        runs.add('run');
        return Promise.resolve(ok);
      });
      await runs.until(1);
      await spoil(bench.client);
      await eventually(async () => (await worker.state()).problems.length > 0);
      const said = (): number => bench.lines.filter(({ facts }) => facts['kind'] === kind).length;
      // Without backoff a worker gets some ten thousand errors in this time.
      await pause(3000);
      expect(said()).toBe(1);
      expect(bench.events.filter((event) => event.kind === 'redis-error').length).toBeLessThan(100);
      await mend(bench.client);
      const before = runs.values.length;
      await runs.until(before + 2);
      expect(await worker.state()).toMatchObject({ isReady: true, problems: [] });
    },
    60_000,
  );
});

// Proves promise 12
it('does not return a job whose lock was lost: another worker resumes the run', async () => {
  await using bench = await openWorkerBench();
  const begun = collect<string>();
  await bench.start({ newsletter: yearly }, (_, { signal }) => {
    begun.add('run');
    if (begun.values.length > 1) return Promise.resolve(ok);
    return new Promise((resolve) => {
      signal.addEventListener('abort', () => resolve(interrupted));
    });
  });
  await addNow(bench);
  await begun.until(1);
  const [job] = await bench.syncs.getJobs(['active']);
  await bench.client.del(bench.syncs.toKey(`${job?.id}:lock`));
  await begun.until(2);
  await eventually(async () => (await bench.syncs.getCompletedCount()) === 1);
  const ends = bench.events.flatMap((event) => (event.kind === 'job-ended' ? [event.end] : []));
  expect(ends).toEqual(['given-back', 'done']);
  expect((await bench.syncs.getCompleted())[0]?.attemptsMade).toBe(1);
  // Logged once, as what it is; Redis has no fault, neither in the log nor in the metrics.
  expect(bench.lines.filter(({ level }) => level !== 'info')).toEqual([
    {
      level: 'warn',
      facts: expect.objectContaining({ connector: 'newsletter' }) as object,
      message: 'lost the lock of a job: its run stopped; another worker takes it',
    },
  ]);
  expect(bench.events.filter(({ kind }) => kind === 'redis-error')).toEqual([]);
});

async function addNow(bench: WorkerBench): Promise<void> {
  await addSync(bench.syncs, { connector: newsletter, reason: 'manual', due: null }, { retryDelayMs: 100 });
}
