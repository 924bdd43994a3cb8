import { expect, it } from 'vitest';
import type { RunEvent } from '../../src/core/events.ts';
import { noCounts } from '../../src/core/records.ts';
import { addSync } from '../../src/jobs/open-queue-set.ts';
import { startScript } from '../support/run-cli.ts';
import {
  eventually,
  isEnd,
  nameOf,
  newsletter,
  ok,
  openWorkerBench,
  yearly,
  type WorkerBench,
} from '../support/jobs/worker-bench.ts';
import { testProgram } from '../support/ensure-built.ts';

const script = testProgram('jobs/poison-process.mjs');
const poison = nameOf('poison');

// Proves promise 12
it('fails a job that crashed its process three times, while other connectors continue', async () => {
  await using bench = await openWorkerBench();
  await add(bench, poison);
  await add(bench, newsletter);
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
  await using bench = await openWorkerBench();
  const page: RunEvent = {
    kind: 'page-committed',
    params: {},
    entity: 'lists' as never,
    counts: noCounts,
    newlyDue: 0,
    bytes: 1,
  };
  await add(bench, newsletter);
  let starts: unknown[] = [];
  await bench.start({ newsletter: yearly }, async (_, { onEvent }) => {
    starts = [...starts, await storedStarts(bench)];
    onEvent(page);
    await eventually(async () => (await storedStarts(bench)) === 0);
    const failed = { ...ok, outcome: 'failed' };
    return starts.length < 5 ? { ...failed, error: { code: 'NETWORK', recovery: 'retry' } } : ok;
  });
  await bench.untilEvents(isEnd('done'));
  expect(starts).toEqual([1, 1, 1, 1, 1]);
});

async function add(bench: WorkerBench, connector: typeof poison): Promise<void> {
  await addSync(bench.syncs, { connector, reason: 'manual', due: null }, { retryDelayMs: 100 });
}

async function storedStarts(bench: WorkerBench): Promise<unknown> {
  const [job] = await bench.syncs.getJobs(['active']);
  return (job?.progress as { starts?: unknown } | undefined)?.starts;
}
