import pg from 'pg';
import { afterAll, describe, expect, it, onTestFinished } from 'vitest';
import { openSink } from '../../../src/sinks/registry.ts';
import type { Bench } from '../../contracts/sink/fixture.ts';
import { identity, type SinkKind } from '../../contracts/sink/fixture.ts';
import { holding } from '../../contracts/sink/holding.ts';
import { postgresSinkKind, postgresSinkKindOn } from '../../contracts/postgres-sink-kind.ts';
import { isLong } from '../../support/trials.ts';
import { findPgbouncer, startPgbouncer } from '../../support/pgbouncer.ts';
import { sharedPostgres, startPostgres } from '../../support/postgres.ts';
import { atPort, PagedRun } from '../../support/sinks/paged-run.ts';
import { benchOfTest } from '../../contracts/sink/use-bench.ts';

/*
 * A pooler that gives a connection of the server to the client that has a transaction: nothing of a session stays, and
 * any client may get its locks.
 */

const program = findPgbouncer();
const locks = `SELECT count(*)::integer AS count FROM pg_locks WHERE locktype = 'advisory'
  AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`;

if (program === null) {
  it.skip('a sink behind pgbouncer: this needs the program; install Debian package pgbouncer', () =>
    undefined);
} else {
  const pooler = await startPgbouncer(program, (await sharedPostgres()).port);
  const direct = await postgresSinkKind();
  const kind: SinkKind = {
    ...direct,
    freeWithinMs: 30_000,
    options: (folder) => atPort({ kind: direct, folder }, pooler.port),
    open: async (folder, how) => await openSink(kind.options(folder), how),
  };
  const begin = (): Bench => {
    const bench = benchOfTest(kind);
    return bench;
  };
  afterAll(async () => await pooler.stop());

  describe('a sink behind pgbouncer', () => {
    // Half a minute for each holder that is gone: nothing says sooner that it was killed.
    describe.runIf(isLong)('holding', () => {
      holding(kind);
    });

    it('stores a run without a lock of a session', async () => {
      const bench = begin();
      const run = await PagedRun.begin(bench, await bench.open());
      for (let stored = 0; stored < 20; stored += 1) await run.store();
      expect(await bench.ledger(locks)).toEqual([{ count: 0 }]);
      expect(await bench.ledger('SELECT backend_pid FROM _sync_leases')).toEqual([{ backend_pid: null }]);
      await run.finish();
    });

    it('has its lock on a connection around the pooler where the settings name one', async () => {
      const bench = begin();
      const { connection } = await sharedPostgres();
      const options = { ...atPort(bench, pooler.port), direct: connection };
      await using sink = await openSink(options, { clock: bench.clock });
      await using lease = await sink.acquire(identity());
      expect(lease.epoch).toBe(1);
      expect(await bench.ledger(locks)).toEqual([{ count: 1 }]);
    });

    // Proves promise 11.1
    it('overtakes a holder when the pooler turns to a promoted standby, which breaks no connection', async () => {
      const primary = await startPostgres();
      onTestFinished(async () => await primary.stop());
      const standby = await startPostgres({ standbyOf: primary });
      onTestFinished(async () => await standby.stop());
      const between = await startPgbouncer(program, primary.port);
      onTestFinished(async () => await between.stop());
      const bench = benchOfTest(await postgresSinkKindOn(primary));
      const sink = await openSink(atPort(bench, between.port), { clock: bench.clock });
      onTestFinished(async () => await sink[Symbol.asyncDispose]());
      const run = await PagedRun.begin(bench, sink);
      await run.store();
      await standby.kill();
      await run.store();
      await primary.kill();
      await standby.restart();
      await ask(standby.url, 'SELECT pg_promote()');
      between.pointTo(standby.port);
      const leadsTo = async (): Promise<unknown> =>
        (
          await ask(
            `postgresql://sync@127.0.0.1:${between.port}/postgres`,
            'SELECT inet_server_port() AS port',
          )
        )[0]?.['port'];
      await expect.poll(leadsTo, { timeout: 20_000 }).toBe(standby.port);
      await expect(run.store()).rejects.toMatchObject({ code: 'FENCED' });
      const { schema } = atPort(bench, 0);
      const [{ seq } = {}] = await ask(
        standby.url,
        `SELECT seq::float8 AS seq FROM ${schema}._sync_counters`,
      );
      // The standby may lack both commits: what they were given is below this all the same.
      expect(seq).toBeGreaterThanOrEqual(2 ** 32);
    });
  });
}

async function ask(url: string, sql: string): Promise<readonly Record<string, unknown>[]> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    return (await client.query<Record<string, unknown>>(sql)).rows;
  } finally {
    await client.end();
  }
}
