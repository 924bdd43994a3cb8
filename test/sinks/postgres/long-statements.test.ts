import { expect, it, onTestFinished } from 'vitest';
import { instant } from '../../../src/core/clock.ts';
import { openSink } from '../../../src/sinks/registry.ts';
import type { Sink } from '../../../src/sinks/sink-access.ts';
import type { Bench } from '../../contracts/sink/fixture.ts';
import { entityReport, identity, members, news, report } from '../../contracts/sink/fixture.ts';
import { postgresSinkKind } from '../../contracts/postgres-sink-kind.ts';
import { atPort, PagedRun } from '../../support/sinks/paged-run.ts';
import { startPostgresProxy } from '../../support/postgres-proxy.ts';
import { sharedPostgres } from '../../support/postgres.ts';
import { benchOfTest } from '../../contracts/sink/use-bench.ts';

/* Statements of a large ledger, here slowed down by triggers, against a timeout that is as much shorter. */

const usual = "'statement_timeout', '120s'";
const shorter = "'statement_timeout', '0.4s'";
const slowSeconds = 0.6;

interface World {
  readonly bench: Bench;
  readonly sink: Sink;
  /** From now on each statement that writes to the table takes so long. */
  readonly slowDown: (table: string, seconds?: number) => Promise<void>;
  readonly abort: (reason: Error) => void;
}

async function begin(): Promise<World> {
  const bench = benchOfTest(await postgresSinkKind());
  const proxy = await startPostgresProxy((await sharedPostgres()).port);
  onTestFinished(() => proxy.close());
  proxy.rule(() => ({
    fromClient: (bytes) => {
      const at = bytes.indexOf(usual);
      if (at >= 0) bytes.write(shorter, at);
      return bytes.length;
    },
    fromServer: ({ length }) => length,
  }));
  const aborting = new AbortController();
  const options = atPort(bench, proxy.port);
  // The shorter timeout is not for making the sink.
  await (await bench.open())[Symbol.asyncDispose]();
  const sink = await openSink(options, { clock: bench.clock, signal: aborting.signal });
  onTestFinished(async () => await sink[Symbol.asyncDispose]());
  return {
    bench,
    sink,
    slowDown: async (table, seconds = slowSeconds) => {
      await bench.ledger(`CREATE FUNCTION ${table}_slow() RETURNS trigger LANGUAGE plpgsql
        AS $$ BEGIN PERFORM pg_catalog.pg_sleep(${seconds}); RETURN NULL; END $$`);
      await bench.ledger(`CREATE TRIGGER slow BEFORE INSERT OR UPDATE OR DELETE ON ${table}
        FOR EACH STATEMENT EXECUTE FUNCTION ${table}_slow()`);
    },
    abort: (reason) => aborting.abort(reason),
  };
}

const everything = { entity: null, tables: [], withData: false, now: instant(0) };

it('stores no page whose statement takes longer than the timeout', async () => {
  const { bench, sink, slowDown } = await begin();
  const run = await PagedRun.begin(bench, sink);
  await slowDown('_sync_counts');
  await expect(run.store()).rejects.toMatchObject({
    code: 'SINK_FAILED',
    recovery: 'retry',
    message: expect.stringContaining('could not finish in time') as string,
  });
});

// Proves promise 1.2
it('begins, sweeps and ends a run whose statements take longer than that', async () => {
  const { bench, sink, slowDown } = await begin();
  const lease = await sink.acquire(identity());
  await slowDown('_sync_runs');
  const { run } = await sink.startRun(lease, bench.plan('r1'));
  await slowDown('_sync_missing');
  await expect(sink.deletes.sweep(lease, run, 10)).resolves.toEqual({ isDone: true });
  const entities = [entityReport(members, {})];
  await sink.finish(lease, run, report({ lease, run }, { entities }));
  expect(await bench.ledger('SELECT state FROM _sync_runs')).toEqual([{ state: 'ok' }]);
});

it('resets a connector whose statements take longer than that', async () => {
  const { bench, sink, slowDown } = await begin();
  await bench.ledger(`INSERT INTO _sync_connectors VALUES ('news', 'u', 'c', 'd', 'h', 1, '{}')`);
  await slowDown('_sync_partitions');
  await expect(sink.repair.reset(news, everything)).resolves.toEqual({ partitions: 0, rows: 0 });
});

// Proves promise 1.2
it('cancels in the server what takes that long when the process is to end', async () => {
  const { bench, sink, slowDown, abort } = await begin();
  await bench.ledger(`INSERT INTO _sync_connectors VALUES ('news', 'u', 'c', 'd', 'h', 1, '{}')`);
  await slowDown('_sync_windows', 600);
  const sleeping = `FROM pg_catalog.pg_stat_activity WHERE wait_event = 'PgSleep'`;
  const resetting = sink.repair.reset(news, everything);
  const reason = new Error('the process is to end');
  await expect.poll(async () => await bench.count(`(SELECT 1 ${sleeping}) AS one`)).toBe(1);
  abort(reason);
  await expect(resetting).rejects.toBe(reason);
  expect(await bench.count(`(SELECT 1 ${sleeping}) AS one`)).toBe(0);
});
