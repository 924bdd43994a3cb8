import pg from 'pg';
import { afterEach, expect, it, onTestFinished, vi } from 'vitest';
import type { RunId } from '../../../src/core/names.ts';
import { openSink } from '../../../src/sinks/registry.ts';
import type { Lease } from '../../../src/sinks/lease.ts';
import type { Sink } from '../../../src/sinks/sink-access.ts';
import { identity, manualClock, news, runPlan } from '../../contracts/sink/fixture.ts';
import { startPooler } from '../../support/postgres-pooler.ts';
import { sharedPostgres, startPostgres, type PrivatePostgres } from '../../support/postgres.ts';

/* How a holder is known to live: by a lock of its session, and by a row that it renews. */

let schemas = 0;
const sinks: Sink[] = [];

afterEach(async () => {
  vi.restoreAllMocks();
  for (const sink of sinks.splice(0)) await sink[Symbol.asyncDispose]();
});

interface World {
  readonly open: () => Promise<Sink>;
  readonly sql: (sql: string) => Promise<readonly Record<string, unknown>[]>;
}

/** A schema of its own; `port` where the sink asks another one than the server's. */
function world({ connection, url, port: own }: PrivatePostgres, port = own): World {
  schemas += 1;
  const schema = `leases_${process.pid}_${schemas}`;
  return {
    open: async () => {
      const sink = await openSink(
        {
          type: 'postgres',
          name: 'warehouse',
          connection: { ...connection, hosts: [{ host: '127.0.0.1', port }] },
          direct: null,
          schema,
          connections: 3,
          durability: 'full',
        },
        { clock: manualClock() },
      );
      sinks.push(sink);
      return sink;
    },
    sql: async (sql) => {
      const client = new pg.Client({ connectionString: url });
      await client.connect();
      try {
        await client.query(`SET search_path = "${schema}"`);
        return (await client.query<Record<string, unknown>>(sql)).rows;
      } finally {
        await client.end();
      }
    },
  };
}

const runOut = "UPDATE _sync_leases SET until = clock_timestamp() - interval '1 second'";
const leaseRow = `SELECT epoch::integer AS epoch, backend_pid AS pid, until > clock_timestamp() + interval '25 seconds' AS is_fresh,
  EXISTS (SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND pid = backend_pid AND granted) AS is_locked FROM _sync_leases`;
const busy = { code: 'CONNECTOR_BUSY' };
const fenced = { code: 'FENCED', recovery: 'retry' };

// Proves promise 11.1
it('takes a connector whose lease has run out, and refuses the one that held it from then on', async () => {
  const { open, sql } = world(await sharedPostgres());
  const [first, second] = [await open(), await open()];
  const old = await first.acquire(identity());
  await expect(second.acquire(identity())).rejects.toMatchObject(busy);
  await sql(runOut);
  await expect(first.left(old), 'nobody has taken it').resolves.toEqual([]);
  await using taken = await second.acquire(identity());
  expect(taken.epoch).toBe(2);
  await expect(first.left(old)).rejects.toMatchObject(fenced);
  await old[Symbol.asyncDispose]();
  expect(await sql(leaseRow), 'given back by the old one, the new lease stands').toMatchObject([
    { epoch: 2, is_fresh: true },
  ]);
});

// Proves promise 11.1
it('renews a lease that it has not heard of for long before it writes, and stops where it was overtaken', async () => {
  const { open, sql } = world(await sharedPostgres());
  const sink = await open();
  const lease = await sink.acquire(identity());
  await sql(runOut);
  const now = performance.now.bind(performance);
  let ahead = 25_000;
  vi.spyOn(performance, 'now').mockImplementation(() => now() + ahead);
  await sink.left(lease);
  expect(await sql(leaseRow)).toMatchObject([{ is_fresh: true, is_locked: true }]);
  await sql('UPDATE _sync_leases SET epoch = epoch + 1');
  await expect(sink.left(lease), 'believed for a while').resolves.toEqual([]);
  ahead *= 2;
  await expect(sink.left(lease)).rejects.toMatchObject(fenced);
});

// Proves promise 11.1
it('locks again what a broken session had locked, and stays its holder', async () => {
  const { open, sql } = world(await sharedPostgres());
  const [first, second] = [await open(), await open()];
  const lease = await first.acquire(identity());
  const [before] = await sql(leaseRow);
  await sql('SELECT pg_terminate_backend(backend_pid) FROM _sync_leases');
  await vi.waitFor(async () => {
    const [now] = await sql(leaseRow);
    expect(now).toMatchObject({ epoch: 1, is_locked: true });
    expect(now?.['pid']).not.toBe(before?.['pid']);
  }, 5_000);
  await expect(second.acquire(identity())).rejects.toMatchObject(busy);
  await expect(first.left(lease)).resolves.toEqual([]);
});

it('does not take a restart of the server for the end of all holders', async () => {
  const postgres = await startPostgres();
  onTestFinished(async () => await postgres.stop());
  const { open, sql } = world(postgres);
  const [first, second] = [await open(), await open()];
  const lease = await first.acquire(identity());
  await postgres.restart();
  await expect(second.acquire(identity())).rejects.toMatchObject(busy);
  await vi.waitFor(async () => expect(await sql(leaseRow)).toMatchObject([{ is_locked: true }]), 20_000);
  await expect(first.left(lease)).resolves.toEqual([]);
  for (const sink of sinks.splice(0)) await sink[Symbol.asyncDispose]();
}, 60_000);

it('waits out a restart of the server, whether a connector is being taken or is held', async () => {
  const postgres = await startPostgres();
  onTestFinished(async () => await postgres.stop());
  const { open, sql } = world(postgres);
  const sink = await open();
  const away = async <Result>(ask: () => Promise<Result>): Promise<Result> => {
    await postgres.kill();
    const [answer] = await Promise.all([ask(), postgres.restart()]);
    return answer;
  };
  const lease = await away(async () => await sink.acquire(identity()));
  expect(await sql(leaseRow)).toMatchObject([{ epoch: 1, is_fresh: true, is_locked: true }]);
  expect(await away(async () => await sink.left(lease))).toEqual([]);
  for (const one of sinks.splice(0)) await one[Symbol.asyncDispose]();
}, 60_000);

// Proves promise 11.1
it('asks for no lock through a pooler, and goes by the lease alone', async () => {
  const postgres = await sharedPostgres();
  const pooler = await startPooler(postgres.port);
  onTestFinished(async () => {
    for (const sink of sinks.splice(0)) await sink[Symbol.asyncDispose]();
    await pooler.close();
  });
  const { open, sql } = world(postgres, pooler.port);
  const [first, second, third] = [await open(), await open(), await open()];
  const old = await first.acquire(identity());
  expect(await sql(leaseRow)).toMatchObject([{ epoch: 1, pid: null, is_fresh: true }]);
  await expect(second.acquire(identity())).rejects.toMatchObject(busy);
  await sql(runOut);
  const taken = await second.acquire(identity());
  expect(taken.epoch).toBe(2);
  await expect(first.left(old)).rejects.toMatchObject(fenced);
  await taken[Symbol.asyncDispose]();
  await using next = await third.acquire(identity());
  expect(next.epoch, 'a lease that is given back ends at once').toBe(3);
});

it('refuses a call that waits for its turn when the lease is given back', async () => {
  const { open } = world(await sharedPostgres());
  const sink = await open();
  const lease = await sink.acquire(identity());
  const first = sink.startRun(lease, runPlan('r1'));
  const second = sink.startRun(lease, runPlan('r2'));
  const givenBack = lease[Symbol.asyncDispose]();
  await expect(second).rejects.toMatchObject({ code: 'FENCED' });
  await Promise.all([first, givenBack]);
  expect(await sink.history.run('r2' as RunId)).toBeNull();
});

// Proves promise 11.1
it('gives one of many that ask at once the connector', async () => {
  const { open } = world(await sharedPostgres());
  const all = [await open(), await open(), await open(), await open()];
  const asked = await Promise.allSettled(all.map(async (sink) => await sink.acquire(identity())));
  const leases = asked.flatMap((one): Lease[] => (one.status === 'fulfilled' ? [one.value] : []));
  expect(leases.map(({ connector }) => connector)).toEqual([news]);
  const refused = asked.flatMap((one): unknown[] => (one.status === 'rejected' ? [one.reason] : []));
  for (const reason of refused) expect(reason).toMatchObject(busy);
});
