import { once } from 'node:events';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Secret } from '../../src/core/secret.ts';
import { addSync } from '../../src/jobs/add-job.ts';
import {
  collect,
  isEnd,
  newsletter,
  ok,
  openWorkerBench,
  password,
  pause,
  untilAborted,
  wiki,
  yearly,
  type WorkerBench,
} from './worker-bench.ts';

let bench: WorkerBench;
let road: Road;

beforeEach(async () => {
  bench = await openWorkerBench();
  road = await openRoad(bench.redis.port);
});

afterEach(async () => {
  road.close();
  await bench[Symbol.asyncDispose]();
});

describe('the watchdog', () => {
  it('ends a worker whose connections died without a word while jobs wait', async () => {
    const worker = await bench.start({ newsletter: yearly }, () => Promise.resolve(ok), {
      settings: overRoad({ newsletter: yearly }),
      timings: { watchdogMs: 500 },
      graceMs: 500,
    });
    await addNow(newsletter);
    await bench.untilEvents(isEnd('done'));
    // Only the connection that answers questions stays: Redis is there, and nothing is taken.
    road.freezeTakers();
    await addNow(wiki);
    await expect(worker.ended).rejects.toMatchObject({
      code: 'WORKER_STUCK',
      message: expect.stringMatching(
        /^A worker should take the jobs that wait; 1 wait and none was taken/,
      ) as string,
    });
    expect((await worker.state()).problems).toEqual([expect.stringContaining('none was taken') as string]);
    await worker.stop();
  });

  it('says nothing while all places are taken, nor while nothing waits', async () => {
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
    // Long enough for the watchdog to look several times: that is what is tested.
    await pause(700);
    expect(ends).toEqual([]);
    await worker.stop();
    await worker.ended;
    expect(ends).toEqual(['stopped']);
  });

  it('says nothing while Redis is away', async () => {
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
  const url = new Secret(`redis://:${password}@127.0.0.1:${road.port}`);
  return { ...settings, redis: { ...settings.redis, url } };
}

async function addNow(connector: typeof newsletter): Promise<void> {
  await addSync(bench.syncs, { connector, reason: 'manual', due: null }, { retryDelayMs: 100 });
}

/** The way to Redis, on which connections can go quiet without being closed, as behind a firewall that forgot them. */
interface Road {
  readonly port: number;
  /** Nothing passes any more on connections that ever took a job or waited for one, and on new ones. */
  freezeTakers(): void;
  close(): void;
}

async function openRoad(redisPort: number): Promise<Road> {
  const sockets = new Set<Socket>();
  const takers = new Set<Socket>();
  let isFrozen = false;
  const server: Server = createServer((inner) => {
    const outer = connect(redisPort, '127.0.0.1');
    for (const socket of [inner, outer]) {
      sockets.add(socket);
      socket.on('error', () => undefined);
      socket.on('close', () => socket === inner && outer.destroy());
    }
    if (isFrozen) takers.add(inner);
    inner.on('data', (data) => {
      // A script that is given a lock's length, or a wait for a marker: both are a taker's.
      // Not every connection that has tried the command at its start.
      if (/bzpopmin\r\n\$\d+\r\n[^{\r]+:marker|lockDuration/i.test(data.toString('latin1'))) {
        takers.add(inner);
      }
      if (!(isFrozen && takers.has(inner))) outer.write(data);
    });
    outer.on('data', (data) => {
      if (!(isFrozen && takers.has(inner))) inner.write(data);
    });
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('a TCP server should have a port');
  return {
    port: address.port,
    freezeTakers: () => {
      isFrozen = true;
    },
    close: () => {
      for (const socket of sockets) socket.destroy();
      server.close();
    },
  };
}
