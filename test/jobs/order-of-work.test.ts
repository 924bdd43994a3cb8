import type { Job } from 'bullmq';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import {
  addBackfill,
  type Backlog,
  firesAMinute,
  openQueueSet,
  priorityOf,
} from '../../src/jobs/open-queue-set.ts';
import type { Schedule } from '../../src/settings/settings.ts';
import { systemClock } from '../../src/core/clock.ts';
import { createTickProcessor } from '../../src/jobs/start-worker.ts';
import { defaultTimings } from '../../src/jobs/worker-context.ts';
import {
  connectorsOf,
  cron,
  emptyLedger,
  every,
  isEnd,
  logInto,
  nameOf,
  ok,
  openWorkerBench,
  prefix,
  warehouse,
  windowUntil,
  type WorkerBench,
} from '../support/jobs/worker-bench.ts';

const hourMs = 3_600_000;
let bench: WorkerBench;
beforeEach(async () => {
  bench = await openWorkerBench();
});
afterEach(() => bench[Symbol.asyncDispose]());

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
          await bench.queues.enqueue(warehouse.id, nameOf('blocker'), 'manual');
        },
      },
    );
    // Each schedule has fired while the only slot was taken.
    await bench.untilEvents(({ kind }) => kind === 'tick', names.length);
    await addBackfill(bench.syncs, nameOf('history'), windowUntil(2), { retryDelayMs: 100 });
    await expect.poll(() => bench.syncs.getJobCountByTypes('prioritized')).toBe(names.length + 1);
    await bench.queues.enqueue(warehouse.id, nameOf('byhand'), 'manual');
    release();
    await bench.untilEvents(isEnd('done'), names.length + 3);
    expect(order).toEqual(['blocker', 'byhand', 'never', 'stale', 'soon', 'free', 'late', 'history']);
  });
});

describe('the backlog of a sink', () => {
  const minute = 60_000;
  /** Records that many completed jobs, one each `everyMs`, the last one just now. */
  async function ended(count: number, everyMs: number): Promise<void> {
    const now = Date.now();
    for (let at = 0; at < count; at += 1) {
      await bench.client.zadd(bench.syncs.toKey('completed'), now - at * everyMs, `job-${at}`);
    }
  }
  const wait = async (count: number): Promise<void> => {
    for (let at = 0; at < count; at += 1) {
      await bench.queues.enqueue(warehouse.id, nameOf(`c${at}`), 'manual');
    }
  };
  const backlog = (schedules: readonly Schedule[]): Promise<Backlog> =>
    bench.queues.backlog(warehouse.id, schedules);

  it('is empty if no job waits', async () => {
    expect(await backlog([every(minute)])).toMatchObject({ waiting: 0, endsInMs: 0 });
  });

  // Proves promise 12
  it('ends if more jobs are done than become due, else never', async () => {
    await wait(20);
    await ended(100, minute / 20);
    const { doneAMinute, dueAMinute, endsInMs } = await backlog(
      Array.from({ length: 10 }, () => every(minute)),
    );
    expect([Math.round(doneAMinute), dueAMinute]).toEqual([20, 10]);
    expect(endsInMs / minute).toBeCloseTo(2, 0);
    const tooMany = Array.from({ length: 30 }, () => every(minute));
    expect(await backlog(tooMany)).toMatchObject({ waiting: 20, dueAMinute: 30, endsInMs: Infinity });
  });

  it('never ends if no job was done for ten minutes', async () => {
    await wait(1);
    await bench.client.zadd(bench.syncs.toKey('completed'), Date.now() - 11 * minute, 'long-ago');
    expect(await backlog([])).toMatchObject({ waiting: 1, doneAMinute: 0, endsInMs: Infinity });
  });

  it('counts cron patterns by their slots', () => {
    const now = Date.UTC(2026, 10, 22);
    expect(firesAMinute(cron('*/5 * * * *'), now)).toBeCloseTo(0.2);
    expect(firesAMinute(cron('0 3 * * *'), now) * 24 * 60).toBeCloseTo(1, 0);
  });
});

describe('connectors that are never read because their runs fail', () => {
  it('go ahead of others by an hour at most, so that they do not starve them', async () => {
    const due = Date.now() - 2 * hourMs;
    await bench.queues.enqueue(warehouse.id, nameOf('blocker'), 'manual');
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
