import { hostname } from 'node:os';
import { setTimeout as pause } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Queue } from 'bullmq';
import { once } from 'node:events';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { Secret } from '../../src/core/secret.ts';
import { sinksKey, addSync } from '../../src/jobs/open-queue-set.ts';
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
  nameOf,
  logInto,
  type BenchLine,
} from '../support/jobs/worker-bench.ts';
import { redisContents } from '../support/redis-contents.ts';
import { freePort } from '../support/redis.ts';
import type { Settings } from '../../src/settings/settings.ts';
import { openRunSlots } from '../../src/jobs/worker-context.ts';
import type { RunEvent } from '../../src/core/events.ts';
import { noCounts } from '../../src/core/records.ts';
import { startScript } from '../support/run-cli.ts';
import { testProgram } from '../support/ensure-built.ts';
import { errorKind, gateErrors } from '../../src/jobs/connect-redis.ts';
import { instantClock } from '../support/instant-clock.ts';

let bench: WorkerBench;

beforeEach(async () => {
  bench = await openWorkerBench();
});

afterEach(() => bench[Symbol.asyncDispose]());

it('enqueues a connector once, and returns the state of its job', async () => {
  const enqueue = (): Promise<unknown> => bench.queues.enqueue(warehouse.id, newsletter);
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
  const calls: readonly (() => Promise<unknown>)[] = [
    () => bench.queues.enqueue(warehouse.id, newsletter),
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
  await bench.queues.enqueue(warehouse.id, newsletter);
  await bench.client.call('CLIENT', 'PAUSE', '6000');
  await expect(calls[0]?.()).rejects.toMatchObject({ code: 'QUEUE_UNAVAILABLE' });
  await bench.redis.kill();
  await allRefuse();
});

describe('sinks', () => {
  const daily = cron('30 3 * * *');
  const elsewhere = { id: 'w0', host: 'another-host', place: '/mnt/warehouse.db' };

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
      await bench.queues.enqueue('w0', newsletter);
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
  describe('a worker that stops', () => {
    it('returns its jobs without using an attempt, so that the next worker resumes them at once', async () => {
      const schedules = { newsletter: yearly, wiki: yearly };
      const begun = collect<string>();
      const first = await bench.start(
        schedules,
        untilAborted(() => begun.add('run')),
      );
      await bench.queues.enqueue(warehouse.id, newsletter);
      await bench.queues.enqueue(warehouse.id, wiki);
      await begun.until(2);
      await first.stop();
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
      await bench.queues.enqueue(warehouse.id, newsletter);
      await begun.until(1);
      await eventually(async () => (await worker.state()).depth[0]?.active === 1);
      await worker.stop();
      expect(begun.values).toHaveLength(1);
      expect(await bench.queues.enqueue(warehouse.id, newsletter)).toEqual({
        isNew: false,
        state: 'waiting',
      });
    });

    it('takes no more jobs and may be stopped twice', async () => {
      const worker = await bench.start({ newsletter: yearly }, () => Promise.resolve(ok));
      await Promise.all([worker.stop(), worker.stop()]);
      await bench.queues.enqueue(warehouse.id, newsletter);
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
      await bench.queues.enqueue(warehouse.id, newsletter);
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
    await bench.queues.enqueue(warehouse.id, newsletter);
    await begun.until(1);
    await bench.queues.enqueue(warehouse.id, wiki);
    expect(await worker.state()).toEqual({
      isReady: true,
      problems: [],
      depth: [{ sink: 'warehouse', waiting: 1, delayed: 0, active: 1, failed: 0 }],
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

const never = new AbortController().signal;

describe('run slots', () => {
  it('go to the run with the lowest priority first, up to the limit', async () => {
    const slots = openRunSlots(1);
    const order: string[] = [];
    const first = await slots.take({ priority: 5, patienceMs: 60_000, signal: never });
    const others = [9, 0, 3].map(async (priority) => {
      using _slot = await slots.take({ priority, patienceMs: 60_000, signal: never });
      order.push(`priority ${priority}`);
    });
    expect([slots.isFull(), order]).toEqual([true, []]);
    first?.[Symbol.dispose]();
    await Promise.all(others);
    expect(order).toEqual(['priority 0', 'priority 3', 'priority 9']);
  });

  it('end a wait after its patience or an abort, and call onFree when no run waits', async () => {
    let freed = 0;
    const slots = openRunSlots(1);
    slots.onFree(() => (freed += 1), never);
    const held = await slots.take({ priority: 0, patienceMs: 1, signal: never });
    expect(await slots.take({ priority: 0, patienceMs: 1, signal: never })).toBeNull();
    expect(await slots.take({ priority: 0, patienceMs: 60_000, signal: AbortSignal.abort() })).toBeNull();
    const stopping = new AbortController();
    const waiting = slots.take({ priority: 0, patienceMs: 60_000, signal: stopping.signal });
    stopping.abort();
    expect([await waiting, freed]).toEqual([null, 0]);
    const next = slots.take({ priority: 0, patienceMs: 60_000, signal: never });
    held?.[Symbol.dispose]();
    const taken = await next;
    expect([freed, slots.isFull()]).toEqual([0, true]);
    taken?.[Symbol.dispose]();
    await expect.poll(() => [freed, slots.isFull()]).toEqual([1, false]);
  });
});

describe('a worker with fewer slots than its sinks could use', () => {
  const lake = { name: 'lake', id: 'l1', place: '/data/lake.db' };
  const names = ['a', 'b', 'c', 'd'].map(nameOf);
  const settings = (): Pick<Settings, 'redis' | 'connectors'> => {
    const known = bench.settings(Object.fromEntries(names.map((name) => [name, null])));
    const connectors = [...known.connectors].map(([name, connector], index) => [
      name,
      { ...connector, sink: { name: index < 2 ? warehouse.name : lake.name } },
    ]);
    return { ...known, connectors: new Map(connectors as never) };
  };
  const askForAll = async (): Promise<void> => {
    for (const [index, name] of names.entries()) {
      await bench.queues.enqueue(index < 2 ? warehouse.id : lake.id, name);
    }
  };

  it('runs up to the limit at a time, and in the end all of them', async () => {
    let [running, most] = [0, 0];
    const ended = collect<string>();
    await bench.start(
      {},
      async (name) => {
        running += 1;
        most = Math.max(most, running);
        // Long enough that a job of the other sink is taken and waits for a slot.
        await eventually(async () => (await bench.syncs.getJobCounts('waiting'))['waiting'] === 0);
        running -= 1;
        ended.add(name);
        return ok;
      },
      {
        settings: settings(),
        sinks: [warehouse, lake],
        concurrency: 2,
        slots: openRunSlots(1),
        beforeJobs: askForAll,
      },
    );
    expect([...(await ended.until(4))].sort()).toEqual(['a', 'b', 'c', 'd']);
    expect(most).toBe(1);
  });

  it('returns jobs that it cannot start to another worker, and takes jobs again when a slot is free', async () => {
    const lakeJobs = new Queue(`syncs-${lake.id}`, { connection: bench.client, prefix });
    let release = (): void => undefined;
    const released = new Promise<void>((resolve) => (release = resolve));
    const [here, there] = [collect<string>(), collect<string>()];
    const options = { settings: settings(), sinks: [warehouse, lake], timings: { slotPatienceMs: 100 } };
    await bench.start(
      {},
      async (name) => {
        here.add(name);
        await released;
        return ok;
      },
      { ...options, slots: openRunSlots(1) },
    );
    await bench.queues.enqueue(warehouse.id, nameOf('a'));
    await here.until(1);
    await bench.queues.enqueue(lake.id, nameOf('c'));
    await bench.untilEvents((event) => event.kind === 'job-ended' && event.end === 'given-back');
    const [job] = await lakeJobs.getJobs(['waiting', 'active']);
    expect(job?.attemptsMade).toBe(0);

    const other = await bench.start({}, (name) => Promise.resolve(there.add(name)).then(() => ok), options);
    expect(await there.until(1)).toEqual(['c']);
    await other.stop();
    await bench.queues.enqueue(lake.id, nameOf('d'));
    release();
    expect(await here.until(2)).toEqual(['a', 'd']);
    await lakeJobs.close();
  });
});

// Proves promise 12
it('takes jobs again after its connections broke without an error', async () => {
  const proxy = await openRedisProxy(bench.redis.port);
  const settings = bench.settings({ newsletter: yearly });
  const url = new Secret(`redis://:${password}@127.0.0.1:${proxy.port}`);
  await bench.start({ newsletter: yearly }, () => Promise.resolve(ok), {
    settings: { ...settings, redis: { ...settings.redis, url } },
    timings: { drainDelayS: 1 },
    graceMs: 500,
  });
  await addNow(newsletter);
  await bench.untilEvents(isEnd('done'));
  proxy.freezeWorkers();
  await addNow(newsletter);
  await bench.untilEvents(isEnd('done'), 2);
  proxy.close();
});

async function addNow(connector: typeof newsletter): Promise<void> {
  await addSync(bench.syncs, { connector, reason: 'manual', due: null }, { retryDelayMs: 100 });
}

/** A proxy to Redis that can silence connections without closing them, like a firewall that dropped their state. */
interface RedisProxy {
  readonly port: number;
  /** Drops all traffic of connections that ever took a job or waited for one. */
  freezeWorkers(): void;
  close(): void;
}

async function openRedisProxy(redisPort: number): Promise<RedisProxy> {
  const sockets = new Set<Socket>();
  const workers = new Set<Socket>();
  const frozen = new Set<Socket>();
  const server: Server = createServer((inner) => {
    const outer = connect(redisPort, '127.0.0.1');
    for (const socket of [inner, outer]) {
      sockets.add(socket);
      socket.on('error', () => undefined);
      socket.on('close', () => socket === inner && outer.destroy());
    }
    inner.on('data', (data) => {
      // A connection that takes jobs runs a script with a lock duration, or waits for a marker. BZPOPMIN alone proves
      // nothing: every connection tries it once when the rights are checked.
      if (/bzpopmin\r\n\$\d+\r\n[^{\r]+:marker|lockDuration/i.test(data.toString('latin1'))) {
        workers.add(inner);
      }
      if (!frozen.has(inner)) outer.write(data);
    });
    outer.on('data', (data) => {
      if (!frozen.has(inner)) inner.write(data);
    });
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('the server has no TCP port');
  return {
    port: address.port,
    freezeWorkers: () => {
      for (const socket of workers) frozen.add(socket);
    },
    close: () => {
      for (const socket of sockets) socket.destroy();
      server.close();
    },
  };
}

const script = testProgram('jobs/poison-process.mjs');
const poison = nameOf('poison');

// Proves promise 12
it('fails a job that crashed its process three times, while other connectors continue', async () => {
  await addNow(poison);
  await addNow(newsletter);
  let begun = '';
  const over = eventually(async () => {
    const { failed = 0, completed = 0 } = await bench.syncs.getJobCounts('failed', 'completed');
    return failed + completed === 2;
  }).then(() => true);
  // A supervisor restarts it.
  for (let isOver = false; !isOver;) {
    const { child, result } = startScript([script, bench.redis.url], process.cwd());
    isOver = await Promise.race([result.then(() => false), over]);
    child.kill('SIGKILL');
    begun += (await result).stdout;
  }
  expect(begun.match(/begun poison/g)).toHaveLength(3);
  expect(begun).toContain('begun newsletter');
  const [job] = await bench.syncs.getFailed();
  expect(job?.failedReason).toBe('poison: POISON');
  expect(await bench.syncs.getCompletedCount()).toBe(1);
}, 60_000);

it('does not count starts that stored a page or ended without a crash', async () => {
  const page: RunEvent = {
    kind: 'page-committed',
    params: {},
    entity: 'lists' as never,
    counts: noCounts,
    newlyDue: 0,
    bytes: 1,
  };
  await addNow(newsletter);
  let starts: unknown[] = [];
  await bench.start({ newsletter: yearly }, async (_, { onEvent }) => {
    starts = [...starts, await storedStarts()];
    onEvent(page);
    await eventually(async () => (await storedStarts()) === 0);
    const failed = { ...ok, outcome: 'failed' };
    return starts.length < 5 ? { ...failed, error: { code: 'NETWORK', recovery: 'retry' } } : ok;
  });
  await bench.untilEvents(isEnd('done'));
  expect(starts).toEqual([1, 1, 1, 1, 1]);
});

async function storedStarts(): Promise<unknown> {
  const [job] = await bench.syncs.getJobs(['active']);
  return (job?.progress as { starts?: unknown } | undefined)?.starts;
}

it('logs a kind of error once in 30 s, then with the number of suppressed ones', () => {
  const lines: BenchLine[] = [];
  const clock = instantClock();
  const gate = gateErrors(logInto(lines), clock);
  for (let index = 0; index < 1000; index += 1) gate(new Error(`OOM command not allowed (${index})`));
  gate(new Error('NOAUTH Authentication required'));
  expect(lines).toHaveLength(2);
  clock.advance(30_000);
  gate(new Error('OOM command not allowed'));
  expect(lines[2]?.facts).toMatchObject({ kind: 'OOM', repeated: 999 });
});

it('does not log commands that failed because of a connection failure logged before', () => {
  const lines: BenchLine[] = [];
  const clock = instantClock();
  const gate = gateErrors(logInto(lines), clock);
  const refused = (): void =>
    gate(new Error("Stream isn't writeable and enableOfflineQueue options is false"));
  gate(Object.assign(new Error('connect ECONNREFUSED 127.0.0.1:6379'), { code: 'ECONNREFUSED' }));
  refused();
  expect(lines).toMatchObject([{ facts: { kind: 'ECONNREFUSED' } }]);
  clock.advance(30_000);
  refused();
  expect(lines).toHaveLength(2);
});

it.each([
  ["OOM command not allowed when used memory > 'maxmemory'. script: f00", 'OOM'],
  [
    "ERR Error running script (call to f_4b6): @user_script:36: @user_script: 36: -OOM command not allowed when used memory > 'maxmemory'.",
    'OOM',
  ],
  [
    "ERR Error running script (call to f_4b6): @user_script:1: @user_script: 1: -READONLY You can't write against a read only replica.",
    'READONLY',
  ],
  ['ERR unknown command', 'ERR'],
])('finds the error code in the messages of every Redis version: %s', (message, kind) => {
  expect(errorKind(new Error(message))).toBe(kind);
});
