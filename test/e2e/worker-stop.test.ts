import { setTimeout as later } from 'node:timers/promises';
import { Queue } from 'bullmq';
import { Redis } from 'ioredis';
import { expect, it } from 'vitest';
import { noDifferences } from '../support/sample-sinks.ts';
import { useWorkers } from '../support/use-workers.ts';
import { seededRandom } from '../support/seeded-random.ts';
import { isRunFinished, isRunStarted } from '../support/worker-process.ts';
import { isLong, repeats, startSeed } from '../support/trials.ts';

const trials = repeats('TRIALS', { share: 1, full: 50 });
const seed = startSeed();
const exitWithinMs = 5000;
const size = isLong ? 'small' : { members: 800 };

// Proves promise 12
it(`ends within 5 s of SIGTERM with 0, uses no attempt, and the next worker resumes (${trials} trials, seed ${seed})`, async () => {
  const world = await useWorkers({
    connectors: [
      // Once a year: one job, handed from worker to worker. Not so small that a worker ends it before it has to stop.
      { name: 'news', definition: 'email-marketing', size, schedule: '{ cron: "0 0 1 1 *" }' },
    ],
    latencyMs: isLong ? 25 : 100,
    concurrency: 2,
  });
  const random = seededRandom(seed);
  const redis = new Redis(world.redis.url, { maxRetriesPerRequest: null });
  let queue: Queue | null = null;
  let slowest = 0;
  let before: unknown = null;
  try {
    for (let trial = 0; trial < trials; trial += 1) {
      const worker = world.start();
      if (queue === null) {
        queue = new Queue(await syncsQueue(worker.until((line) => line.msg === 'worker started')), {
          connection: redis,
          prefix: 'connector-sync',
        });
        await queue.add('sync', { connector: 'news', kind: 'sync', reason: 'manual', due: null });
      }
      const line = await worker.until(isRunStarted);
      expect({ trial, seed, continues: line['continues'] }).toEqual({ trial, seed, continues: before });
      before = line['run'];
      // At which moment of a page the signal comes is the experiment, not a wait for something.
      await later(random() * 150);
      const asked = Date.now();
      worker.child.kill('SIGTERM');
      const { code } = await worker.ended;
      slowest = Math.max(slowest, Date.now() - asked);
      expect({ trial, seed, code }).toEqual({ trial, seed, code: 0 });
      expect(slowest).toBeLessThan(exitWithinMs);
      const [job] = await queue.getJobs([
        'waiting',
        'prioritized',
        'delayed',
        'active',
        'failed',
        'completed',
      ]);
      expect({ attempts: job?.attemptsMade, state: await job?.getState() }).toEqual({
        attempts: 0,
        state: 'waiting',
      });
    }
    console.log(`slowest of ${trials} exits: ${slowest} ms (seed ${seed})`);
    const last = world.start();
    expect(await last.until(isRunFinished)).toMatchObject({ outcome: 'ok' });
    last.child.kill('SIGTERM');
    await last.ended;
    expect(world.differences('news')).toEqual(noDifferences);
  } finally {
    await queue?.close();
    redis.disconnect();
  }
}, 300_000);

async function syncsQueue(line: Promise<Readonly<Record<string, unknown>>>): Promise<string> {
  const queues = (await line)['queues'];
  const name = Array.isArray(queues) ? queues.map(String).find((one) => one.startsWith('syncs-')) : undefined;
  if (name === undefined) {
    throw new Error(`the worker should say which queues it serves, it said ${JSON.stringify(queues)}`);
  }
  return name;
}
