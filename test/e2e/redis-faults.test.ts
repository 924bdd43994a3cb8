import { existsSync, readFileSync } from 'node:fs';
import { setTimeout as forAsLongAs } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { noDifferences } from '../support/sample-sinks.ts';
import { openScheduledWorld, scheduledSinks, type ScheduledWorld } from '../support/scheduled-world.ts';
import {
  isRunStarted,
  startWorkerProcess,
  type LogLine,
  type WorkerProcess,
} from '../support/worker-process.ts';
import { isLong, repeats } from '../support/trials.ts';

/** Longer than a worker's own blocking reads; the nightly figure is 35 s. */
const outageMs = Number(process.env['OUTAGE_MS'] ?? 4000);
const kills = repeats('KILLS', { share: 1, full: 3 });
const trials = repeats('TRIALS', { share: 1, full: 3 });
/** Of being out of memory: long enough to tell a pause from a loop. */
const fullMs = isLong ? 3000 : 1500;
const timings = { lockMs: 1000, stalledMs: 500, reconcileMs: 5000, busyDelayMs: 300, retryDelayMs: 300 };
const connectors = [
  { name: 'news', definition: 'email-marketing', size: 'tiny', schedule: '{ cron: "* * * * * *" }' },
  { name: 'wiki', definition: 'workspace-notes', size: 'tiny', schedule: '{ cron: "* * * * * *" }' },
] as const;

let world: ScheduledWorld;
let worker: WorkerProcess;

describe.each(scheduledSinks)('a worker over a sink in %s', (sinkType) => {
  beforeEach(async () => {
    world = await openScheduledWorld({ connectors, latencyMs: 20, redis: { appendOnly: true }, sinkType });
    worker = startWorkerProcess(world, timings);
    await worker.until(isRunStarted);
  });

  afterEach(async () => {
    worker.child.kill('SIGKILL');
    await worker.ended;
    await world[Symbol.asyncDispose]();
  });

  // In `npm test` a worker in the test's own process does (test/jobs/redis-faults.test.ts).
  it.runIf(isLong || process.env['KILLS'] !== undefined)(
    `resumes by itself after each of ${kills} kills of Redis`,
    async () => {
      for (let kill = 1; kill <= kills; kill += 1) {
        await world.redis.kill();
        await world.redis.restart();
        console.log(`kill ${kill}: a run began ${await nextRunAfter(Date.now())} ms after Redis was back`);
      }
      await expectAllWell();
    },
    60_000,
  );

  it.runIf(isLong || process.env['OUTAGE_MS'] !== undefined)(
    `resumes by itself after an outage of ${outageMs} ms`,
    async () => {
      await world.redis.kill();
      // How long Redis is away is the experiment, not a wait for something.
      await forAsLongAs(outageMs);
      await world.redis.restart();
      console.log(`a run began ${await nextRunAfter(Date.now())} ms after Redis was back`);
      const told = worker.lines.filter(({ level }) => level === 'error' || level === 'warn');
      console.log(`log lines about it: ${told.length}`);
      expect(told.length).toBeLessThan(10 + outageMs / 1000);
      await expectAllWell();
    },
    120_000,
  );

  // Proves promise 12
  it('restores its schedules when Redis has lost everything in the middle of a run', async () => {
    for (let trial = 1; trial <= trials; trial += 1) {
      await worker.until(isRunStarted, worker.lines.length);
      await ask((redis) => redis.flushall());
      console.log(`trial ${trial}: a run began ${await nextRunAfter(Date.now())} ms after Redis was emptied`);
    }
    await expectAllWell();
  }, 60_000);

  // In `npm test` a worker in the test's own process is (test/jobs/redis-faults.test.ts).
  it.runIf(isLong)(
    'pauses while Redis is out of memory, logs that briefly, and resumes when there is room',
    async () => {
      await ask((redis) => redis.config('SET', 'maxmemory', '1mb'));
      await worker.until(
        ({ msg, kind, code }) => msg.includes('OOM') || kind === 'OOM' || code === 'OOM',
        worker.lines.length,
      );
      const [lines, cpuMs] = [worker.lines.length, cpuOf(worker.pid)];
      await forAsLongAs(fullMs);
      const share = (cpuOf(worker.pid) - cpuMs) / fullMs;
      console.log(
        `in ${fullMs} ms out of memory: ${worker.lines.length - lines} log lines, ${Math.round(share * 100)} % of a core`,
      );
      expect(worker.lines.slice(lines).filter(isAboutRedis).length).toBeLessThan(10);
      await ask((redis) => redis.config('SET', 'maxmemory', '0'));
      console.log(`a run began ${await nextRunAfter(Date.now())} ms after there was room`);
      await expectAllWell();
    },
    90_000,
  );

  // In `npm test` test/jobs/lifecycle.test.ts has a worker do so.
  it.runIf(isLong)(
    'ends with 0 within its grace time while Redis does not answer',
    async () => {
      await world.redis.kill();
      const asked = Date.now();
      worker.child.kill('SIGTERM');
      expect(await worker.ended).toEqual({ code: 0, signal: null });
      console.log(`ended ${Date.now() - asked} ms after SIGTERM`);
      // No run that could end is worth the whole grace: what cannot be written to Redis is dropped.
      expect(Date.now() - asked).toBeLessThan(5000);
      await world.redis.restart();
      worker = startWorkerProcess(world, timings);
      await worker.until(isRunStarted);
      await expectAllWell();
    },
    60_000,
  );
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

function isAboutRedis({ event, level }: LogLine): boolean {
  return event === undefined && level !== 'info';
}

/** Milliseconds of processor time so far, from the system's own account (ticks of 10 ms). */
function cpuOf(pid: number): number {
  if (!existsSync(`/proc/${pid}/stat`)) return Number.NaN;
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? [];
  return (Number(fields[11]) + Number(fields[12])) * 10;
}
