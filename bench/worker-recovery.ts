import { Redis } from 'ioredis';
import { Queue } from 'bullmq';
import { setup } from '../test/support/ensure-built.ts';
import { openScheduledWorld } from '../test/support/scheduled-world.ts';
import { isRunStarted, startWorkerProcess, type WorkerProcess } from '../test/support/worker-process.ts';

/**
 * How long it takes to resume a killed worker's run: two workers with default timings; the one with the run is killed
 * with SIGKILL, and the log of the other shows when it resumes. `npm run bench:recovery -- [trials]`.
 */
const trials = Number(process.argv[2] ?? 12);
const lockMs = 15_000;
const stalledMs = 5_000;

setup();
await using world = await openScheduledWorld({
  connectors: [
    { name: 'news', definition: 'email-marketing', size: 'small', schedule: '{ cron: "0 0 1 1 *" }' },
  ],
  latencyMs: 2000,
  concurrency: 1,
});
const redis = new Redis(world.redis.url, { maxRetriesPerRequest: null });
let holder = startWorkerProcess(world);
const queue = new Queue(await syncsQueue(holder), { connection: redis, prefix: 'connector-sync' });
await queue.add('sync', { connector: 'news', kind: 'sync', reason: 'manual', due: null });
await holder.until(isRunStarted);
const took: number[] = [];
for (let trial = 1; trial <= trials; trial += 1) {
  const other = startWorkerProcess(world);
  await syncsQueue(other);
  // Each kill hits a different moment between lock renewals.
  await new Promise((resolve) => {
    setTimeout(resolve, Math.random() * stalledMs);
  });
  holder.child.kill('SIGKILL');
  const killedMs = Date.now();
  await holder.ended;
  const line = await other.until(isRunStarted);
  took.push(Date.parse(line.time) - killedMs);
  process.stdout.write(`trial ${trial}: ${took.at(-1)} ms, resumes ${String(line['continues'])}\n`);
  holder = other;
}
holder.child.kill('SIGKILL');
await holder.ended;
await queue.close();
redis.disconnect();
const slowest = Math.max(...took);
process.stdout.write(
  `slowest of ${trials}: ${slowest} ms; lock + 2 x stalled check = ${lockMs + 2 * stalledMs} ms: ${slowest <= lockMs + 2 * stalledMs ? 'met' : 'missed'}\n`,
);

async function syncsQueue(worker: WorkerProcess): Promise<string> {
  const { queues } = await worker.until((line) => line.msg === 'worker started');
  const name = Array.isArray(queues) ? queues.map(String).find((one) => one.startsWith('syncs-')) : undefined;
  if (name === undefined) throw new Error('the worker logged no syncs queue');
  return name;
}
