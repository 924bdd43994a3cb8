import { Redis } from 'ioredis';
import { expect, it } from 'vitest';
import type { SampleSinkType } from '../support/sample-sinks.ts';
import { isLong, repeats } from '../support/trials.ts';
import { useWorkers, type Workers } from '../support/use-workers.ts';
import { isRunFinished, type WorkerProcess } from '../support/worker-process.ts';

/** `RUNS=5000 npx vitest run test/e2e/no-leaks.test.ts` prints the figures of another number of runs. */
const runs = repeats('RUNS', { share: 10, full: 5000 });
const connectors = Array.from({ length: isLong ? 20 : 5 }, (_, index) => `notes-${index + 1}`);
/**
 * Jobs that are kept for a person to look at, at most, with a key of log lines each: of a sink, of ticks, and what each
 * schedule has.
 */
const mostKeys = 2 * 500 + 50 + 5 * connectors.length + 50;

/** Of the listings of a tiny workspace. */
const partitionsOfOne = 15;

let world: Workers;
let worker: WorkerProcess;

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
    // Every run has a row, and one of counts for each entity that it stored pages of; no other table grows; seen rows,
    // progress and as many partitions as the ones of the listings read last are of runs under way.
    const others = (tables: Readonly<Record<string, number>>): object =>
      Object.fromEntries(
        Object.entries(tables).filter(([name]) => !/_runs|_counts|_seen|_partitions|_progress/.test(name)),
      );
    expect(others(after.tables)).toEqual(others(before.tables));
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
