import { setTimeout as pause } from 'node:timers/promises';
import pg from 'pg';
import { expect, it, onTestFinished } from 'vitest';
import { openSink } from '../../../src/sinks/registry.ts';
import type { Bench } from '../../contracts/sink/fixture.ts';
import { postgresSinkKind } from '../../contracts/postgres-sink-kind.ts';
import { startPostgresProxy } from '../../support/postgres-proxy.ts';
import { sharedPostgres } from '../../support/postgres.ts';
import { atPort, PagedRun, rowsPerPage } from '../../support/sinks/paged-run.ts';
import { benchOfTest } from '../../contracts/sink/use-bench.ts';

/* Each statement of a commit waits for its table, longer than a lock or a statement may take. */

const tables = [
  '_sync_partitions',
  'news__members',
  '_sync_tables',
  '_sync_seen',
  '_sync_counters',
  '_sync_meta',
  '_sync_counts',
];

/** A timeout of every transaction, and a shorter one of as many letters, so that a test need not wait for it. */
const shortened = { lock_timeout: ["'10s'", "'9ms'"], statement_timeout: ["'120s'", "'90ms'"] } as const;

interface World {
  readonly bench: Bench;
  readonly run: PagedRun;
  /** From now on the timeout is the shorter one, or the usual one again. */
  readonly shorten: (name: keyof typeof shortened | null) => void;
  /** Locks the table for all others; gives what ends that. */
  readonly lock: (table: string) => Promise<() => Promise<unknown>>;
}

async function begin(): Promise<World> {
  const { port, url } = await sharedPostgres();
  const bench = benchOfTest(await postgresSinkKind());
  const proxy = await startPostgresProxy(port);
  onTestFinished(() => proxy.close());
  let short: keyof typeof shortened | null = null;
  proxy.rule(() => ({
    fromClient: (bytes) => {
      if (short === null) return bytes.length;
      const [usual, shorter] = shortened[short];
      const at = bytes.indexOf(`'${short}', ${usual}`);
      if (at >= 0) bytes.write(shorter, at + `'${short}', `.length);
      return bytes.length;
    },
    fromServer: ({ length }) => length,
  }));
  const options = atPort(bench, proxy.port);
  const sink = await openSink(options, { clock: bench.clock });
  onTestFinished(async () => await sink[Symbol.asyncDispose]());
  const run = await PagedRun.begin(bench, sink);
  await run.store();
  return {
    bench,
    run,
    shorten: (name) => void (short = name),
    lock: async (table) => {
      const client = new pg.Client({ connectionString: url });
      await client.connect();
      await client.query(`BEGIN; LOCK TABLE "${options.schema}".${table} IN ACCESS EXCLUSIVE MODE`);
      return async () => await client.end();
    },
  };
}

it.each(tables)(
  'runs a commit again that waits too long for a lock of %s, and counts it once',
  async (table) => {
    const { run, shorten, lock } = await begin();
    shorten('lock_timeout');
    const unlock = await lock(table);
    let isStored = false;
    const storing = run.store().then(() => (isStored = true));
    await pause(100);
    expect(isStored).toBe(false);
    await unlock();
    await storing;
    shorten(null);
    await run.finish();
  },
);

it.each(tables)(
  'stores nothing of a commit whose statement takes too long at %s, and stores it later',
  async (table) => {
    const { bench, run, shorten, lock } = await begin();
    shorten('statement_timeout');
    const unlock = await lock(table);
    await expect(run.store()).rejects.toMatchObject({ code: 'SINK_FAILED', recovery: 'retry' });
    shorten(null);
    await unlock();
    expect(await bench.rows()).toHaveLength(rowsPerPage);
    await run.store();
    await run.finish();
  },
);
