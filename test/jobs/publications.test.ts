import { Queue } from 'bullmq';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { SyncError } from '../../src/core/errors.ts';
import type { WorkerEvent } from '../../src/core/events.ts';
import { addPublication } from '../../src/jobs/open-queue-set.ts';
import { openRunSlots } from '../../src/jobs/run-slots.ts';
import type { ScheduledTarget, RunPublication } from '../../src/jobs/worker-context.ts';
import { startScript } from '../support/run-cli.ts';
import {
  collect,
  emptyLedger,
  eventually,
  isEnd,
  newsletter,
  ok,
  openWorkerBench,
  prefix,
  untilAborted,
  warehouse,
  wiki,
  yearly,
  type WorkerBench,
} from '../support/jobs/worker-bench.ts';
import { testProgram } from '../support/ensure-built.ts';

let bench: WorkerBench;
let publications: Queue;

beforeEach(async () => {
  bench = await openWorkerBench();
  publications = new Queue(`publications-${warehouse.id}`, { connection: bench.client, prefix });
});

afterEach(() => bench[Symbol.asyncDispose]());

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
  eventually(async () => (await bench.queues.enqueue(warehouse.id, connector, 'manual')).isNew);

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
    await bench.untilEvents(published('failed'));
    await eventually(async () => (await publications.getFailedCount()) === 1);
    expect((await publications.getJob(id))?.failedReason).toBe('publish-lake: POISON');
    const failures = await bench.queues.publicationFailures([warehouse.id]);
    expect([...failures].map(([key, { code }]) => [key, code])).toEqual([[`${warehouse.id}:lake`, 'POISON']]);
    await sync(wiki);
    await bench.untilEvents(published('done'));
    await eventually(async () => (await bench.queues.publicationFailures([warehouse.id])).size === 0);
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
