import { expect, it } from 'vitest';
import { noDifferences } from '../support/sample-sinks.ts';
import { useWorkers } from '../support/use-workers.ts';
import { isRunFinished, isRunStarted } from '../support/worker-process.ts';

const timings = { lockMs: 1000, stalledMs: 500, busyDelayMs: 300, drainDelayS: 1 };

// Proves promise 12
it('is not overtaken while it hangs, and leaves its run to another worker when it continues', async () => {
  const world = await useWorkers({
    // Slow enough to be in the middle of a run, and one run at a time.
    connectors: [
      { name: 'news', definition: 'email-marketing', size: 'tiny', schedule: '{ cron: "* * * * * *" }' },
    ],
    latencyMs: 200,
    concurrency: 2,
  });
  const { started } = world;
  const stuck = world.start(timings);
  const { run } = await stuck.until(isRunStarted);
  stuck.child.kill('SIGSTOP');
  const other = world.start(timings);
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
