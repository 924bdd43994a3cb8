import pg from 'pg';
import { expect, it, onTestFinished } from 'vitest';
import { openExistingRecords, openSink } from '../../../src/sinks/registry.ts';
import type { Sink, SinkOptions } from '../../../src/sinks/sink-access.ts';
import {
  Bench,
  identity,
  member,
  members,
  membersTable,
  news,
  onlyPartition,
  page,
  sealed,
  type Started,
} from '../../contracts/sink/fixture.ts';
import { postgresSinkKind } from '../../contracts/postgres-sink-kind.ts';
import { startPostgres } from '../../support/postgres.ts';

/* A standby that lacks the newest commits of its primary is promoted. */

// Proves promise 1.1
it('resumes after a failover from what the new primary has, and gives no number of a change twice', async () => {
  const bench = new Bench(await postgresSinkKind());
  const primary = await startPostgres();
  onTestFinished(async () => await primary.stop());
  const standby = await startPostgres({ standbyOf: primary });
  onTestFinished(async () => await standby.stop());
  const options: SinkOptions = {
    type: 'postgres',
    name: 'warehouse',
    connection: {
      ...primary.connection,
      hosts: [...primary.connection.hosts, ...standby.connection.hosts],
    },
    direct: {
      ...primary.connection,
      hosts: [...standby.connection.hosts, ...primary.connection.hosts],
    },
    schema: 'warehouse',
    connections: 3,
    durability: 'full',
  };
  const sink = await openSink(options, { clock: bench.clock });
  onTestFinished(async () => await sink[Symbol.asyncDispose]());
  const lease = await sink.acquire(identity());
  expect(await ask(primary.url, heldLocks), 'of the two, its lock is on the primary').toEqual([{ held: 1 }]);
  const started = await begin(sink, bench, lease, 'r1');
  const { id } = await onlyPartition(sink, lease);
  await store(sink, started, id, 1);
  await caughtUp(primary.url, standby.url);
  await standby.kill();
  await store(sink, started, id, 2);
  const { newest: seen, keys } = await look(options);
  expect(keys).toEqual(['1', '2']);

  await primary.kill();
  await standby.restart();
  await ask(standby.url, 'SELECT pg_promote()');
  await expect(store(sink, started, id, 3), 'what it believes to be stored is gone').rejects.toMatchObject({
    code: 'FENCED',
  });
  await lease[Symbol.asyncDispose]();
  expect(await look(options)).toMatchObject({ keys: ['1'] });

  const again = await sink.acquire(identity());
  expect(await ask(standby.url, heldLocks), 'it has moved with the server').toEqual([{ held: 1 }]);
  const next = await begin(sink, bench, again, 'r2');
  const { position } = await onlyPartition(sink, again);
  expect(position).toEqual({ kind: 'offset', offset: 1 });
  await store(sink, next, id, 2);
  await store(sink, next, id, 3, true);
  const after = await look(options);
  expect(after.keys).toEqual(['1', '2', '3']);
  expect(after.newest).toBeGreaterThan(seen + 1_000_000);
  expect(
    after.seqs.filter((seq) => seq > 1 && seq <= seen),
    'a reader resumes from its number',
  ).toEqual([]);
}, 120_000);

const heldLocks = `SELECT count(*)::integer AS held FROM warehouse._sync_leases
  JOIN pg_locks ON locktype = 'advisory' AND pid = backend_pid AND granted`;

async function begin(sink: Sink, bench: Bench, lease: Started['lease'], run: string): Promise<Started> {
  const plan = bench.plan(run);
  await sink.startRun(lease, plan);
  return { lease, run: plan.run };
}

/** The page of this one record, and of the whole walk where it is the last. */
async function store(sink: Sink, started: Started, id: number, key: number, isLast = false): Promise<void> {
  const position = { kind: 'offset', offset: key } as const;
  const change = { entity: members, position, seal: isLast ? sealed : null };
  await sink.commit(started.lease, [page(started, id, [member(String(key))], change)]);
}

async function look(
  options: SinkOptions,
): Promise<{ readonly newest: number; readonly keys: readonly unknown[]; readonly seqs: readonly number[] }> {
  await using reader = await openExistingRecords(options);
  if (reader === null) throw new Error('the sink should be there');
  const keys: unknown[] = [];
  const seqs: number[] = [];
  for await (const batch of reader.changes(news, membersTable, 0)) {
    keys.push(...batch.map(({ values }) => values[1]));
    seqs.push(...batch.map(({ seq }) => seq));
  }
  return { newest: await reader.newestSeq(news), keys, seqs };
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

async function caughtUp(primary: string, standby: string): Promise<void> {
  const [written] = await ask(primary, 'SELECT pg_current_wal_lsn()::text AS lsn');
  for (;;) {
    const [found] = await ask(
      standby,
      `SELECT pg_last_wal_replay_lsn() >= '${String(written?.['lsn'])}'::pg_lsn AS is_there`,
    );
    if (found?.['is_there'] === true) return;
  }
}
