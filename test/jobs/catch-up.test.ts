import { setTimeout as pause } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { collect, everySecond, ok, openWorkerBench } from '../support/jobs/worker-bench.ts';
import { repeats } from '../support/trials.ts';

const trials = repeats('TRIALS', { share: 1, full: 20 });

// Proves promise 12
it(`runs once to catch up on several ticks missed without a worker (${trials} trials)`, async () => {
  await using bench = await openWorkerBench();
  for (let trial = 0; trial < trials; trial += 1) {
    const before = collect<number>();
    const first = await bench.start({ newsletter: everySecond }, () => {
      before.add(Date.now());
      return Promise.resolve(ok);
    });
    await before.until(1);
    await first.stop();
    // Real time on purpose: more than three ticks pass.
    await pause(3400);
    const runs = collect<number>();
    const back = Date.now();
    const second = await bench.start({ newsletter: everySecond }, () => {
      runs.add(Date.now());
      return Promise.resolve(ok);
    });
    await runs.until(3);
    await second.stop();
    // The first run catches up on all missed ticks; each further run has its own second.
    const [caughtUp = 0, ...further] = runs.values;
    expect({ trial, late: caughtUp - back > 1000 }).toEqual({ trial, late: false });
    const seconds = further.map((at) => Math.floor(at / 1000));
    expect({ trial, distinct: new Set(seconds).size }).toEqual({ trial, distinct: seconds.length });
    expect(Math.min(...seconds)).toBeGreaterThan(Math.floor(back / 1000));
  }
}, 120_000);
