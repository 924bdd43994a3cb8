import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { createServer, type AddressInfo } from 'node:net';
import { dirname, join } from 'node:path';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, onTestFinished, beforeEach, vi } from 'vitest';
import { systemClock, instant } from '../../../src/core/clock.ts';
import { Secret } from '../../../src/core/secret.ts';
import type { Service } from '../../../src/service/start-service.ts';
import { accessSink, openServed, openSink } from '../../../src/sinks/registry.ts';
import type { SinkFinding, SinkPlace, SinkOptions } from '../../../src/sinks/sink-access.ts';
import { postgresSinkKind } from '../../contracts/postgres-sink-kind.ts';
import { identity, manualClock, news, start, member, sealed } from '../../contracts/sink/fixture.ts';
import { useBench } from '../../contracts/sink/use-bench.ts';
import { startCliService } from '../../support/cli-world.ts';
import { testProgram } from '../../support/ensure-built.ts';
import { it } from '../../support/it.ts';
import { startPooler } from '../../support/postgres-proxy.ts';
import { askPostgres, startPostgres, type PrivatePostgres, sharedPostgres } from '../../support/postgres.ts';
import { startScript } from '../../support/run-cli.ts';
import { lastStep } from '../../support/sinks/made-up-versions.ts';

describe('check server', () => {
  type PostgresPlace = Extract<SinkPlace, { readonly type: 'postgres' }>;

  const password = 'the-password-of-this-test';
  let server: PrivatePostgres;
  let service: Service;

  /** Nine connections for ordinary users, a user with a password, and one who may do nothing. */
  beforeAll(async () => {
    server = await startPostgres({
      config: { max_connections: '12', superuser_reserved_connections: '3', fsync: 'on' },
    });
    const rules = join(server.data, 'pg_hba.conf');
    writeFileSync(rules, `host all keeper 127.0.0.1/32 scram-sha-256\n${readFileSync(rules, 'utf8')}`);
    await sql(
      `CREATE ROLE keeper LOGIN PASSWORD '${password}'; CREATE ROLE guest LOGIN; GRANT CREATE ON DATABASE postgres TO keeper; SELECT pg_reload_conf()`,
    );
    service = await startCliService();
  }, 60_000);

  afterAll(async () => {
    await service.close();
    await server.stop();
  });

  const sql = async (text: string): Promise<unknown> => await askPostgres(server.url, text);

  function place(
    change: Partial<PostgresPlace> = {},
    user = 'sync',
    word: string | null = null,
  ): PostgresPlace {
    return {
      type: 'postgres',
      connection: { ...server.connection, user, password: word === null ? null : new Secret(word) },
      direct: null,
      schema: 'warehouse',
      connections: 4,
      ...change,
    };
  }

  async function check(at: PostgresPlace): Promise<Readonly<Record<string, string>>> {
    const found = await accessSink(at).check();
    return Object.fromEntries(
      found.map(({ what, state, detail }: SinkFinding) => [what, `${state}: ${detail}`]),
    );
  }

  describe('check of a server', () => {
    it('says what is right', async () => {
      expect(await check(place())).toEqual({
        server: expect.stringMatching(/^ok: PostgreSQL \d\d/) as string,
        rights: 'ok: sync may make the schema warehouse',
        encryption: 'ok: none, on this machine',
        pooler: 'ok: none between',
      });
    });

    it('names what is missing for the user, before there is a sink and afterwards', async () => {
      const own = place({ schema: 'kept' }, 'keeper', password);
      await (
        await openSink({ ...own, name: 'kept', durability: 'full' }, { clock: systemClock })
      )[Symbol.asyncDispose]();
      expect(await check(own)).toMatchObject({
        rights: 'ok: keeper owns the tables in kept and may make new ones',
      });
      expect(await check(place({ schema: 'other' }, 'guest'))).toMatchObject({
        rights: 'failed: guest may not make the schema other: GRANT CREATE ON DATABASE postgres TO guest',
      });
      expect(await check(place({ schema: 'kept' }, 'guest'))).toMatchObject({
        rights: 'failed: guest may not make tables in kept: ALTER SCHEMA kept OWNER TO guest',
      });
      await sql('GRANT ALL ON SCHEMA kept TO guest');
      expect(await check(place({ schema: 'kept' }, 'guest'))).toMatchObject({
        rights: expect.stringMatching(
          /^failed: \d+ tables of kept belong to another user, so guest may add no columns/,
        ) as string,
      });
    });

    it('makes a sink in a schema that the user was given, and may make no other', async () => {
      await sql('CREATE ROLE tenant LOGIN; CREATE SCHEMA given AUTHORIZATION tenant');
      const own = place({ schema: 'given' }, 'tenant');
      expect(await check(own)).toMatchObject({
        rights: 'ok: tenant owns the tables in given and may make new ones',
      });
      const sink = await openSink({ ...own, name: 'given', durability: 'full' }, { clock: systemClock });
      await sink[Symbol.asyncDispose]();
      await expect(accessSink(own).isThere()).resolves.toBe(true);
      const other = { ...place({ schema: 'mine' }, 'tenant'), name: 'mine', durability: 'full' } as const;
      await expect(openSink(other, { clock: systemClock })).rejects.toMatchObject({
        code: 'SINK_FAILED',
        message: expect.stringContaining('GRANT CREATE ON DATABASE') as string,
      });
    });

    it('says that a password is missing, and that something else listens there', async () => {
      const open = async (at: PostgresPlace): Promise<unknown> =>
        await openSink({ ...at, name: 'kept', durability: 'full' }, { clock: systemClock }).catch(
          (error: unknown) => error,
        );
      expect(await open(place({}, 'keeper'))).toMatchObject({
        code: 'SINK_FAILED',
        message: expect.stringMatching(
          /^PostgreSQL at \S+ asks for a password, and there is none\. Set password/,
        ) as string,
      });
      // Of MySQL's first packet this driver takes a part for a message of its own protocol.
      await using other = createServer((socket) => {
        socket.on('error', () => undefined).end('d\0\0\0\u0008abcd', () => socket.destroy());
      });
      await once(other.listen(0, '127.0.0.1'), 'listening');
      const { port } = other.address() as AddressInfo;
      const elsewhere = { ...server.connection, hosts: [{ host: '127.0.0.1', port }] };
      expect(await open(place({ connection: elsewhere }))).toMatchObject({
        message: expect.stringContaining('does not answer as PostgreSQL does. Check host and port') as string,
      });
    });

    it('warns of a pooler, unless locks go around it', async () => {
      const pooler = await startPooler(server.port);
      const connection = { ...server.connection, hosts: [{ host: '127.0.0.1', port: pooler.port }] };
      const poolerOf = async (direct: PostgresPlace['direct']) =>
        (await check(place({ connection, direct })))['pooler'];
      expect(await poolerOf(null)).toMatch(/^warning: url leads to a pooler: .* free after 30 s/);
      expect(await poolerOf(connection)).toMatch(/^warning: directUrl leads to a pooler too/);
      expect(await poolerOf(server.connection)).toBe('ok: one at url, and locks go around it');
      pooler.close();
    });

    it('warns of what is not encrypted, and of certificates that are not checked', async () => {
      const hosts = [{ host: '0.0.0.0', port: server.port }];
      const found = await check(place({ connection: { ...server.connection, hosts } }));
      expect(found['encryption']).toMatch(/^warning: none: records can be read/);
      const socket = [{ host: dirname(server.data), port: server.port }];
      const local = await check(
        place({ connection: { ...server.connection, hosts: socket, sslmode: 'verify-full' } }),
      );
      expect(local['encryption']).toBe('ok: none, over a socket of this machine');
    });
  });
});

/* A ledger that a worker serves for days, and a server that goes and comes back. */

const clock = manualClock();

function optionsOf({ connection }: PrivatePostgres): SinkOptions {
  return {
    type: 'postgres',
    name: 'warehouse',
    connection,
    direct: null,
    schema: 'warehouse',
    connections: 3,
    durability: 'full',
  };
}

it('answers with what was read last while the server is away, and reads again when it is back', async () => {
  const postgres = await startPostgres();
  onTestFinished(async () => await postgres.stop());
  const options = optionsOf(postgres);
  const sink = await openSink(options, { clock });
  await sink.pause([news], { since: instant(start), reason: 'moving house' });
  const lease = await sink.acquire(identity());
  await lease[Symbol.asyncDispose]();
  await sink[Symbol.asyncDispose]();
  const served = await openServed(options, { durability: 'full', clock });
  await using _served = served;
  const overview = await served.overview();
  expect(overview.get(news)?.identity).toMatchObject({ connectorId: 'c-1' });

  await postgres.kill();
  expect(await served.paused(), 'noticed by the first caller').toEqual(new Set([news]));
  expect(await served.lost()).toMatch(
    /^PostgreSQL at 127\.0\.0\.1:\d+\/postgres\/warehouse cannot be reached/,
  );
  expect(await served.problem(), 'the loss speaks for itself').toBeNull();
  expect(await served.pause(news)).toMatchObject({ reason: 'moving house' });
  expect(await served.overview()).toBe(overview);

  await postgres.restart();
  expect(await served.lost()).toBeNull();
  expect(await served.pause(news)).toMatchObject({ reason: 'moving house' });
  expect(await served.overview(), 'nothing has changed').toBe(overview);
}, 60_000);

it('is lost where another sink has taken its place, or none is there', async () => {
  const postgres = await startPostgres();
  onTestFinished(async () => await postgres.stop());
  const options = optionsOf(postgres);
  const served = await openServed(options, { durability: 'full', clock });
  await using _served = served;
  expect(await served.lost()).toBeNull();
  await askPostgres(postgres.url, 'DROP SCHEMA warehouse CASCADE');
  expect(await served.lost()).toMatch(/^nothing is at 127\.0\.0\.1:\d+\/postgres\/warehouse$/);
  await using other = await openSink(options, { clock });
  expect(other.id).not.toBe(served.sinkId);
  expect(await served.lost()).toMatch(/^another sink is at /);
  expect(await served.overview()).toEqual(new Map());
}, 60_000);

describe('migrations', async () => {
  /* No release has migrations yet: version 3 here is made up, and version 1 is what this program writes. */

  const kind = await postgresSinkKind();
  const { url } = await sharedPostgres();
  const script = testProgram('sinks/postgres/migrating-process.mjs');
  const bench = useBench(kind);

  /** A sink of version 1 after one run of three members. */
  beforeEach(async () => {
    const { commit } = await bench().walking();
    await commit([member('1'), member('2'), member('3')], { seal: sealed });
    await bench().closeSinks();
  });

  async function stored() {
    const [madeUp] = await bench().ledger("SELECT to_regclass('_sync_made_up')::text AS name");
    const [column] = await bench().ledger(
      "SELECT count(*) AS columns FROM pg_attribute WHERE attrelid = '_sync_runs'::regclass AND attname = 'made_up'",
    );
    return {
      version: (await bench().ledger('SELECT version FROM _sync_meta'))[0]?.['version'],
      rows: await bench().ledger('SELECT * FROM news__members ORDER BY _row'),
      madeUp: madeUp?.['name'] === null ? null : await bench().ledger('SELECT * FROM _sync_made_up'),
      columns: column?.['columns'],
    };
  }

  const migrated = { version: 3, madeUp: [{ connector: 'news', runs: 2 }], columns: 1 };
  const migrate = () => startScript([script, JSON.stringify(kind.options(bench().folder))], bench().folder);

  async function connected(): Promise<pg.Client> {
    const client = new pg.Client({ connectionString: url });
    await client.connect();
    onTestFinished(async () => await client.end());
    return client;
  }

  // Proves promise 1.7
  it('brings version 1 to a later one, with everything in it; version 1 of the program then refuses it', async () => {
    const before = await stored();
    expect(before).toMatchObject({ version: 1, madeUp: null, columns: 0 });
    expect(await migrate().result).toMatchObject({ code: 0, stderr: '' });
    expect(await stored()).toEqual({ ...before, ...migrated });
    await expect(bench().open()).rejects.toMatchObject({ code: 'SINK_INCOMPATIBLE' });
  });

  // Proves promise 1.7
  it.each(Array.from({ length: lastStep + 1 }, (_, step) => step))(
    'is of version 1, and whole, after a SIGKILL at step %i, and the next opening completes it',
    async (step) => {
      const before = await stored();
      const blocker = await connected();
      await blocker.query('SELECT pg_advisory_lock($1)', [41 + step]);
      const { child, result } = migrate();
      await vi.waitFor(async () => {
        const { rowCount } = await blocker.query(
          "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND objid = $1 AND NOT granted",
          [41 + step],
        );
        expect(rowCount).toBe(1);
      }, 20_000);
      child.kill('SIGKILL');
      await result;
      expect(await stored()).toEqual(before);
      await blocker.query('SELECT pg_advisory_unlock($1)', [41 + step]);
      expect(await migrate().result).toMatchObject({ code: 0, stderr: '' });
      expect(await stored()).toEqual({ ...before, ...migrated });
    },
  );

  // Proves promise 1.7
  it('is migrated once by several processes that open it at the same time', async () => {
    const before = await stored();
    for (const { result } of Array.from({ length: 4 }, migrate)) {
      expect(await result).toMatchObject({ code: 0, stderr: '' });
    }
    expect(await stored()).toEqual({ ...before, ...migrated });
  });

  // Proves promise 1.7
  it.each([0, 2, 5])('is refused with tables of version %i, and says what to do', async (version) => {
    await bench().ledger(`UPDATE _sync_meta SET version = ${version}`);
    const refused = {
      code: 'SINK_INCOMPATIBLE',
      message: expect.stringContaining(
        `expected tables of version 1, found version ${version}, which another connector-sync wrote. Nothing in it was changed. ` +
          'Use the connector-sync that wrote it. Or keep it, and sync into a new sink at another place',
      ) as string,
    };
    await expect(bench().open()).rejects.toMatchObject(refused);
    const access = accessSink(kind.options(bench().folder));
    await expect(access.openHistory()).rejects.toMatchObject(refused);
    await expect(access.openRecords()).rejects.toMatchObject(refused);
    expect(await bench().ledger('SELECT version FROM _sync_meta')).toEqual([{ version }]);
  });
});
