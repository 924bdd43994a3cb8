import { Redis } from 'ioredis';
import { describe, expect, it } from 'vitest';
import { noDifferences } from '../support/sample-sinks.ts';
import { scheduledSinks } from '../support/scheduled-world.ts';
import { isRunStarted, type WorkerProcess } from '../support/worker-process.ts';
import { repeats } from '../support/trials.ts';
import { useWorkers, type Workers } from '../support/use-workers.ts';

const trials = repeats('TRIALS', { share: 1, full: 3 });
const timings = { lockMs: 1000, stalledMs: 500, reconcileMs: 5000, busyDelayMs: 300, retryDelayMs: 300 };
const connectors = [
  { name: 'news', definition: 'email-marketing', size: 'tiny', schedule: '{ cron: "* * * * * *" }' },
  { name: 'wiki', definition: 'workspace-notes', size: 'tiny', schedule: '{ cron: "* * * * * *" }' },
] as const;

let world: Workers;
let worker: WorkerProcess;

describe.each(scheduledSinks)('a worker over a sink in %s', (sinkType) => {
  // Proves promise 12
  it('restores its schedules when Redis has lost everything in the middle of a run', async () => {
    world = await useWorkers({ connectors, latencyMs: 20, redis: { appendOnly: true }, sinkType });
    worker = world.start(timings);
    await worker.until(isRunStarted);
    for (let trial = 1; trial <= trials; trial += 1) {
      await worker.until(isRunStarted, worker.lines.length);
      await ask((redis) => redis.flushall());
      console.log(`trial ${trial}: a run began ${await nextRunAfter(Date.now())} ms after Redis was emptied`);
    }
    await expectAllWell();
  }, 60_000);
});

async function nextRunAfter(fromMs: number): Promise<number> {
  const line = await worker.until((one) => isRunStarted(one) && Date.parse(one.time) >= fromMs, 0);
  return Date.parse(line.time) - fromMs;
}

/** Each connector comes to a good end once more, holds exactly its account, and no run ever failed. */
async function expectAllWell(): Promise<void> {
  const from = worker.lines.length;
  for (const { name } of connectors) {
    await worker.until(
      (line) => line['event'] === 'run-finished' && line['connector'] === name && line['outcome'] === 'ok',
      from,
    );
  }
  worker.child.kill('SIGTERM');
  expect(await worker.ended).toEqual({ code: 0, signal: null });
  for (const { name } of connectors) {
    expect({ name, ...world.differences(name) }).toEqual({ name, ...noDifferences });
  }
  expect(world.ledger("SELECT run, state FROM _sync_runs WHERE state NOT IN ('ok', 'interrupted')")).toEqual(
    [],
  );
}

async function ask(question: (redis: Redis) => Promise<unknown>): Promise<void> {
  const redis = new Redis(world.redis.url);
  try {
    await question(redis);
  } finally {
    redis.disconnect();
  }
}
