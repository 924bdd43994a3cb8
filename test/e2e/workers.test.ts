import { createHash } from 'node:crypto';
import { cpSync, existsSync, mkdirSync, readFileSync, readdirSync, renameSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as later } from 'node:timers/promises';
import { Queue } from 'bullmq';
import { Redis } from 'ioredis';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { systemClock } from '../../src/core/clock.ts';
import { openSink } from '../../src/sinks/registry.ts';
import { startHostileServer, type HostileServer } from '../support/hostile-server.ts';
import { type HostileCall, type Reply, held, success } from '../support/hostile/replies.ts';
import { eventually } from '../support/jobs/worker-bench.ts';
import { builtInDefinition } from '../support/sample-service.ts';
import { noDifferences, sampleSinks, type SampleSinkType } from '../support/sample-sinks.ts';
import { seededRandom } from '../support/seeded-random.ts';
import { isLong, repeats, startSeed } from '../support/trials.ts';
import { useWorkers, type Workers } from '../support/use-workers.ts';
import { isRunFinished, isRunStarted, type LogLine, type WorkerProcess } from '../support/worker-process.ts';

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

const trials = repeats('TRIALS', { share: 1, full: 50 });
const seed = startSeed();
const exitWithinMs = 5000;

// Proves promise 12
it(`ends within 5 s of SIGTERM with 0, uses no attempt, and the next worker resumes (${trials} trials, seed ${seed})`, async () => {
  const world = await useWorkers({
    connectors: [
      // Once a year: one job, handed from worker to worker. Not so small that a worker ends it before it has to stop.
      {
        name: 'news',
        definition: 'email-marketing',
        size: isLong ? 'small' : { members: 800 },
        schedule: '{ cron: "0 0 1 1 *" }',
      },
    ],
    latencyMs: isLong ? 25 : 100,
    concurrency: 2,
  });
  const random = seededRandom(seed);
  const redis = new Redis(world.redis.url, { maxRetriesPerRequest: null });
  onTestFinished(() => redis.disconnect());
  let queue: Queue | null = null;
  let before: unknown = null;
  for (let trial = 0; trial < trials; trial += 1) {
    const worker = world.start();
    if (queue === null) {
      const { queues } = await worker.until((line) => line.msg === 'worker started');
      const name = (queues as readonly string[]).find((one) => one.startsWith('syncs-')) ?? 'no such queue';
      queue = new Queue(name, { connection: redis, prefix: 'connector-sync' });
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
    expect({ trial, seed, code }).toEqual({ trial, seed, code: 0 });
    expect(Date.now() - asked).toBeLessThan(exitWithinMs);
    const [job] = await queue.getJobs(['waiting', 'prioritized', 'delayed', 'active', 'failed', 'completed']);
    expect({ attempts: job?.attemptsMade, state: await job?.getState() }).toEqual({
      attempts: 0,
      state: 'waiting',
    });
  }
  await queue?.close();
  const last = world.start();
  expect(await last.until(isRunFinished)).toMatchObject({ outcome: 'ok' });
  last.child.kill('SIGTERM');
  await last.ended;
  expect(world.differences('news')).toEqual(noDifferences);
}, 300_000);

// Proves promise 12
it('runs what is scheduled with the documented rights in Redis, and waits quietly when they are taken away', async () => {
  const world = await useWorkers({
    connectors: [{ name: 'wiki', definition: 'workspace-notes', size: 'tiny', schedule: '{ every: 1h }' }],
  });
  const install = readFileSync('docs/operations/install.md', 'utf8');
  const rights = /ACL SETUSER connector-sync on >\S+ (?<rights>.+)$/m.exec(install)?.groups?.['rights'] ?? '';
  const admin = new Redis(world.redis.url);
  onTestFinished(() => admin.disconnect());
  await admin.call('ACL', 'SETUSER', 'w', 'on', '>pw', ...rights.split(' '));
  world.env.TEST_REDIS = world.redis.url.replace(/\/\/[^@]*@/, '//w:pw@');
  const worker = world.start();
  await worker.until(isRunFinished);
  await expect.poll(async () => await admin.keys('*:active')).toEqual([]);
  expect(worker.lines.filter(({ level }) => level === 'error')).toEqual([]);

  await admin.call('ACL', 'SETUSER', 'w', '-@all');
  await admin.call('CLIENT', 'KILL', 'TYPE', 'NORMAL', 'USER', 'w');
  const from = worker.lines.length;
  await worker.until(({ level }) => level === 'error', from);
  const refusals = async (): Promise<number> =>
    [...(await admin.info('commandstats')).matchAll(/rejected_calls=(\d+)/g)].reduce(
      (sum, [, count]) => sum + Number(count),
      0,
    );
  // It asks again after a rest: not one time after the other, tens of thousands of times.
  const before = await refusals();
  await vi.waitUntil(async () => (await refusals()) > before, { timeout: 20_000, interval: 100 });
  expect(await refusals()).toBeLessThan(200);
  expect(worker.lines.length - from).toBeLessThan(20);
  expect(JSON.stringify(worker.lines.slice(from))).not.toContain('"stack"');
  expect(worker.stray).toEqual([]);
  worker.child.kill('SIGTERM');
  expect(await worker.ended).toEqual({ code: 0, signal: null });
}, 60_000);

/** What a worker does for its other connectors while some of the services behind them are slow. */
const definition = 'email-marketing';

const slowServices: readonly [string, (call: HostileCall) => Reply][] = [
  ['answers drop by drop', () => drip],
  ['never answers', () => held(new Promise(() => undefined), success([]))],
];

// Proves promise 12
it.for(slowServices.slice(0, isLong ? 2 : 1))(
  'gives fast connectors their connections while the service of four others %s',
  async ([, slowly]) => {
    const slow = names('slow', 4);
    const fast = names('fast', 10);
    const { worker, server } = await startWorker({ one: slow, two: fast }, ({ connectorId, ...call }) =>
      connectorId.startsWith('id-slow') ? slowly({ connectorId, ...call }) : success([]),
    );
    await Promise.all(fast.map((name) => worker.until(endOf(name))));
    // They are as busy as they were: two runs of the sink at a time.
    const busy = new Set(
      server.calls.map(({ connectorId }) => connectorId).filter((id) => id.startsWith('id-slow')),
    );
    expect(busy.size).toBe(2);
    expect(slow.some((name) => worker.lines.some(endOf(name)))).toBe(false);
  },
);

function names(kind: string, count: number): readonly string[] {
  return Array.from({ length: count }, (_none, at) => `${kind}-${at}`);
}

const endOf =
  (connector: string) =>
  (line: LogLine): boolean =>
    isRunFinished(line) && line['connector'] === connector;

/** A worker process that makes two runs of each sink at a time, each as soon as it can. */
async function startWorker(
  connectorsBySink: Readonly<Record<string, readonly string[]>>,
  respond: (call: HostileCall) => Reply,
): Promise<{ worker: WorkerProcess; server: HostileServer }> {
  const connectors = Object.entries(connectorsBySink).flatMap(([sink, all]) =>
    all.map((name) => ({ name, definition, size: 'tiny' as const, schedule: '{ every: 1h }', sink })),
  );
  const world = await useWorkers({ connectors });
  const definitionId = builtInDefinition(definition).id;
  const server = await startHostileServer({
    connectors: connectors.map(({ name }) => ({ id: `id-${name}`, name, definitionId })),
    respond,
  });
  onTestFinished(() => server[Symbol.asyncDispose]());
  const config = readFileSync(world.config, 'utf8');
  writeFileSync(world.config, config.replace(world.service.url, server.baseUrl));
  return { worker: world.start(), server };
}

/** A byte a second, for ever. */
const drip: Reply = ({ response }) => {
  response.writeHead(200, { 'content-type': 'application/json' });
  response.write('{');
  const timer = setInterval(() => response.write(' '), 1_000);
  response.once('close', () => clearInterval(timer));
};

const schedule = '{ cron: "* * * * * *" }';
const isOf =
  (connector: string) =>
  (line: LogLine): boolean =>
    line['connector'] === connector;
const isLost = ({ msg }: LogLine): boolean =>
  msg.startsWith('this sink was moved or replaced, or is out of reach');
const isBack = ({ msg }: LogLine): boolean => msg === 'this sink is back in place';

let world: Workers;
let worker: WorkerProcess;
let url: string;

describe('a SQLite sink under a running worker', () => {
  // Proves promise 12
  it('is not served while its file is moved away, others continue, and it resumes when the file is back', async () => {
    await start(5);
    await worker.until((line) => isRunFinished(line) && isOf('news')(line));
    const [place, away] = [placeOf(), path.join(world.folder, 'away')];
    renameSync(place, away);
    const lost = await worker.until(isLost);
    expect(lost).toMatchObject({ sink: 'test', found: `nothing is at ${place}` });
    const ready = await readiness();
    expect(ready.status).toBe(503);
    expect(ready.text).toContain('sink test was moved or replaced, or is out of reach');
    expect(ready.text).not.toContain(world.folder);
    await nextRunOf('wiki');
    await nextRunOf('wiki');
    const metrics = await (await fetch(`${url}/metrics`)).text();
    expect(metrics).toMatch(/connector="news"[^\n]*entity=/);
    expect(existsSync(place)).toBe(false);
    expect(
      worker.lines.filter((line) => isRunStarted(line) && isOf('news')(line) && line.time > lost.time),
    ).toEqual([]);
    const from = worker.lines.length;
    renameSync(away, place);
    await worker.until(isBack);
    await worker.until((line) => isRunFinished(line) && isOf('news')(line), from);
    expect((await readiness()).status).toBe(200);
    expect(worker.lines.filter(isLost)).toHaveLength(1);
    await stop();
    expect(world.differences('news')).toMatchObject({ lost: 0, superfluous: 0, different: 0 });
  });

  // Proves promise 12
  it('does not read the write-ahead log of a sink into a file that was put beside it', async () => {
    await start(5);
    await worker.until((line) => isRunFinished(line) && isOf('news')(line));
    const place = placeOf();
    const other = path.join(world.folder, 'other-one');
    await makeSink(other);
    renameSync(place, path.join(world.folder, 'away'));
    renameSync(path.join(other, 'test.db'), place);
    const { found } = await worker.until(isLost);
    expect(found).toBe(`another file is at ${place}, and ${place}-wal is still that of the sink`);
  });

  // Proves promise 12
  it('gets nothing of an active run when another sink takes its place, and a restored copy resumes that run', async () => {
    await start(100);
    await worker.until((line) => isRunStarted(line) && isOf('news')(line));
    await eventually(() => Promise.resolve(world.calls('news') > 20));
    const [away, other] = [path.join(world.folder, 'away'), path.join(world.folder, 'other-one')];
    await makeSink(other);
    const before = contents(other);
    moveAll(world.folder, away);
    moveAll(other, world.folder);
    const lost = await worker.until(isLost);
    expect(String(lost['found'])).toMatch(/^another sink is at /);
    await worker.until((line) => line.msg === 'job ended' && isOf('news')(line));
    await nextRunOf('wiki');
    expect(worker.lines.some((line) => isRunFinished(line) && isOf('news')(line))).toBe(false);
    moveAll(world.folder, other);
    expect(contents(other)).toEqual(before);
    const from = worker.lines.length;
    const copy = path.join(world.folder, 'copy');
    cpSync(away, copy, { recursive: true });
    moveAll(copy, world.folder);
    await worker.until(isBack);
    const resumed = await worker.until((line) => isRunStarted(line) && isOf('news')(line), from);
    expect(resumed['continues']).toBeTruthy();
    await worker.until((line) => isRunFinished(line) && isOf('news')(line), from);
    await stop();
    expect(world.differences('news')).toMatchObject({ lost: 0, superfluous: 0, different: 0 });
  });
});

async function start(latencyMs: number): Promise<void> {
  world = await useWorkers({
    connectors: [
      { name: 'news', definition: 'email-marketing', size: 'tiny', schedule },
      { name: 'wiki', definition: 'workspace-notes', size: 'tiny', schedule, sink: 'second' },
    ],
    latencyMs,
  });
  // Runs of the other sink are many, and cost little.
  const config = readFileSync(world.config, 'utf8');
  writeFileSync(world.config, config.replace('definition: workspace-notes,', '$& include: [users],'));
  worker = world.start({ sinkWatchMs: 200, busyDelayMs: 200 }, { listen: { host: '127.0.0.1', port: 0 } });
  const { http } = await worker.until(({ msg }) => msg === 'ready for scheduled runs');
  url = String(http);
}

async function stop(): Promise<void> {
  worker.child.kill('SIGTERM');
  expect(await worker.ended).toEqual({ code: 0, signal: null });
}

async function readiness(): Promise<{ readonly status: number; readonly text: string }> {
  const answer = await fetch(`${url}/readyz`);
  return { status: answer.status, text: await answer.text() };
}

function nextRunOf(connector: string): Promise<LogLine> {
  return worker.until((line) => isRunFinished(line) && isOf(connector)(line), worker.lines.length);
}

/** The file of the sink that is moved. */
const placeOf = (): string => path.join(world.folder, 'test.db');

/** Moves a sink with what SQLite keeps beside it. Locks stay: a database's other files belong to it, they do not. */
function moveAll(from: string, to: string): void {
  mkdirSync(to, { recursive: true });
  const isMoved = (name: string): boolean => /^test\.db(-wal|-shm)?$/.test(name);
  for (const name of readdirSync(from).filter(isMoved)) {
    renameSync(path.join(from, name), path.join(to, name));
  }
}

async function makeSink(folder: string): Promise<void> {
  mkdirSync(folder);
  await using _made = await openSink(sampleSinks.sqlite.options(folder), { clock: systemClock });
}

/** Of every file, byte for byte. Reading a SQLite file may leave an empty log beside it. */
function contents(folder: string): Readonly<Record<string, string>> {
  const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) =>
    entry.isFile(),
  );
  return Object.fromEntries(
    files
      .filter(({ name }) => !/-(wal|shm)$/.test(name))
      .map(({ parentPath, name }) => path.join(parentPath, name))
      .map((file) => [
        path.relative(folder, file),
        createHash('sha256').update(readFileSync(file)).digest('hex'),
      ]),
  );
}

/** `RUNS=5000 npx vitest run test/e2e/no-leaks.test.ts` prints the figures of another number of runs. */
const runs = repeats('RUNS', { share: 6, full: 5000 });
const connectors = Array.from({ length: isLong ? 20 : 3 }, (_, index) => `notes-${index + 1}`);
/**
 * Jobs that are kept for a person to look at, at most, with a key of log lines each: of a sink, of ticks, and what each
 * schedule has.
 */
const mostKeys = 2 * 500 + 50 + 5 * connectors.length + 50;

/** Of the listings of a tiny workspace. */
const partitionsOfOne = 15;

// Proves promise 12
it.each(['sqlite', ...(isLong ? (['jsonl', 'postgres'] as const) : [])] as const)(
  `keeps nothing in memory of a run that is over, and in the ledger only its own rows (%s, ${runs} runs)`,
  { timeout: 3_600_000 },
  async (sinkType) => {
    world = await useWorkers({
      connectors: connectors.map((name) => ({
        name,
        definition: 'workspace-notes',
        size: 'tiny',
        schedule: '{ cron: "* * * * * *" }',
      })),
      latencyMs: 0,
      sinkType,
    });
    worker = world.start({}, { concurrency: 4 });
    // By then every connector has run, and what is loaded or compiled once is there.
    const warm = Math.max(2 * connectors.length, Math.min(1000, Math.round(runs / 5)));
    await runsFinished(warm);
    const before = await figures(sinkType);
    await runsFinished(before.runs + runs);
    const after = await figures(sinkType);
    const [made, rows] = [after.runs - before.runs, rowsOf(after)];
    process.stdout.write(`${JSON.stringify({ warm, before: rowsOf(before), made, after: rows })}\n`);
    expect(made).toBeGreaterThanOrEqual(runs);
    expect(worker.lines.filter((line) => isRunFinished(line) && line['outcome'] !== 'ok')).toEqual([]);
    expect(worker.stray).toEqual([]);

    // Half a kilobyte a run would be 2.5 GB in the half year of a worker with a run every 3 s.
    expect(after.heapKiB - before.heapKiB).toBeLessThan(2048 + made * 0.1);
    expect(after.files).toBeLessThanOrEqual(before.files + 25);
    expect(after.handles).toBeLessThanOrEqual(before.handles + 50);
    expect(after.listeners).toBeLessThanOrEqual(before.listeners);
    expect(after.redisKeys).toBeLessThanOrEqual(mostKeys);
    expect(after.redisClients).toBeLessThanOrEqual(before.redisClients);
    // Every run has a row, and one of counts for each entity that it stored pages of; the newest 20 of a connector have
    // a journal. No other table grows. Seen rows, progress and as many partitions as the ones of the listings read last
    // are of runs under way.
    const others = (tables: Readonly<Record<string, number>>): object =>
      Object.fromEntries(
        Object.entries(tables).filter(
          ([name]) => !/_runs|_counts|_journals|_seen|_partitions|_progress/.test(name),
        ),
      );
    expect(others(after.tables)).toEqual(others(before.tables));
    expect(after.tables['_sync_journals']).toBeLessThanOrEqual(20 * connectors.length);
    expect(after.tables['_sync_partitions']).toBeLessThanOrEqual(2 * partitionsOfOne * connectors.length);
    expect(after.ledgerKiB - before.ledgerKiB).toBeLessThan(256 + made * 8);
  },
);

async function runsFinished(number: number): Promise<void> {
  let seen = 0;
  await worker.until((line) => {
    seen += isRunFinished(line) ? 1 : 0;
    return seen >= number;
  });
}

interface Figures {
  readonly runs: number;
  readonly heapKiB: number;
  readonly rssKiB: number;
  readonly handles: number;
  readonly files: number;
  readonly listeners: number;
  readonly redisKeys: number;
  readonly redisClients: number;
  readonly ledgerKiB: number;
  readonly tables: Readonly<Record<string, number>>;
}

async function figures(sinkType: SampleSinkType): Promise<Figures> {
  const from = worker.lines.length;
  worker.child.kill('SIGUSR2');
  const line = await worker.until(({ msg }) => msg === 'figures', from);
  const number = (name: string): number => Number(line[name]);
  return {
    runs: worker.lines.filter(isRunFinished).length,
    heapKiB: number('heapKiB'),
    rssKiB: number('rssKiB'),
    handles: number('handles'),
    files: number('files'),
    listeners: number('listeners'),
    ...(await redisFigures()),
    ...ledgerFigures(sinkType),
  };
}

async function redisFigures(): Promise<Pick<Figures, 'redisKeys' | 'redisClients'>> {
  const redis = new Redis(world.redis.url);
  try {
    const clients = /connected_clients:(\d+)/.exec(await redis.info('clients'))?.[1];
    return { redisKeys: await redis.dbsize(), redisClients: Number(clients) };
  } finally {
    redis.disconnect();
  }
}

function ledgerFigures(sinkType: SampleSinkType): Pick<Figures, 'ledgerKiB' | 'tables'> {
  const [namesSql, sizeSql] =
    sinkType === 'postgres'
      ? [
          "SELECT tablename AS one FROM pg_catalog.pg_tables WHERE schemaname = current_schema() AND tablename LIKE '\\_sync%'",
          'SELECT sum(pg_total_relation_size(oid)) / 1024 AS one FROM pg_catalog.pg_class WHERE relnamespace = current_schema()::regnamespace',
        ]
      : [
          "SELECT name AS one FROM sqlite_schema WHERE type = 'table' AND name LIKE '\\_sync%' ESCAPE '\\'",
          'SELECT page_count * page_size / 1024 AS one FROM pragma_page_count, pragma_page_size',
        ];
  const values = (sql: string): readonly unknown[] =>
    (world.ledger(sql) as readonly { readonly one: unknown }[]).map(({ one }) => one);
  const names = values(namesSql).map(String);
  return {
    ledgerKiB: Number(values(sizeSql)[0]),
    tables: Object.fromEntries(
      names.map((name) => [name, Number(values(`SELECT count(*) AS one FROM "${name}"`)[0])]),
    ),
  };
}

/** For the printed line: tables that have rows, without the keys of each entity. */
function rowsOf({ tables, ...figures }: Figures): object {
  return {
    ...figures,
    ...Object.fromEntries(
      Object.entries(tables).filter(([name, rows]) => rows > 0 && !name.includes('_keys_')),
    ),
  };
}
