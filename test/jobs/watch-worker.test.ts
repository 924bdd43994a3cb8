import { once } from 'node:events';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Secret } from '../../src/core/secret.ts';
import { addSync } from '../../src/jobs/open-queue-set.ts';
import {
  collect,
  isEnd,
  newsletter,
  ok,
  openWorkerBench,
  password,
  untilAborted,
  wiki,
  yearly,
  type WorkerBench,
} from '../support/jobs/worker-bench.ts';

let bench: WorkerBench;
let proxy: RedisProxy;

beforeEach(async () => {
  bench = await openWorkerBench();
  proxy = await openRedisProxy(bench.redis.port);
});

afterEach(async () => {
  proxy.close();
  await bench[Symbol.asyncDispose]();
});

describe('the watchdog', () => {
  // Proves promise 12
  it('ends a worker whose connections broke without an error while jobs wait', async () => {
    const worker = await bench.start({ newsletter: yearly }, () => Promise.resolve(ok), {
      settings: overRoad({ newsletter: yearly }),
      timings: { watchdogMs: 500 },
      graceMs: 500,
    });
    await addNow(newsletter);
    await bench.untilEvents(isEnd('done'));
    // Only the connection for queries stays open: Redis answers, but no job is taken.
    proxy.freezeWorkers();
    await addNow(wiki);
    await expect(worker.ended).rejects.toMatchObject({
      code: 'WORKER_STUCK',
      message: expect.stringMatching(
        /^The worker is stuck: Redis answers and jobs wait \(1\), but it took none for /,
      ) as string,
    });
    expect((await worker.state()).problems).toEqual([expect.stringContaining('it took none') as string]);
    await worker.stop();
  });

  it('does not act while all slots are taken, nor while no job waits', async () => {
    const begun = collect<string>();
    const ends: string[] = [];
    const worker = await bench.start(
      { newsletter: yearly, wiki: yearly },
      untilAborted(() => begun.add('run')),
      { concurrency: 1, timings: { watchdogMs: 100 } },
    );
    worker.ended.then(
      () => ends.push('stopped'),
      () => ends.push('stuck'),
    );
    await addNow(newsletter);
    await begun.until(1);
    await addNow(wiki);
    // Long enough for several checks of the watchdog.
    await pause(700);
    expect(ends).toEqual([]);
    await worker.stop();
    await worker.ended;
    expect(ends).toEqual(['stopped']);
  });

  it('does not act while Redis is down', async () => {
    const worker = await bench.start({ newsletter: yearly }, () => Promise.resolve(ok), {
      timings: { watchdogMs: 100 },
      graceMs: 300,
    });
    const ends: string[] = [];
    worker.ended.then(
      () => ends.push('stopped'),
      () => ends.push('stuck'),
    );
    await bench.redis.kill();
    await pause(700);
    expect(ends).toEqual([]);
  });
});

function overRoad(schedules: Parameters<WorkerBench['settings']>[0]): ReturnType<WorkerBench['settings']> {
  const settings = bench.settings(schedules);
  const url = new Secret(`redis://:${password}@127.0.0.1:${proxy.port}`);
  return { ...settings, redis: { ...settings.redis, url } };
}

async function addNow(connector: typeof newsletter): Promise<void> {
  await addSync(bench.syncs, { connector, reason: 'manual', due: null }, { retryDelayMs: 100 });
}

/** A proxy to Redis that can silence connections without closing them, like a firewall that dropped their state. */
interface RedisProxy {
  readonly port: number;
  /** Drops all traffic of connections that ever took a job or waited for one, and of new connections. */
  freezeWorkers(): void;
  close(): void;
}

async function openRedisProxy(redisPort: number): Promise<RedisProxy> {
  const sockets = new Set<Socket>();
  const workers = new Set<Socket>();
  let isFrozen = false;
  const server: Server = createServer((inner) => {
    const outer = connect(redisPort, '127.0.0.1');
    for (const socket of [inner, outer]) {
      sockets.add(socket);
      socket.on('error', () => undefined);
      socket.on('close', () => socket === inner && outer.destroy());
    }
    if (isFrozen) workers.add(inner);
    inner.on('data', (data) => {
      // A connection that takes jobs runs a script with a lock duration, or waits for a marker. BZPOPMIN alone proves
      // nothing: every connection tries it once when the rights are checked.
      if (/bzpopmin\r\n\$\d+\r\n[^{\r]+:marker|lockDuration/i.test(data.toString('latin1'))) {
        workers.add(inner);
      }
      if (!(isFrozen && workers.has(inner))) outer.write(data);
    });
    outer.on('data', (data) => {
      if (!(isFrozen && workers.has(inner))) inner.write(data);
    });
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('the server has no TCP port');
  return {
    port: address.port,
    freezeWorkers: () => {
      isFrozen = true;
    },
    close: () => {
      for (const socket of sockets) socket.destroy();
      server.close();
    },
  };
}
