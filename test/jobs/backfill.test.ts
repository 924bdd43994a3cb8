import { afterEach, beforeEach, expect, it } from 'vitest';
import {
  collect,
  eventually,
  isEnd,
  newsletter,
  ok,
  openWorkerBench,
  untilAborted,
  warehouse,
  windowUntil,
  yearly,
  type WorkerBench,
  type RunBackfill,
} from '../support/jobs/worker-bench.ts';

let bench: WorkerBench;

beforeEach(async () => {
  bench = await openWorkerBench();
});

afterEach(() => bench[Symbol.asyncDispose]());

/** Runs windows until it should yield, or `windows` are done in total. */
function inWindows(windows: number, onWindow: (done: number) => void): RunBackfill {
  let done = 0;
  return async (_, __, { shouldYield, signal }) => {
    while (done < windows && !signal.aborted) {
      onWindow((done += 1));
      await new Promise((resolve) => {
        setImmediate(resolve);
      });
      if (await shouldYield()) break;
    }
    return { ...ok, isDone: done === windows };
  };
}

// Proves promise 12
it('yields to a sync of its connector between windows, then resumes without using an attempt', async () => {
  const order: string[] = [];
  const enqueued = collect<boolean>();
  await bench.start(
    { newsletter: yearly },
    () => {
      order.push('sync');
      return Promise.resolve(ok);
    },
    {
      runBackfill: inWindows(2000, (done) => {
        order.push('window');
        if (done !== 3) return;
        void bench.queues
          .enqueue(warehouse.id, newsletter, 'manual')
          .then(({ isNew }) => enqueued.add(isNew));
      }),
    },
  );
  expect(await bench.queues.enqueueBackfill(warehouse.id, newsletter, windowUntil(2))).toMatchObject({
    isNew: true,
  });
  expect(await bench.queues.enqueueBackfill(warehouse.id, newsletter, windowUntil(3))).toMatchObject({
    isNew: false,
  });
  expect(await enqueued.until(1)).toEqual([true]);
  await bench.untilEvents(isEnd('done'), 2);
  const before = order.indexOf('sync');
  expect(before).toBeGreaterThan(2);
  expect(order.slice(before + 1)).toContain('window');
  expect(order.filter((one) => one === 'window')).toHaveLength(2000);
  expect(bench.events.filter(isEnd('delayed'))).toHaveLength(1);
  expect(bench.events.filter((event) => event.kind === 'job-started')).toMatchObject([
    { reason: 'backfill' },
    { reason: 'manual' },
    { reason: 'backfill' },
  ]);
});

it('ends after its current window when cancelled, and is not retried', async () => {
  let windows = 0;
  const cancelled = collect<boolean>();
  await bench.start({ newsletter: yearly }, () => Promise.resolve(ok), {
    runBackfill: inWindows(1_000_000, (done) => {
      windows = done;
      if (done === 3) void bench.queues.cancelBackfill(warehouse.id, newsletter).then(cancelled.add);
    }),
  });
  await bench.queues.enqueueBackfill(warehouse.id, newsletter, windowUntil(2));
  expect(await cancelled.until(1)).toEqual([true]);
  await bench.untilEvents(isEnd('done'));
  await eventually(async () => (await bench.syncs.getCompletedCount()) === 1);
  expect((await bench.syncs.getCompleted())[0]?.returnvalue).toEqual({ outcome: 'cancelled' });
  expect(windows).toBeLessThan(1_000_000);
  expect(await bench.queues.cancelBackfill(warehouse.id, newsletter)).toBe(false);
});

it('is removed when cancelled before it started', async () => {
  await bench.queues.enqueueBackfill(warehouse.id, newsletter, windowUntil(2));
  expect(await bench.queues.cancelBackfill(warehouse.id, newsletter)).toBe(true);
  expect(await bench.syncs.getJobCountByTypes('waiting', 'prioritized', 'delayed')).toBe(0);
  expect(await bench.queues.enqueueBackfill(warehouse.id, newsletter, windowUntil(3))).toMatchObject({
    isNew: true,
  });
});

it('goes back to the queue when the worker stops, and keeps its deduplication key', async () => {
  const begun = collect<string>();
  const run = untilAborted(() => begun.add('backfill'));
  const worker = await bench.start({ newsletter: yearly }, () => Promise.resolve(ok), {
    runBackfill: async (_, connector, request) => ({ ...(await run(connector, request)), isDone: false }),
  });
  await bench.queues.enqueueBackfill(warehouse.id, newsletter, windowUntil(2));
  await begun.until(1);
  await worker.stop();
  expect(await bench.queues.enqueueBackfill(warehouse.id, newsletter, windowUntil(3))).toMatchObject({
    isNew: false,
  });
  const [job] = await bench.syncs.getJobs(['prioritized']);
  expect(job).toMatchObject({ attemptsMade: 0, data: { backfill: windowUntil(2) } });
});
