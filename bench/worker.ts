import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { cpus, loadavg, tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { type JobState, Queue } from 'bullmq';
import { Redis } from 'ioredis';
import { freePort, startRedis } from '../test/support/redis.ts';
import { measureCommand, startMeasuredWorker, type MeasuredWorker } from './worker/measured-process.ts';
import { connectorName, sinkName, writeConfig, type BenchConfig } from './worker/write-config.ts';

/**
 * A worker with many connectors and sinks: start, idle cost, a run of each connector, reloads, metrics, commands,
 * recovery after Redis loses its data, and the delay of scheduled runs. `npm run bench:worker -- <connectors> <sinks>`,
 * with `reload` behind them for three reloads while 200 runs are in progress, and what became of every run. Linux only.
 * Uses a private Redis, and a service in a separate process that answers after 20 ms.
 */
const connectors = Number(process.argv[2] ?? 1000);
const sinks = Number(process.argv[3] ?? 10);
const isOnlyReload = process.argv[4] === 'reload';
const idleMs = 70_000;
const frequent = Math.min(connectors, 100);
const mostMs = 60 * 60_000;
const prefix = 'connector-sync';
const rows: (readonly [string, string])[] = [];

function tell(what: string, value: string): void {
  rows.push([what, value]);
  process.stderr.write(`${what}: ${value}\n`);
}

const folder = mkdtempSync(path.join(tmpdir(), 'connector-sync-bench-'));
const api = await startApi();
await using redis = await startRedis();
const client = new Redis(redis.url, { maxRetriesPerRequest: null });
const workers: MeasuredWorker[] = [];
try {
  await measure();
} finally {
  for (const worker of workers) await worker.stop();
  client.disconnect();
  api.child.kill();
  rmSync(folder, { recursive: true, force: true });
}
const width = Math.max(...rows.map(([what]) => what.length));
process.stdout.write(
  [
    `${connectors} connectors, ${sinks} sinks; Node.js ${process.versions.node}, ${cpus().length} cores, load ${(loadavg()[0] ?? 0).toFixed(1)}`,
    ...rows.map(([what, value]) => `${what.padEnd(width)}  ${value}`),
    '',
  ].join('\n'),
);

async function measure(): Promise<void> {
  const config: BenchConfig = { folder, apiUrl: api.url, redisUrl: redis.url, connectors, sinks };
  const file = writeConfig(config, 0);
  tell('config', `${(statSync(file).size / 1e6).toFixed(2)} MB`);
  const port = await freePort();
  if (isOnlyReload) return await reloadUnderLoad(file, port);
  const worker = await startWorker(file, port, 'start to ready');
  await pause(10_000);
  const before = worker.figures();
  await pause(idleMs);
  const idle = worker.figures();
  tell('idle memory', `${idle.rssMiB} MiB, at most ${idle.peakMiB} MiB`);
  tell('idle processor time', `${((100_000 * (idle.cpuS - before.cpuS)) / idleMs).toFixed(1)} %`);

  const queues = await openSyncQueues();
  await runEach(queues, worker, 'a first run of each');
  await runEach(queues, worker, 'a second one');
  const third = runEach(queues, worker, 'a third one, with reloads');
  await reload(file, worker, queues);
  await third;
  await scrape(port);
  await commands(file);
  await forgetEverything();
  await closeAll(queues);
  await worker.stop();
  workers.length = 0;

  const again = await startWorker(writeConfig(config, frequent), port, 'start to ready, schedules there');
  await slots();
  const { rssMiB, peakMiB } = again.figures();
  tell('memory at the end', `${rssMiB} MiB, at most ${peakMiB} MiB`);
}

async function startWorker(
  config: string,
  port: number,
  what: string,
  options: readonly string[] = [],
): Promise<MeasuredWorker> {
  const worker = await startMeasuredWorker(config, port, options);
  workers.push(worker);
  tell(
    what,
    `${seconds(worker.readyMs - worker.startedMs)}, processor ${worker.figures().cpuS.toFixed(1)} s`,
  );
  return worker;
}

async function openSyncQueues(): Promise<readonly Queue[]> {
  const ids = await Promise.all(
    Array.from({ length: sinks }, async (_, index) => {
      const registered: unknown = JSON.parse(
        (await client.hget(`${prefix}:sinks`, sinkName(index))) ?? 'null',
      );
      return typeof registered === 'object' && registered !== null && 'id' in registered
        ? String(registered.id)
        : '';
    }),
  );
  return ids.map((id) => new Queue(`syncs-${id}`, { connection: client, prefix }));
}

async function closeAll(queues: readonly Queue[]): Promise<void> {
  for (const queue of queues) await queue.close();
}

/** Adds the same jobs as `schedule run`. */
async function runEach(queues: readonly Queue[], worker: MeasuredWorker, what: string): Promise<void> {
  const startedMs = Date.now();
  const before = worker.figures().cpuS;
  const added = queues.map((queue, sink) =>
    queue.addBulk(
      Array.from({ length: Math.ceil((connectors - sink) / sinks) }, (_, index) => {
        const connector = connectorName(sink + index * sinks);
        return {
          name: 'sync',
          data: { connector, kind: 'sync', reason: 'manual', due: null },
          opts: { attempts: 5, deduplication: { id: connector }, removeOnComplete: { count: 500 } },
        };
      }),
    ),
  );
  await Promise.all(added);
  let open = connectors;
  while (open > 0) {
    await pause(500);
    open = await jobsIn(queues, 'waiting', 'active', 'delayed');
    if (Date.now() - startedMs > mostMs) break;
  }
  const tookMs = Date.now() - startedMs;
  const failed = await Promise.all(queues.map((queue) => queue.getFailedCount()));
  const { rssMiB, peakMiB, cpuS } = worker.figures();
  tell(
    what,
    `${seconds(tookMs)}, processor ${(cpuS - before).toFixed(1)} s (${((1000 * (cpuS - before)) / connectors).toFixed(0)} ms a run), ${failed.reduce((sum, one) => sum + one, 0)} failed`,
  );
  if (open > 0) tell('unfinished runs', String(open));
  tell('runs per minute', (((connectors - open) * 60_000) / tookMs).toFixed(0));
  tell('memory after them', `${rssMiB} MiB, at most ${peakMiB} MiB`);
}

/**
 * Reloads while this many runs are in progress: each connector has one job. A job that a run did not end is lost; a run
 * that a reload interrupts has that outcome.
 */
async function reloadUnderLoad(file: string, port: number): Promise<void> {
  const inProgress = Math.min(200, connectors);
  const options = ['--concurrency', String(Math.ceil(inProgress / sinks)), '--max-runs', String(inProgress)];
  const worker = await startWorker(file, port, 'start to ready', options);
  const queues = await openSyncQueues();
  const ended = runEach(queues, worker, `a run of each, ${inProgress} at a time`);
  while ((await jobsIn(queues, 'active')) < inProgress) await pause(20);
  await reload(file, worker, queues);
  await ended;
  const { outcomes, mostConfigs } = worker.ended();
  tell('runs by outcome', JSON.stringify(outcomes));
  tell('readings of the config in use', `at most ${mostConfigs}`);
  await closeAll(queues);
}

/** Three times, one connector is changed each time. */
async function reload(file: string, worker: MeasuredWorker, queues: readonly Queue[]): Promise<void> {
  const config = readFileSync(file, 'utf8');
  for (let turn = 1; turn <= 3; turn += 1) {
    writeFileSync(file, config.replace('freshWithin: 2d', `freshWithin: ${turn + 2}d`));
    const before = worker.figures().cpuS;
    const ms = await worker.reload();
    tell(
      `reload ${turn}`,
      `${seconds(ms)}, processor ${(worker.figures().cpuS - before).toFixed(1)} s, ${await jobsIn(queues, 'active')} runs in progress`,
    );
  }
}

async function jobsIn(queues: readonly Queue[], ...states: readonly JobState[]): Promise<number> {
  const counts = await Promise.all(queues.map((queue) => queue.getJobCounts(...states)));
  return counts.reduce((sum, one) => sum + Object.values(one).reduce((all, jobs) => all + jobs, 0), 0);
}

async function scrape(port: number): Promise<void> {
  for (const turn of ['/metrics', '/metrics again']) {
    const startedMs = performance.now();
    const answer = await fetch(`http://127.0.0.1:${port}/metrics`, { signal: AbortSignal.timeout(mostMs) });
    const text = await answer.text();
    const series = text.split('\n').filter((line) => line !== '' && !line.startsWith('#')).length;
    const paused = text
      .split('\n')
      .filter((line) => line.startsWith('connector_sync_connector_paused{')).length;
    tell(
      turn,
      `${(text.length / 1e6).toFixed(1)} MB, ${series} series, ${seconds(performance.now() - startedMs)}, ${paused} connectors named`,
    );
  }
}

async function commands(config: string): Promise<void> {
  for (const args of [['status'], ['check']]) {
    const { code, wallS, cpuS, outputBytes, error } = await measureCommand(
      [...args, '--config', config],
      mostMs,
    );
    const how = code === 0 ? '' : `, ended with ${code ?? 'a signal'}: ${error.slice(-200)}`;
    tell(
      args.join(' '),
      `${wallS.toFixed(1)} s, processor ${cpuS.toFixed(1)} s, ${(outputBytes / 1e6).toFixed(2)} MB${how}`,
    );
  }
}

async function forgetEverything(): Promise<void> {
  await client.flushall();
  const startedMs = Date.now();
  while ((await client.zcard(`${prefix}:ticks:repeat`)) < connectors) {
    if (Date.now() - startedMs > mostMs) break;
    await pause(100);
  }
  const back = await client.zcard(`${prefix}:ticks:repeat`);
  tell('FLUSHALL to schedules back', `${seconds(Date.now() - startedMs)}, ${back} of ${connectors}`);
}

/** Some connectors run every 30 s, each at a different second; their first runs, all due at once, are not counted. */
async function slots(): Promise<void> {
  const queues = await openSyncQueues();
  await pause(45_000);
  const fromMs = Date.now();
  await pause(60_000);
  const lags: number[] = [];
  for (const queue of queues) {
    for (const { data, processedOn = 0 } of await queue.getCompleted(0, -1)) {
      const due: unknown = data.due;
      if (typeof due === 'number' && due >= fromMs) lags.push(Math.max(0, processedOn - due));
    }
  }
  lags.sort((left, right) => left - right);
  const at = (share: number): string => seconds(lags[Math.floor(share * (lags.length - 1))] ?? Number.NaN);
  tell('slot to start', `p50 ${at(0.5)}, p99 ${at(0.99)} (${lags.length} runs)`);
  await closeAll(queues);
}

async function startApi(): Promise<{
  readonly child: ReturnType<typeof spawn>;
  readonly url: string;
}> {
  const script = fileURLToPath(new URL('./worker/stub-api.ts', import.meta.url));
  const child = spawn(process.execPath, ['--import', 'tsx', script, String(connectors)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const [port] = await once(child.stdout.setEncoding('utf8'), 'data');
  return { child, url: `http://127.0.0.1:${String(port).trim()}` };
}

function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(ms < 10_000 ? 2 : 1)} s`;
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, ms);
  });
}
