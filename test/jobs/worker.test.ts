import { Queue } from 'bullmq';
import { Redis } from 'ioredis';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { isConnectorName, type ConnectorName } from '../../src/core/names.ts';
import { Secret } from '../../src/core/secret.ts';
import { queueName } from '../../src/jobs/connector-job.ts';
import type { JobLog } from '../../src/jobs/job-log.ts';
import { reconcileSchedules } from '../../src/jobs/reconcile-schedules.ts';
import { runWorker } from '../../src/jobs/run-worker.ts';
import type { Schedule, Settings } from '../../src/settings/settings.ts';
import { freePort, startRedis, type PrivateRedis } from '../support/redis.ts';

type Schedules = ReadonlyMap<
  ConnectorName,
  { readonly name: ConnectorName; readonly schedule: Schedule | null }
>;

const silent: JobLog = { info: () => undefined, warn: () => undefined, error: () => undefined };
const password = 'pw-for-this-test-only';
const newsletter = nameOf('newsletter');
const wiki = nameOf('wiki');

let redis: PrivateRedis;
let client: Redis;
let queue: Queue;

beforeEach(async () => {
  redis = await startRedis({ password });
  client = new Redis(redis.url, { maxRetriesPerRequest: null });
  client.on('error', () => undefined);
  queue = new Queue(queueName, { connection: client });
  queue.on('error', () => undefined);
});

afterEach(async () => {
  client.disconnect();
  await redis.stop();
});

describe('the worker', () => {
  it('runs a connector again and again by its schedule', async () => {
    const runs = collect<ConnectorName>(2);
    const stop = new AbortController();
    const worker = runWorker({
      settings: settingsOf(schedules([newsletter, { kind: 'every', everyMs: 200 }])),
      runConnector: (name) => {
        runs.add(name);
        return Promise.resolve({ outcome: 'ok' });
      },
      signal: stop.signal,
      log: silent,
    });
    expect(await runs.complete).toEqual([newsletter, newsletter]);
    stop.abort();
    await worker;
  });

  it('never runs one connector twice at a time, and skips the ticks in between', async () => {
    const started = collect<string>(2);
    let parallel = 0;
    let most = 0;
    const finish: (() => void)[] = [];
    const stop = new AbortController();
    const skipped = collect<string>(2);
    const worker = runWorker({
      settings: settingsOf(schedules([newsletter, { kind: 'every', everyMs: 100 }])),
      runConnector: async (name) => {
        most = Math.max(most, (parallel += 1));
        started.add(name);
        await new Promise<void>((resolve) => finish.push(resolve));
        parallel -= 1;
        return { outcome: 'ok' };
      },
      signal: stop.signal,
      log: {
        ...silent,
        info: (facts) => 'outcome' in facts && facts.outcome === 'skipped' && skipped.add('tick'),
      },
    });
    await started.first;
    await skipped.complete;
    finish.shift()?.();
    await started.complete;
    expect(most).toBe(1);
    finish.forEach((resolve) => resolve());
    stop.abort();
    await worker;
  });

  it('gives an interrupted run back, so that the next worker takes it up at once', async () => {
    const settings = settingsOf(
      schedules([newsletter, { kind: 'cron', pattern: '0 0 1 1 *', timezone: 'UTC' }]),
    );
    await queue.add('now', { connector: newsletter });
    const first = new AbortController();
    const begun = collect<string>(1);
    const firstWorker = runWorker({
      settings,
      runConnector: (name, signal) =>
        new Promise((resolve) => {
          signal.addEventListener('abort', () => resolve({ outcome: 'interrupted' }), { once: true });
          begun.add(name);
        }),
      signal: first.signal,
      log: silent,
    });
    await begun.complete;
    first.abort();
    await firstWorker;

    const second = new AbortController();
    const taken = collect<string>(1);
    const secondWorker = runWorker({
      settings,
      runConnector: (name) => {
        taken.add(name);
        return Promise.resolve({ outcome: 'ok' });
      },
      signal: second.signal,
      log: silent,
    });
    expect(await taken.complete).toEqual([newsletter]);
    second.abort();
    await secondWorker;
  });

  it('says within two seconds that there is no Redis', async () => {
    const port = await freePort();
    const began = Date.now();
    const worker = runWorker({
      settings: settingsOf(new Map(), `redis://:${password}@127.0.0.1:${port}`),
      runConnector: () => Promise.resolve({ outcome: 'ok' }),
      signal: new AbortController().signal,
      log: silent,
    });
    await expect(worker).rejects.toMatchObject({
      code: 'QUEUE_UNAVAILABLE',
      message: expect.stringContaining(`127.0.0.1:${port}`) as string,
    });
    await expect(worker).rejects.not.toMatchObject({ message: expect.stringContaining(password) as string });
    expect(Date.now() - began).toBeLessThan(2500);
  });

  it('ends within its grace time when Redis has gone', async () => {
    const stop = new AbortController();
    const began = collect<string>(1);
    const worker = runWorker({
      settings: settingsOf(schedules([newsletter, { kind: 'every', everyMs: 60_000 }])),
      runConnector: (name) => {
        began.add(name);
        return Promise.resolve({ outcome: 'ok' });
      },
      signal: stop.signal,
      log: silent,
      graceMs: 500,
    });
    await began.complete;
    await redis.stop();
    const stopped = Date.now();
    stop.abort();
    await worker;
    expect(Date.now() - stopped).toBeLessThan(2000);
  });

  it('keeps no secret in Redis: a job is a connector name', async () => {
    await reconcileSchedules(queue, schedules([newsletter, { kind: 'every', everyMs: 60_000 }]));
    const [job] = await queue.getJobs(['delayed', 'waiting']);
    expect(job?.data).toEqual({ connector: 'newsletter' });
    const texts = await Promise.all((await client.keys('*')).map((key) => everythingIn(key)));
    expect(texts.length).toBeGreaterThan(3);
    expect(texts.join('\n')).not.toContain(password);
  });
});

describe('reconciling schedules', () => {
  const daily: Schedule = { kind: 'cron', pattern: '30 3 * * *', timezone: 'Europe/Berlin' };

  it('leaves a schedule alone that is already right, so that an overdue run stays overdue', async () => {
    await reconcileSchedules(queue, schedules([newsletter, daily]));
    // Overdue: the queue was not worked off when its time came.
    await client.zadd(`bull:${queueName}:repeat`, '1000', 'connector:newsletter');
    const again = await reconcileSchedules(queue, schedules([newsletter, daily]));
    expect(again).toEqual({ written: [], kept: ['newsletter'], removed: [] });
    expect((await queue.getJobScheduler('connector:newsletter'))?.next).toBe(1000);
  });

  it.each<[string, Schedule]>([
    ['pattern', { ...daily, pattern: '30 4 * * *' }],
    ['time zone', { ...daily, timezone: 'UTC' }],
    ['kind', { kind: 'every', everyMs: 60_000 }],
  ])('writes it again when its %s has changed', async (_, changed) => {
    await reconcileSchedules(queue, schedules([newsletter, daily]));
    const result = await reconcileSchedules(queue, schedules([newsletter, changed]));
    expect(result.written).toEqual(['newsletter']);
    expect(await queue.getJobSchedulersCount()).toBe(1);
  });

  it('removes the schedules of connectors that are gone, and of nobody else', async () => {
    await queue.upsertJobScheduler('somebody-else', { every: 60_000 }, { name: 'theirs', data: {} });
    await reconcileSchedules(queue, schedules([newsletter, daily], [wiki, daily]));
    const result = await reconcileSchedules(queue, schedules([wiki, daily], [newsletter, null]));
    expect(result).toEqual({ written: [], kept: ['wiki'], removed: ['newsletter'] });
    const left = (await queue.getJobSchedulers()).map((scheduler) => scheduler.key);
    expect(left.sort()).toEqual(['connector:wiki', 'somebody-else']);
  });
});

function nameOf(text: string): ConnectorName {
  if (!isConnectorName(text)) throw new Error(`${text} should be a connector name`);
  return text;
}

function schedules(...entries: readonly (readonly [ConnectorName, Schedule | null])[]): Schedules {
  return new Map(entries.map(([name, schedule]) => [name, { name, schedule }]));
}

function settingsOf(connectors: Schedules, url = redis.url): Pick<Settings, 'redis' | 'connectors'> {
  return { redis: { url: new Secret(url) }, connectors: connectors as Settings['connectors'] };
}

interface Collected<Value> {
  add(value: Value): void;
  readonly first: Promise<Value>;
  readonly complete: Promise<readonly Value[]>;
}

/** Waits for values that arrive one by one; further ones are ignored. */
function collect<Value>(size: number): Collected<Value> {
  const values: Value[] = [];
  let onFirst: (value: Value) => void = () => undefined;
  let onComplete: (values: readonly Value[]) => void = () => undefined;
  const first = new Promise<Value>((resolve) => (onFirst = resolve));
  const complete = new Promise<readonly Value[]>((resolve) => (onComplete = resolve));
  const add = (value: Value): void => {
    if (values.length === size) return;
    values.push(value);
    onFirst(value);
    if (values.length === size) onComplete(values);
  };
  return { add, first, complete };
}

async function everythingIn(key: string): Promise<string> {
  switch (await client.type(key)) {
    case 'hash':
      return JSON.stringify(await client.hgetall(key));
    case 'string':
      return (await client.get(key)) ?? '';
    case 'list':
      return (await client.lrange(key, '0', '-1')).join('\n');
    case 'zset':
      return (await client.zrange(key, '0', '-1')).join('\n');
    case 'set':
      return (await client.smembers(key)).join('\n');
    default:
      return JSON.stringify(await client.xrange(key, '-', '+'));
  }
}
