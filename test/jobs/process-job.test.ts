import { WaitingError, type Job } from 'bullmq';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { systemClock } from '../../src/core/clock.ts';
import { SyncError, ThrottledError } from '../../src/core/errors.ts';
import type { RunEvent } from '../../src/core/events.ts';
import { noCounts } from '../../src/core/records.ts';
import { createJobProcessor } from '../../src/jobs/process-job.ts';
import { addSync } from '../../src/jobs/open-queue-set.ts';
import type { JobContext } from '../../src/jobs/worker-context.ts';
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
} from '../support/jobs/worker-bench.ts';

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
    expect(await bench.queues.enqueue(warehouse.id, newsletter, 'manual')).toMatchObject({ isNew: true });
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
    await bench.queues.enqueue(warehouse.id, newsletter, 'manual');
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
    await bench.queues.enqueue(warehouse.id, newsletter, 'manual');
    await bench.untilEvents(isEnd('paused'));
    expect(await bench.ticks.getJobSchedulersCount()).toBe(0);
  });

  it('completes if its connector is no longer configured', async () => {
    const clock = { ...systemClock, now: () => Date.now() + 16 * 60_000 };
    await bench.start({ newsletter: yearly }, neverCalled, { clock });
    await bench.queues.enqueue(warehouse.id, wiki, 'manual');
    await bench.untilEvents(isEnd('unknown'));
  });

  it('waits during a deploy for a worker that knows its connector, and logs that once', async () => {
    await bench.start({ newsletter: yearly }, neverCalled);
    await bench.queues.enqueue(warehouse.id, wiki, 'manual');
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

it('shows the progress of a run, with names, codes and numbers only', async () => {
  const secretParams = { listId: 'secret-list' };
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
      params: secretParams,
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
  expect(job?.progress).toMatchObject({ starts: 0, pages: 1, records: 10, written: 7, entity: 'lists' });
  const { logs } = await bench.syncs.getJobLogs(job?.id ?? '');
  expect(logs.map((line) => line.replace(/^\S+Z /, ''))).toEqual([
    'run 01-run started',
    'members: a partition was set aside (FORBIDDEN)',
    'throttled for 1000 ms',
    'run 01-run finished: degraded',
  ]);
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
