import { setTimeout as pause } from 'node:timers/promises';
import { afterEach, expect, it, onTestFinished, vi, afterAll, describe } from 'vitest';
import { SyncError } from '../../../src/core/errors.ts';
import type { RunId } from '../../../src/core/names.ts';
import { ConnectorBusyError } from '../../../src/sinks/sink-errors.ts';
import type { Lease } from '../../../src/sinks/lease.ts';
import { openSink, openExistingRecords } from '../../../src/sinks/registry.ts';
import type { Sink, SinkOptions } from '../../../src/sinks/sink-access.ts';
import { postgresSinkKind, postgresSinkKindOn } from '../../contracts/postgres-sink-kind.ts';
import {
  identity,
  news,
  runPlan,
  type Bench,
  type Walking,
  member,
  membersTable,
  sealed,
  type SinkKind,
} from '../../contracts/sink/fixture.ts';
import { holding } from '../../contracts/sink/holding.ts';
import { benchOfTest } from '../../contracts/sink/use-bench.ts';
import { startPooler } from '../../support/postgres-proxy.ts';
import { askPostgres, sharedPostgres, startPostgres } from '../../support/postgres.ts';
import { seededRandom } from '../../support/seeded-random.ts';
import {
  atPort,
  openAt,
  openBehindProxy,
  PagedRun,
  postgresOptions,
  rowsPerPage,
  startHost,
  until,
  type Told,
} from '../../support/sinks/paged-run.ts';
import { isLong, startSeed } from '../../support/trials.ts';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, chownSync, existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { freePort } from '../../support/redis.ts';

/** The program, or null where Debian package pgbouncer is missing. */
function findPgbouncer(): string | null {
  const folders = [...(process.env['PATH'] ?? '').split(delimiter), '/usr/sbin'];
  return folders.map((folder) => join(folder, 'pgbouncer')).find((file) => existsSync(file)) ?? null;
}

/** It refuses to run as root. */
const nobody = process.getuid?.() === 0 ? { uid: 65_534, gid: 65_534 } : null;

/** A pooler in transaction mode in front of the server at this port of loopback, for user `sync`. */
async function startPgbouncer(program: string, serverPort: number) {
  const folder = mkdtempSync(join(tmpdir(), 'connector-sync-pgbouncer-'));
  const port = await freePort();
  const file = join(folder, 'pgbouncer.ini');
  const settings = (pointedTo: number): readonly string[] => [
    '[databases]',
    `* = host=127.0.0.1 port=${pointedTo}`,
    '[pgbouncer]',
    'listen_addr = 127.0.0.1',
    `listen_port = ${port}`,
    'unix_socket_dir =',
    'pool_mode = transaction',
    'auth_type = trust',
    `auth_file = ${join(folder, 'users')}`,
  ];
  writeFileSync(file, settings(serverPort).join('\n'));
  writeFileSync(join(folder, 'users'), '"sync" ""\n');
  for (const name of ['', 'pgbouncer.ini', 'users']) {
    if (nobody !== null) chownSync(join(folder, name), nobody.uid, nobody.gid);
  }
  chmodSync(folder, 0o700);
  const child = spawn(program, [file], { ...nobody, cwd: folder, stdio: 'ignore' });
  const exited = once(child, 'exit');
  while (!(await isListening(port))) {
    if (child.exitCode !== null) throw new Error(`pgbouncer ended with ${child.exitCode}`);
    await pause(50);
  }
  return {
    port,
    /** Has clients talk to the server at this port from their next transaction on; they stay connected. */
    pointTo: (pointedTo: number) => {
      writeFileSync(file, settings(pointedTo).join('\n'));
      child.kill('SIGHUP');
    },
    stop: async () => {
      child.kill('SIGKILL');
      await exited;
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

async function isListening(port: number): Promise<boolean> {
  const socket = connect(port, '127.0.0.1');
  try {
    await once(socket, 'connect');
    return true;
  } catch {
    return false;
  } finally {
    socket.destroy();
  }
}

const kind = await postgresSinkKind();

describe('leases', () => {
  /* How a holder is known to live: by a lock of its session, and by a row that it renews. */

  afterEach(() => void vi.restoreAllMocks());

  const runOut = "UPDATE _sync_leases SET until = clock_timestamp() - interval '1 second'";
  const leaseRow = `SELECT epoch::integer AS epoch, backend_pid AS pid, until > clock_timestamp() + interval '25 seconds' AS is_fresh,
  EXISTS (SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND pid = backend_pid AND granted) AS is_locked FROM _sync_leases`;
  const busy = { code: 'CONNECTOR_BUSY' };
  const fenced = { code: 'FENCED', recovery: 'retry' };

  // Proves promise 11.1
  it('takes a connector whose lease has run out, and refuses the one that held it from then on', async () => {
    const bench = benchOfTest(kind);
    const [first, second] = [await bench.open(), await bench.open()];
    const old = await first.acquire(identity());
    await expect(second.acquire(identity())).rejects.toMatchObject(busy);
    await bench.ledger(runOut);
    await expect(first.left(old), 'nobody has taken it').resolves.toEqual([]);
    await using taken = await second.acquire(identity());
    expect(taken.epoch).toBe(2);
    await expect(first.left(old)).rejects.toMatchObject(fenced);
    await old[Symbol.asyncDispose]();
    expect(await bench.ledger(leaseRow), 'given back by the old one, the new lease stands').toMatchObject([
      { epoch: 2, is_fresh: true },
    ]);
  });

  // Proves promise 11.1
  it('renews a lease that it has not heard of for long before it writes, and stops where it was overtaken', async () => {
    const bench = benchOfTest(kind);
    const sink = await bench.open();
    const lease = await sink.acquire(identity());
    await bench.ledger(runOut);
    const now = performance.now.bind(performance);
    let ahead = 25_000;
    vi.spyOn(performance, 'now').mockImplementation(() => now() + ahead);
    await sink.left(lease);
    expect(await bench.ledger(leaseRow)).toMatchObject([{ is_fresh: true, is_locked: true }]);
    await bench.ledger('UPDATE _sync_leases SET epoch = epoch + 1');
    await expect(sink.left(lease), 'believed for a while').resolves.toEqual([]);
    ahead *= 2;
    await expect(sink.left(lease)).rejects.toMatchObject(fenced);
  });

  // Proves promise 11.1
  it('locks again what a broken session had locked, and stays its holder', async () => {
    const bench = benchOfTest(kind);
    const [first, second] = [await bench.open(), await bench.open()];
    const lease = await first.acquire(identity());
    const [before] = await bench.ledger(leaseRow);
    await bench.ledger('SELECT pg_terminate_backend(backend_pid) FROM _sync_leases');
    await vi.waitFor(async () => {
      const [now] = await bench.ledger(leaseRow);
      expect(now).toMatchObject({ epoch: 1, is_locked: true });
      expect(now?.['pid']).not.toBe(before?.['pid']);
    }, 5_000);
    await expect(second.acquire(identity())).rejects.toMatchObject(busy);
    await expect(first.left(lease)).resolves.toEqual([]);
  });

  it('waits out a restart of the server, whether a connector is being taken or is held', async () => {
    const postgres = await startPostgres();
    onTestFinished(async () => await postgres.stop());
    const bench = benchOfTest(await postgresSinkKindOn(postgres));
    const sink = await bench.open();
    const away = async <Result>(ask: () => Promise<Result>): Promise<Result> => {
      await postgres.kill();
      const [answer] = await Promise.all([ask(), postgres.restart()]);
      return answer;
    };
    const lease = await away(async () => await sink.acquire(identity()));
    expect(await bench.ledger(leaseRow)).toMatchObject([{ epoch: 1, is_fresh: true, is_locked: true }]);
    expect(await away(async () => await sink.left(lease))).toEqual([]);
  }, 60_000);

  // Proves promise 11.1
  it('asks for no lock through a pooler, and goes by the lease alone', async () => {
    const postgres = await sharedPostgres();
    const pooler = await startPooler(postgres.port);
    onTestFinished(() => pooler.close());
    const bench = benchOfTest(kind);
    const open = async () => await openAt(bench, atPort(bench, pooler.port));
    const [first, second, third] = [await open(), await open(), await open()];
    const old = await first.acquire(identity());
    expect(await bench.ledger(leaseRow)).toMatchObject([{ epoch: 1, pid: null, is_fresh: true }]);
    await expect(second.acquire(identity())).rejects.toMatchObject(busy);
    await bench.ledger(runOut);
    const taken = await second.acquire(identity());
    expect(taken.epoch).toBe(2);
    await expect(first.left(old)).rejects.toMatchObject(fenced);
    await taken[Symbol.asyncDispose]();
    await using next = await third.acquire(identity());
    expect(next.epoch, 'a lease that is given back ends at once').toBe(3);
  });

  it('refuses a call that waits for its turn when the lease is given back', async () => {
    const bench = benchOfTest(kind);
    const sink = await bench.open();
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
    const bench = benchOfTest(kind);
    const all = [await bench.open(), await bench.open(), await bench.open(), await bench.open()];
    const asked = await Promise.allSettled(all.map(async (sink) => await sink.acquire(identity())));
    const leases = asked.flatMap((one): Lease[] => (one.status === 'fulfilled' ? [one.value] : []));
    expect(leases.map(({ connector }) => connector)).toEqual([news]);
    const refused = asked.flatMap((one): unknown[] => (one.status === 'rejected' ? [one.reason] : []));
    for (const reason of refused) expect(reason).toMatchObject(busy);
  });
});

/* The server does not learn that a host has vanished: its lease runs out, and what it sends later is refused. */

const takenOverMs = 40_000;

/**
 * Has the first of two hosts vanish in the middle of its walk and come back; gives how long no host held the connector.
 */
async function takeOver(
  bench: Bench,
  told: Told[],
  { vanish, comeBack }: { readonly vanish: () => unknown; readonly comeBack: () => unknown },
): Promise<number> {
  const storedBy = (epoch: number): number =>
    told.filter((one) => one.kind === 'stored' && one.epoch === epoch).length;
  await until(() => storedBy(1) > 20);
  await pause(seededRandom(startSeed())() * 1_000);
  vanish();
  const vanishedMs = performance.now();
  await until(() => storedBy(2) > 0);
  const takenMs = performance.now() - vanishedMs;
  console.log(`the other host stored its first page ${(takenMs / 1_000).toFixed(1)} s later`);
  comeBack();
  await until(() => told.some(({ kind }) => kind === 'failed'));
  expect(told.filter(({ kind }) => kind === 'failed')).toEqual([
    { kind: 'failed', epoch: 1, code: 'FENCED' },
  ]);
  const before = storedBy(2);
  await until(() => storedBy(2) > before + 20);
  const rows = (await bench.rows()).toSorted((one, other) => Number(one['_seq']) - Number(other['_seq']));
  expect(new Set(rows.map(({ _seq }) => _seq)).size, 'no number twice').toBe(rows.length);
  expect(rows.length % rowsPerPage, 'no page torn').toBe(0);
  const runs = rows.map(({ _run_id: run }) => run as string);
  expect(runs, 'nothing of the old one behind the new one').toEqual(runs.toSorted());
  const offsets = told.filter((one) => one.kind === 'stored').map((one) => one.page);
  expect(new Set(offsets).size, 'no page was told twice').toBe(offsets.length);
  return takenMs;
}

// Proves promise 11.1
it.runIf(isLong)(
  'takes over from a host that hangs within 40 s, though its clock is a minute ahead, and refuses its late commit',
  async () => {
    const bench = benchOfTest(kind);
    await (await bench.open())[Symbol.asyncDispose]();
    const told: Told[] = [];
    const first = startHost(bench, told, 60_000);
    await until(() => told.length > 0);
    startHost(bench, told);
    const takenMs = await takeOver(bench, told, {
      vanish: () => first.kill('SIGSTOP'),
      comeBack: () => first.kill('SIGCONT'),
    });
    expect(takenMs).toBeGreaterThan(15_000);
    expect(takenMs).toBeLessThan(takenOverMs);
  },
  120_000,
);

/**
 * What the host has sent last of a commit, and how many bytes of these messages that are; -1: none of it is in them.
 */
const points: readonly (readonly [string, (messages: Buffer) => number])[] = [
  [
    'its first statements',
    (messages) => (messages.includes('BEGIN ISOLATION LEVEL READ COMMITTED\0') ? messages.length : -1),
  ],
  ['its last question', (messages) => (messages.includes('SELECT chunk, bits') ? messages.length : -1)],
  ['a part of its rows', (messages) => messages.indexOf('PGCOPY') + (messages.includes('PGCOPY') ? 200 : 0)],
  ['all but COMMIT', (messages) => messages.indexOf('COMMIT\0')],
];

// Proves promise 11.1
it.runIf(isLong)(
  'takes over within 40 s wherever in a transaction a host was cut off, and refuses what it sends again',
  async () => {
    const cutOff = async ([name, lastBytes]: (typeof points)[number]): Promise<unknown> => {
      const bench = benchOfTest(kind);
      const { proxy, sink } = await openBehindProxy(bench);
      const run = await PagedRun.begin(bench, sink);
      await run.store();
      let isCut = false;
      proxy.rule(() => ({
        fromClient: (messages) => {
          const last = lastBytes(messages);
          if (isCut || last === -1) return messages.length;
          isCut = true;
          proxy.vanish();
          return last;
        },
        fromServer: ({ length }) => length,
      }));
      const late = run.store().catch((error: unknown) => error);
      await until(() => isCut);
      const vanishedMs = performance.now();
      const other = await bench.open();
      const next = await begunWhenFree(bench, other);
      const takenMs = performance.now() - vanishedMs;
      proxy.comeBack();
      const [refused] = await Promise.all([late, next.store()]);
      const rows = await bench.rows();
      const code = refused instanceof SyncError ? refused.code : refused;
      return { name, code, rows: rows.length, isInTime: takenMs < takenOverMs };
    };
    expect(await Promise.all(points.map(cutOff))).toEqual(
      points.map(([name]) => ({ name, code: 'FENCED', rows: 2 * rowsPerPage, isInTime: true })),
    );
  },
  120_000,
);

async function begunWhenFree(bench: Bench, sink: Sink): Promise<PagedRun> {
  for (;;) {
    try {
      return await PagedRun.begin(bench, sink);
    } catch (error) {
      if (!(error instanceof ConnectorBusyError)) throw error;
    }
    await pause(200);
  }
}

/* A standby that lacks the newest commits of its primary is promoted. */

// Proves promise 1.1
it('resumes after a failover from what the new primary has, and gives no number of a change twice', async () => {
  const bench = benchOfTest(kind);
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
  const sink = await openAt(bench, options);
  const first = await bench.walking('r1', {}, { sink });
  const locked = await askPostgres(primary.url, heldLocks);
  expect(locked, 'of the two, its lock is on the primary').toEqual([{ held: 1 }]);
  await store(first, 1);
  await caughtUp(primary.url, standby.url);
  await standby.kill();
  await store(first, 2);
  const { newest: seen, keys } = await look(options);
  expect(keys).toEqual(['1', '2']);

  await primary.kill();
  await standby.restart();
  await askPostgres(standby.url, 'SELECT pg_promote()');
  await expect(store(first, 3), 'what it believes to be stored is gone').rejects.toMatchObject({
    code: 'FENCED',
  });
  await first.release();
  expect(await look(options)).toMatchObject({ keys: ['1'] });

  const next = await bench.walking('r2', {}, { sink });
  expect(await askPostgres(standby.url, heldLocks), 'it has moved with the server').toEqual([{ held: 1 }]);
  expect(next.position).toEqual({ kind: 'offset', offset: 1 });
  await store(next, 2);
  await store(next, 3, true);
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

/** The page of this one record, and of the whole walk where it is the last. */
async function store(walk: Walking, key: number, isLast = false): Promise<void> {
  const position = { kind: 'offset', offset: key } as const;
  await walk.commit([member(String(key))], { position, seal: isLast ? sealed : null });
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

async function caughtUp(primary: string, standby: string): Promise<void> {
  const [written] = await askPostgres(primary, 'SELECT pg_current_wal_lsn()::text AS lsn');
  for (;;) {
    const [found] = await askPostgres(
      standby,
      `SELECT pg_last_wal_replay_lsn() >= '${String(written?.['lsn'])}'::pg_lsn AS is_there`,
    );
    if (found?.['is_there'] === true) return;
  }
}

describe('pgbouncer', async () => {
  /*
   * A pooler that gives a connection of the server to the client that has a transaction: nothing of a session
   * stays, and any client may get its locks.
   */

  const program = findPgbouncer();
  const locks = `SELECT count(*)::integer AS count FROM pg_locks WHERE locktype = 'advisory'
  AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`;

  if (program === null) {
    it.skip('a sink behind pgbouncer: this needs the program; install Debian package pgbouncer', () =>
      undefined);
  } else {
    const pooler = await startPgbouncer(program, (await sharedPostgres()).port);
    const pooled: SinkKind = {
      ...kind,
      freeWithinMs: 30_000,
      options: (folder) => atPort({ kind, folder }, pooler.port),
      open: async (folder, how) => await openSink(pooled.options(folder), how),
    };
    afterAll(async () => await pooler.stop());

    describe('a sink behind pgbouncer', () => {
      // Half a minute for each holder that is gone: nothing says sooner that it was killed.
      describe.runIf(isLong)('holding', () => {
        holding(pooled);
      });

      it('stores a run without a lock of a session', async () => {
        const bench = benchOfTest(pooled);
        const run = await PagedRun.begin(bench, await bench.open());
        for (let stored = 0; stored < 20; stored += 1) await run.store();
        expect(await bench.ledger(locks)).toEqual([{ count: 0 }]);
        expect(await bench.ledger('SELECT backend_pid FROM _sync_leases')).toEqual([{ backend_pid: null }]);
        await run.finish();
      });

      it('has its lock on a connection around the pooler where the settings name one', async () => {
        const bench = benchOfTest(pooled);
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
        const run = await PagedRun.begin(bench, await openAt(bench, atPort(bench, between.port)));
        await run.store();
        await standby.kill();
        await run.store();
        await primary.kill();
        await standby.restart();
        await askPostgres(standby.url, 'SELECT pg_promote()');
        between.pointTo(standby.port);
        const leadsTo = async (): Promise<unknown> =>
          (
            await askPostgres(
              `postgresql://sync@127.0.0.1:${between.port}/postgres`,
              'SELECT inet_server_port() AS port',
            )
          )[0]?.['port'];
        await expect.poll(leadsTo, { timeout: 20_000 }).toBe(standby.port);
        await expect(run.store()).rejects.toMatchObject({ code: 'FENCED' });
        const { schema } = postgresOptions(bench);
        const [{ seq } = {}] = await askPostgres(
          standby.url,
          `SELECT seq::float8 AS seq FROM ${schema}._sync_counters`,
        );
        // The standby may lack both commits: what they were given is below this all the same.
        expect(seq).toBeGreaterThanOrEqual(2 ** 32);
      });
    });
  }
});
