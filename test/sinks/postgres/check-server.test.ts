import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { createServer, type AddressInfo } from 'node:net';
import { dirname, join } from 'node:path';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect } from 'vitest';
import { systemClock } from '../../../src/core/clock.ts';
import { Secret } from '../../../src/core/secret.ts';
import type { Service } from '../../../src/service/start-service.ts';
import { accessSink, openSink } from '../../../src/sinks/registry.ts';
import type { SinkFinding, SinkPlace } from '../../../src/sinks/sink-access.ts';
import { cliSecret, startCliService, writeCliConfig } from '../../support/cli-config.ts';
import { it } from '../../support/it.ts';
import { startPooler } from '../../support/postgres-pooler.ts';
import { startPostgres, type PrivatePostgres } from '../../support/postgres.ts';
import { freePort } from '../../support/redis.ts';
import { callCli } from '../../support/run-cli.ts';

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

async function sql(text: string): Promise<void> {
  const client = new pg.Client({ connectionString: server.url });
  await client.connect();
  try {
    await client.query(text);
  } finally {
    await client.end();
  }
}

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

async function check(
  at: PostgresPlace,
  now: () => number = () => Date.now(),
  durability: 'full' | 'normal' = 'full',
): Promise<Readonly<Record<string, string>>> {
  const found = await accessSink(at).check({ clock: { ...systemClock, now }, durability });
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
      commits: 'ok: synchronous_commit is on',
      connections: expect.stringMatching(/^ok: [6-9] free, a process opens up to 6$/) as string,
      clock: expect.stringMatching(/^ok: within \d\.\d s of this machine's$/) as string,
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

  it('warns of settings that lose commits, of too few connections and of a wrong clock', async () => {
    await sql("ALTER ROLE sync SET synchronous_commit = 'off'");
    const found = await check(place({ connections: 10 }), () => Date.now() + 60_000);
    expect(found).toMatchObject({
      commits: 'ok: synchronous_commit is off, and set to on for the commits of this program',
      connections: expect.stringMatching(
        /^warning: \d free, a process opens up to 12, .* raise max_connections of the server/,
      ) as string,
      clock: expect.stringMatching(/^warning: the server's is (59|60)\.\d s behind this machine's/) as string,
    });
    const normal = await check(place(), undefined, 'normal');
    expect(normal).toMatchObject({ commits: 'ok: not waited for (durability: normal)' });
    await sql('ALTER ROLE sync RESET synchronous_commit; ALTER ROLE guest CONNECTION LIMIT 3');
    expect(await check(place({}, 'guest'))).toMatchObject({
      connections: expect.stringContaining("raise the user's limit") as string,
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
    await pooler.close();
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

describe('connector-sync check', () => {
  async function run(folder: string, url: string, word: string) {
    const config = await writeCliConfig(folder, service.url);
    const text = readFileSync(config, 'utf8').replace(
      /main: \{.*\}/,
      `main: { type: postgres, url: "${url}", password: "\${WORD}", schema: by_cli, connections: 4 }`,
    );
    writeFileSync(config, text);
    const env = { SECRET: cliSecret, WORD: word };
    const result = await callCli(['check', '--config', config], { cwd: folder, env });
    expect(result.stdout + result.stderr).not.toContain(word);
    return result;
  }
  const keeper = (port: number): string => `postgresql://keeper@127.0.0.1:${port}/postgres`;

  it('reports each point of the server, and ends with 0', async ({ folder }) => {
    const { code, stdout } = await run(folder, keeper(server.port), password);
    expect(stdout).toMatch(/^✓ sink main: 127\.0\.0\.1:\d+\/postgres\/by_cli can be written/m);
    for (const what of ['server', 'rights', 'encryption', 'commits', 'connections', 'clock', 'pooler']) {
      expect(stdout).toMatch(new RegExp(`^[✓!] ${what} of main: `, 'm'));
    }
    expect(code).toBe(0);
  });

  it('says that the password is wrong, without it', async ({ folder }) => {
    const { code, stdout } = await run(folder, keeper(server.port), 'not-the-password-at-all');
    expect(stdout).toMatch(/^✗ sink main: .* refused \(28P01: .* Check the user and the password/m);
    expect(code).not.toBe(0);
  });

  it('says that nothing answers', async ({ folder }) => {
    const { code, stdout } = await run(folder, keeper(await freePort()), password);
    expect(stdout).toMatch(/^✗ sink main: .* cannot be reached .* Check the server and the network/m);
    expect(code).not.toBe(0);
  });

  it('says that no connection is free', async ({ folder }) => {
    const all = Array.from({ length: 12 }, () => new pg.Client({ connectionString: server.url }));
    await Promise.allSettled(all.map(async (client) => await client.connect()));
    const { code, stdout } = await run(folder, keeper(server.port), password);
    expect(stdout).toMatch(/^✗ sink main: .* has no connection free .* Raise max_connections/m);
    expect(code).not.toBe(0);
    await Promise.allSettled(all.map(async (client) => await client.end()));
  });
});
