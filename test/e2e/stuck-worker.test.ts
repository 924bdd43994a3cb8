import { afterEach, beforeEach, expect, it } from 'vitest';
import { noDifferences } from '../support/sample-sinks.ts';
import { openScheduledWorld, type ScheduledWorld } from '../support/scheduled-world.ts';
import {
  isRunFinished,
  isRunStarted,
  startWorkerProcess,
  type WorkerProcess,
} from '../support/worker-process.ts';

const timings = { lockMs: 1000, stalledMs: 500, busyDelayMs: 300, drainDelayS: 1 };

let world: ScheduledWorld;
const started: WorkerProcess[] = [];

beforeEach(async () => {
  world = await openScheduledWorld({
    // Slow enough to be in the middle of a run, and one run at a time.
    connectors: [
      { name: 'news', definition: 'email-marketing', size: 'tiny', schedule: '{ cron: "* * * * * *" }' },
    ],
    latencyMs: 200,
    concurrency: 2,
  });
});

afterEach(async () => {
  for (const { child } of started) child.kill('SIGKILL');
  await Promise.all(started.map(({ ended }) => ended));
  await world[Symbol.asyncDispose]();
});

function startWorker(): WorkerProcess {
  const worker = startWorkerProcess(world, timings);
  started.push(worker);
  return worker;
}

// Proves promise 12
it('is not overtaken while it hangs, and leaves its run to another worker when it continues', async () => {
  const stuck = startWorker();
  const { run } = await stuck.until(isRunStarted);
  stuck.child.kill('SIGSTOP');
  const other = startWorker();
  // The queue gives the job away once its lock has expired; the connector's own lock holds for as long as the process
  // lives.
  await other.until((line) => line.msg === 'job ended' && line['end'] === 'busy');
  expect(other.lines.filter(isRunStarted)).toEqual([]);
  stuck.child.kill('SIGCONT');
  const gaveUp = await stuck.until((line) => isRunFinished(line) && line['run'] === run);
  expect(gaveUp['outcome']).toBe('interrupted');
  const next = await Promise.race(
    started.map((worker) => worker.until((line) => isRunStarted(line) && line['run'] !== run)),
  );
  expect(next['continues']).toBe(run);
  await Promise.race(
    started.map((worker) => worker.until((line) => isRunFinished(line) && line['outcome'] === 'ok')),
  );
  for (const { child } of started) child.kill('SIGTERM');
  for (const { ended } of started) expect(await ended).toEqual({ code: 0, signal: null });
  expect(world.differences('news')).toEqual(noDifferences);
}, 120_000);
