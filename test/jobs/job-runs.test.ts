import { WaitingError, type Job, Queue } from 'bullmq';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { systemClock } from '../../src/core/clock.ts';
import { SyncError, ThrottledError } from '../../src/core/errors.ts';
import type { RunEvent, WorkerEvent } from '../../src/core/events.ts';
import { noCounts } from '../../src/core/records.ts';
import { createJobProcessor } from '../../src/jobs/process-job.ts';
import { addSync, addPublication } from '../../src/jobs/open-queue-set.ts';
import {
  type JobContext,
  openRunSlots,
  type RunPublication,
  type ScheduledTarget,
} from '../../src/jobs/worker-context.ts';
import {
  collect,
  eventually,
  isEnd,
  logInto,
  emptyLedger,
  newsletter,
  ok,
  openWorkerBench,
  someRun,
  warehouse,
  wiki,
  yearly,
  type WorkerBench,
  type RunConnector,
  untilAborted,
  windowUntil,
  type RunBackfill,
  prefix,
} from '../support/jobs/worker-bench.ts';
import { startScript } from '../support/run-cli.ts';
import { testProgram } from '../support/ensure-built.ts';

const secretText = 'jo@example.com was refused';
const failed = { ...ok, outcome: 'failed' };
const fromSource = { code: 'NETWORK', recovery: 'retry' } as const;

let bench: WorkerBench;

beforeEach(async () => {
  bench = await openWorkerBench();
});

afterEach(() => bench[Symbol.asyncDispose]());

it('declares three parameters, because BullMQ otherwise passes no signal', () => {
  expect(createJobProcessor({} as JobContext).length).toBe(3);
});

it('returns a job unstarted if the worker is stopping', async () => {
  const ended = AbortSignal.abort();
  const context = { stopping: ended, closing: ended, log: logInto([]), observe: () => undefined };
  const process = createJobProcessor(context as unknown as JobContext);
  const givenBack = collect<string | undefined>();
  const job = {
    data: { connector: newsletter, kind: 'sync', reason: 'manual', due: null },
    moveToWait: (token?: string) => Promise.resolve(givenBack.add(token)),
  } as unknown as Job;
  await expect(process(job, 'its-token', undefined)).rejects.toBeInstanceOf(WaitingError);
  expect(givenBack.values).toEqual(['its-token']);
});

describe('a run that fails', () => {
  it('is tried five times with growing backoff if the error may be temporary', async () => {
    const at = collect<number>();
    await runOnce(() => {
      at.add(Date.now());
      return Promise.resolve({ ...failed, error: fromSource });
    });
    await bench.untilEvents(isEnd('failed'));
    const gaps = at.values.slice(1).map((value, index) => value - (at.values[index] ?? 0));
    // 100, 200, 400 and 800 ms, each minus a jitter of up to a half.
    expect(gaps).toHaveLength(4);
    for (const [index, gap] of gaps.entries()) expect(gap).toBeGreaterThanOrEqual(50 * 2 ** index);
    expect(bench.events.filter(isEnd('retry'))).toHaveLength(4);
    await eventually(async () => (await bench.syncs.getFailedCount()) === 1);
    const [job] = await bench.syncs.getFailed();
    expect(job?.failedReason).toBe('newsletter: NETWORK');
  });

  // Proves promise 12
  it('is not retried if a person must fix the cause', async () => {
    await runOnce(() => Promise.resolve({ ...failed, error: { code: 'AUTH_FAILED', recovery: 'stop' } }));
    await bench.untilEvents(isEnd('failed'));
    expect(bench.events.filter(({ kind }) => kind === 'job-started')).toHaveLength(1);
  });

  it.each([
    ['stop', 'failed'],
    ['retry', 'retry'],
  ] as const)(
    'without a report is retried or not by the recovery of its error: %s',
    async (recovery, end) => {
      await runOnce(() => Promise.reject(new SyncError(secretText, { code: 'UPSTREAM', recovery })));
      await bench.untilEvents(isEnd(end));
    },
  );

  it('releases its deduplication key after the last attempt', async () => {
    await runOnce(() => Promise.resolve({ ...failed, error: { code: 'AUTH_FAILED', recovery: 'stop' } }));
    await bench.untilEvents(isEnd('failed'));
    await eventually(async () => (await bench.syncs.getFailedCount()) === 1);
    expect(await bench.queues.enqueue(warehouse.id, newsletter)).toMatchObject({ isNew: true });
  });

  it('stores only the code of an error in Redis', async () => {
    await runOnce(() => Promise.reject(new SyncError(secretText, { code: 'UPSTREAM', recovery: 'stop' })));
    await eventually(async () => (await bench.syncs.getFailedCount()) === 1);
    const [job] = await bench.syncs.getFailed();
    expect(job?.failedReason).toBe('newsletter: UPSTREAM');
    expect(job?.stacktrace).toEqual([]);
  });
});

describe('a job that cannot continue now', () => {
  it.each<[string, () => ReturnType<RunConnector>]>([
    ['ends early', () => Promise.resolve({ ...ok, outcome: 'partial', resumeAt: soon() })],
    ['cannot start', () => Promise.reject(new ThrottledError('come back later', 600))],
  ])('waits as long as the service asked for if the run %s, and uses no attempt', async (_, first) => {
    const at = collect<number>();
    await runOnce(() => {
      at.add(Date.now());
      return at.values.length === 1 ? first() : Promise.resolve(ok);
    });
    await at.until(2);
    await bench.untilEvents(isEnd('done'));
    expect((at.values[1] ?? 0) - (at.values[0] ?? 0)).toBeGreaterThanOrEqual(590);
    expect(bench.events.filter(isEnd('delayed'))).toHaveLength(1);
    expect(await attemptsOfTheOneCompleted()).toBe(1);
  });

  it('is retried if another process has the connector locked', async () => {
    const calls = collect<string>();
    await runOnce((name) => {
      calls.add(name);
      return calls.values.length < 3
        ? Promise.reject(new SyncError('held', { code: 'CONNECTOR_BUSY', recovery: 'stop' }))
        : Promise.resolve(ok);
    });
    await bench.untilEvents(isEnd('done'));
    expect(bench.events.filter(isEnd('busy'))).toHaveLength(2);
    expect(await attemptsOfTheOneCompleted()).toBe(1);
    expect(bench.lines.filter(({ level }) => level === 'error')).toEqual([]);
  });

  it('waits for another worker if this one does not serve the connector', async () => {
    await bench.start({ newsletter: yearly }, () => Promise.resolve(ok), { serves: (name) => name === wiki });
    await bench.queues.enqueue(warehouse.id, newsletter);
    await bench.untilEvents(isEnd('busy'), 2);
    await bench.start({ newsletter: yearly }, () => Promise.resolve(ok));
    await bench.untilEvents(isEnd('done'));
  });
});

describe('a job that starts no run', () => {
  it('completes if its connector is paused', async () => {
    const pause = { since: '2026-01-01T00:00:00.000Z', reason: 'moving' };
    const ledger = {
      ...emptyLedger,
      pause: () => Promise.resolve(pause),
      paused: () => Promise.resolve(new Set([newsletter])),
    };
    await bench.start({ newsletter: yearly }, neverCalled, { ledger });
    await bench.queues.enqueue(warehouse.id, newsletter);
    await bench.untilEvents(isEnd('paused'));
    expect(await bench.ticks.getJobSchedulersCount()).toBe(0);
  });

  it('completes if its connector is no longer configured', async () => {
    const clock = { ...systemClock, now: () => Date.now() + 16 * 60_000 };
    await bench.start({ newsletter: yearly }, neverCalled, { clock });
    await bench.queues.enqueue(warehouse.id, wiki);
    await bench.untilEvents(isEnd('unknown'));
  });

  it('waits during a deploy for a worker that knows its connector, and logs that once', async () => {
    await bench.start({ newsletter: yearly }, neverCalled);
    await bench.queues.enqueue(warehouse.id, wiki);
    await bench.untilEvents(isEnd('busy'), 5);
    expect(bench.lines.filter(({ message }) => message === 'job ended')).toHaveLength(1);
    await bench.start({ newsletter: yearly, wiki: yearly }, () => Promise.resolve(ok));
    await bench.untilEvents(isEnd('done'));
  });

  it('fails without a retry if its payload is unknown', async () => {
    await bench.start({ newsletter: yearly }, neverCalled);
    await bench.syncs.add('sync', { connector: 'newsletter', kind: 'sync', clientSecret: 'x' });
    await eventually(async () => (await bench.syncs.getFailedCount()) === 1);
    const [job] = await bench.syncs.getFailed();
    expect(job?.failedReason).toMatch(/found an unknown payload/);
  });

  it('is retried if the ledger cannot be read, with no details of the error in Redis', async () => {
    const ledger = {
      ...emptyLedger,
      pause: () =>
        bench.events.some(isEnd('retry'))
          ? Promise.resolve(null)
          : Promise.reject(new SyncError(secretText, { code: 'SINK_FAILED', recovery: 'stop' })),
    };
    await bench.start({ newsletter: null }, () => Promise.resolve(ok), { ledger });
    await addNow();
    await eventually(async () => (await bench.syncs.getCompletedCount()) === 1);
    const [job] = await bench.syncs.getCompleted();
    expect(job?.failedReason).toBe('newsletter: SINK_FAILED');
    expect(JSON.stringify(job?.asJSON())).not.toContain(secretText);
  });
});

it('completes a cancelled run, and does not retry it', async () => {
  await runOnce(() => Promise.resolve({ ...ok, outcome: 'interrupted' }));
  await bench.untilEvents(isEnd('done'));
  await eventually(async () => (await bench.syncs.getCompletedCount()) === 1);
  expect((await bench.syncs.getCompleted())[0]?.returnvalue).toEqual({ outcome: 'cancelled' });
});

it('keeps nothing of a run in its job, except that it ended without a crash', async () => {
  const events: readonly RunEvent[] = [
    { kind: 'run-started', connector: newsletter, run: someRun, continues: null, due: 1 },
    {
      kind: 'page-committed',
      params: {},
      entity: 'lists' as never,
      counts: { ...noCounts, fetched: 10, inserted: 7, unchanged: 3 },
      newlyDue: 0,
      bytes: 1,
    },
    {
      kind: 'walk-set-aside',
      entity: 'members' as never,
      params: { listId: 'secret-list' },
      code: 'FORBIDDEN',
      message: secretText,
    },
    { kind: 'throttled', waitMs: 1000 },
    { kind: 'run-finished', connector: newsletter, run: someRun, outcome: 'degraded', ms: 1, waitedMs: 0 },
  ];
  await runOnce((_, { onEvent }) => {
    for (const event of events) onEvent(event);
    return Promise.resolve({ ...ok, outcome: 'degraded' });
  });
  await eventually(async () => (await bench.syncs.getCompletedCount()) === 1);
  const [job] = await bench.syncs.getCompleted();
  expect(job?.progress).toEqual({ starts: 0 });
  const { logs } = await bench.syncs.getJobLogs(job?.id ?? '');
  expect(logs).toEqual([]);
});

async function runOnce(runConnector: RunConnector): Promise<void> {
  await bench.start({ newsletter: yearly }, runConnector);
  await addNow();
}

async function addNow(): Promise<void> {
  await addSync(bench.syncs, { connector: newsletter, reason: 'manual', due: null }, { retryDelayMs: 100 });
}

async function attemptsOfTheOneCompleted(): Promise<number | undefined> {
  await eventually(async () => (await bench.syncs.getCompletedCount()) === 1);
  return (await bench.syncs.getCompleted())[0]?.attemptsMade;
}

function soon(): string {
  return new Date(Date.now() + 600).toISOString();
}

const neverCalled: RunConnector = () => Promise.reject(new Error('must not be called'));

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
        void bench.queues.enqueue(warehouse.id, newsletter).then(({ isNew }) => enqueued.add(isNew));
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

describe('publications', () => {
  let publications: Queue;
  beforeEach(() => {
    publications = new Queue(`publications-${warehouse.id}`, { connection: bench.client, prefix });
  });

  const target = (name: string, when: ScheduledTarget['when']): ScheduledTarget => ({
    name,
    when,
    connectors: [newsletter, wiki].map((connector) => ({ name: connector, sink: { name: warehouse.name } })),
  });
  const lake = target('lake', { kind: 'after-sync' });
  const schedules = { newsletter: yearly, wiki: yearly };
  const syncs = (): Promise<typeof ok> => Promise.resolve(ok);
  const published =
    (end: string): ((event: WorkerEvent) => boolean) =>
    (event) =>
      event.kind === 'publication-ended' && event.end === end;
  /** Asks again while the connector's previous job is about to end, because the queue would take both for one. */
  const sync = (connector: typeof newsletter): Promise<void> =>
    eventually(async () => (await bench.queues.enqueue(warehouse.id, connector)).isNew);

  /** Publications that end when the test says so. */
  function heldPublications(): {
    readonly publish: RunPublication;
    readonly begun: ReturnType<typeof collect<string>>;
    readonly release: () => void;
  } {
    const begun = collect<string>();
    const waiting: (() => void)[] = [];
    return {
      begun,
      release: () => waiting.shift()?.(),
      publish: (name, signal) =>
        new Promise((resolve, reject) => {
          waiting.push(() => resolve('published'));
          signal.addEventListener('abort', () => reject(signal.reason), { once: true });
          begun.add(name);
        }),
    };
  }

  describe('publications after syncs', () => {
    // Proves promise 20.9
    it('are one for all syncs that ended before it, and one more for those that end during it', async () => {
      const { publish, begun, release } = heldPublications();
      const more = { targets: [lake, target('hand', { kind: 'by-hand' })], publish };
      await bench.start(schedules, syncs, more);
      await sync(newsletter);
      await begun.until(1);
      for (const connector of [wiki, newsletter, wiki, newsletter]) await sync(connector);
      await bench.untilEvents(isEnd('done'), 5);
      // A sync asks for its publication after its event, before its job ends.
      await eventually(async () => (await bench.syncs.getActiveCount()) === 0);
      expect(begun.values).toEqual(['lake']);
      release();
      await begun.until(2);
      release();
      await bench.untilEvents(published('done'), 2);
      await eventually(
        async () => (await publications.getJobCountByTypes('waiting', 'active', 'delayed')) === 0,
      );
      expect(begun.values).toEqual(['lake', 'lake']);
    });

    // Proves promise 20.9
    it('hold no connector: syncs continue while a target is slow', async () => {
      const { publish, begun, release } = heldPublications();
      await bench.start(schedules, syncs, { targets: [lake], publish, concurrency: 1 });
      await sync(newsletter);
      await begun.until(1);
      await sync(newsletter);
      await bench.untilEvents(isEnd('done'), 2);
      release();
      await begun.until(2);
      release();
    });

    it('need no slot of runs, and wait while the sink is away', async () => {
      let found: string | null = null;
      const makers = collect<string>();
      const publish = (name: string): Promise<string> => {
        makers.add(name);
        return Promise.resolve('published');
      };
      const ledger = { ...emptyLedger, lost: () => Promise.resolve(found) };
      const begun = collect<string>();
      const run = untilAborted(() => begun.add('run'));
      const more = {
        targets: [lake],
        publish,
        ledger,
        slots: openRunSlots(1),
        timings: { sinkWatchMs: 50, slotPatienceMs: 50 },
      };
      await bench.start(schedules, run, more);
      await sync(newsletter);
      await sync(wiki);
      await begun.until(1);
      await bench.untilEvents(isEnd('given-back'));
      await addPublication(publications, 'lake', { retryDelayMs: 100 });
      await makers.until(1);
      found = 'moved';
      await eventually(() => Promise.resolve(bench.lines.some(({ level }) => level === 'error')));
      await addPublication(publications, 'lake', { retryDelayMs: 100 });
      found = null;
      await makers.until(2);
    });

    it('follow no sync that failed', async () => {
      const begun = collect<string>();
      const publish = (name: string): Promise<string> => {
        begun.add(name);
        return Promise.resolve('published');
      };
      const failed = {
        ...ok,
        outcome: 'failed',
        error: { code: 'AUTH_FAILED', recovery: 'stop' },
      } as const;
      const run = (name: string) => Promise.resolve(name === newsletter ? failed : ok);
      await bench.start(schedules, run, { targets: [lake], publish });
      await sync(newsletter);
      await bench.untilEvents(isEnd('failed'));
      expect(await publications.getJobCountByTypes('waiting', 'active', 'completed')).toBe(0);
      await sync(wiki);
      await bench.untilEvents(published('done'));
      expect(begun.values).toEqual(['lake']);
    });

    it('that fail are retried, unless that cannot help; the next sync asks again', async () => {
      const causes: SyncError[] = [
        new SyncError('the disk is full', { code: 'TARGET_FAILED', recovery: 'retry' }),
        new SyncError('the target is ahead', { code: 'TARGET_AHEAD', recovery: 'stop' }),
      ];
      const publish = (): Promise<string> => {
        const cause = causes.shift();
        return cause === undefined ? Promise.resolve('published') : Promise.reject(cause);
      };
      await bench.start(schedules, syncs, { targets: [lake], publish });
      await sync(newsletter);
      await bench.untilEvents(published('failed'));
      expect(bench.events.filter(published('retry'))).toHaveLength(1);
      await eventually(async () => (await publications.getFailedCount()) === 1);
      const [job] = await publications.getFailed();
      expect(job?.failedReason).toBe('publish-lake: TARGET_AHEAD');
      await sync(wiki);
      await bench.untilEvents(published('done'));
      expect(causes).toEqual([]);
    });

    it('go back to the queue when the worker stops, and are made by the next one without an attempt used', async () => {
      const { publish, begun } = heldPublications();
      const worker = await bench.start(schedules, syncs, { targets: [lake], publish });
      await sync(newsletter);
      await begun.until(1);
      await worker.stop();
      expect(bench.events.filter(published('given-back')).length).toBeGreaterThanOrEqual(1);
      const [job] = await publications.getJobs(['waiting', 'active', 'delayed', 'failed']);
      expect({ state: await job?.getState(), attempts: job?.attemptsMade }).toEqual({
        state: 'waiting',
        attempts: 0,
      });
      await bench.start(schedules, syncs, { targets: [lake], publish: () => Promise.resolve('published') });
      await bench.untilEvents(published('done'));
    });

    it('are asked for again when Redis did not take them', async () => {
      const makers = collect<string>();
      const publish = (name: string): Promise<string> => {
        makers.add(name);
        return Promise.resolve('published');
      };
      await bench.start(schedules, syncs, { targets: [lake], publish, timings: { reconcileMs: 200 } });
      // Another type of value under the key makes every add fail, and nothing else.
      const key = `${prefix}:publications-${warehouse.id}:de:lake`;
      await bench.client.lpush(key, 'x');
      await sync(newsletter);
      await bench.untilEvents(isEnd('done'));
      await bench.untilEvents(({ kind }) => kind === 'redis-error');
      expect(makers.values).toEqual([]);
      await bench.client.del(key);
      await makers.until(1);
    });
  });

  describe('a worker that is killed while it publishes', () => {
    const timings = { lockMs: 500, stalledMs: 200 };

    // Proves promise 20.9
    it('is followed by the next one', async () => {
      const script = testProgram('jobs/killed-publication-process.mjs');
      await sync(newsletter);
      const { stdout } = await startScript([script, bench.redis.url], process.cwd()).result;
      expect(stdout).toBe('begun\n');
      const { publish, begun, release } = heldPublications();
      await bench.start(schedules, syncs, { targets: [lake], publish, timings });
      await begun.until(1);
      release();
      await bench.untilEvents(published('done'));
    });

    it('is followed by none after three such starts, until the next sync asks again', async () => {
      const { id } = await addPublication(publications, 'lake', { retryDelayMs: 100 });
      const job = await publications.getJob(id);
      await job?.updateProgress({ starts: 3 });
      const publish = (): Promise<string> => Promise.resolve('published');
      await bench.start(schedules, syncs, { targets: [lake], publish, timings });
      await bench.untilEvents(published('poison'));
      await eventually(async () => (await publications.getFailedCount()) === 1);
      expect((await publications.getJob(id))?.failedReason).toBe('publish-lake: POISON');
      await sync(wiki);
      await bench.untilEvents(published('done'));
    });
  });

  describe('publications on a schedule', () => {
    const hourly = target('mart', { kind: 'every', everyMs: 300 });

    it('are made so often by a worker, until the config says otherwise', async () => {
      const begun = collect<string>();
      const publish = (name: string): Promise<string> => {
        begun.add(name);
        return Promise.resolve('unchanged');
      };
      const worker = await bench.start(schedules, syncs, { targets: [hourly], publish });
      await begun.until(3);
      expect((await bench.ticks.getJobSchedulers()).map(({ key }) => key).toSorted()).toEqual([
        'publish:w1:mart',
        'w1:newsletter',
        'w1:wiki',
      ]);
      await worker.stop();
      await bench.start(schedules, syncs, { targets: [target('mart', { kind: 'by-hand' })], publish });
      expect((await bench.ticks.getJobSchedulers()).map(({ key }) => key).toSorted()).toEqual([
        'w1:newsletter',
        'w1:wiki',
      ]);
    });

    it('are left to the config that was started last', async () => {
      const publish = (): Promise<string> => Promise.resolve('unchanged');
      const everyHour = target('mart', { kind: 'every', everyMs: 3_600_000 });
      const timings = { reconcileMs: 100 };
      const old = await bench.start(schedules, syncs, { targets: [everyHour], publish, timings });
      await bench.start(schedules, syncs, { targets: [], publish, timings });
      await eventually(async () => !(await old.state()).isReady);
      expect((await bench.ticks.getJobSchedulers()).map(({ key }) => key)).not.toContain('publish:w1:mart');
    });
  });
});
