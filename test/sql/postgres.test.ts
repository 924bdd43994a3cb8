import {
  chmodSync,
  chownSync,
  copyFileSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { createServer, type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { rootCertificates } from 'node:tls';
import pg from 'pg';
import { expect, onTestFinished, describe, afterAll, beforeAll } from 'vitest';
import { systemClock } from '../../src/core/clock.ts';
import { Secret } from '../../src/core/secret.ts';
import type { Service } from '../../src/service/start-service.ts';
import { toSinkError } from '../../src/sinks/postgres/postgres-schema.ts';
import { openSink, accessSink } from '../../src/sinks/registry.ts';
import type { SinkPlace } from '../../src/sinks/sink-access.ts';
import { openConnections } from '../../src/sql/postgres/connections.ts';
import { type Away, watchOutage } from '../../src/sql/postgres/outage.ts';
import type { PostgresConnection } from '../../src/sql/postgres/place.ts';
import { awayText, tlsProblem } from '../../src/sql/postgres/postgres-error.ts';
import { openServer } from '../../src/sql/postgres/server.ts';
import { readText, writeText } from '../../src/sql/postgres/encode-binary.ts';
import { textHash } from '../../src/sql/database.ts';
import { postgresSinkKindOn } from '../contracts/postgres-sink-kind.ts';
import { benchOfTest } from '../contracts/sink/use-bench.ts';
import { cliSecret, startCliService, writeCliConfig } from '../support/cli-world.ts';
import { startRelay } from '../support/postgres-proxy.ts';
import { it } from '../support/it.ts';
import { askPostgres, sharedPostgres, startPostgres, type PrivatePostgres } from '../support/postgres.ts';
import { callCli } from '../support/run-cli.ts';
import { seededRandom } from '../support/seeded-random.ts';
import { hostileText } from '../support/sinks/hostile-texts.ts';
import { PagedRun } from '../support/sinks/paged-run.ts';
import { repeats, startSeed } from '../support/trials.ts';

it('writes again after a connection was lost before there was anything to look at', async () => {
  const { connection } = await sharedPostgres();
  const nothingHere = { host: '127.0.0.1', port: 1 };
  await using server = openServer({
    connection: { ...connection, hosts: [nothingHere, ...connection.hosts] },
    direct: null,
    schema: 'unused',
    connections: 2,
    durability: 'normal',
    explain: (error) => error,
  });
  const write = async (): Promise<unknown> =>
    await server.transact(async (tx) => await tx.rows('SELECT 1 AS one'));
  await write();
  await write();
  const looks: string[] = [];
  server.afterLoss(async ({ place }) => await Promise.resolve(looks.push(place)));
  expect(await write()).toEqual([{ one: 1 }]);
  expect(looks, 'no connection was lost since').toEqual([]);
});

// Proves promise 1.2
it('reads a state for as long as it takes, whatever timeouts the role has', async () => {
  const { url, connection } = await sharedPostgres();
  const timeouts = ['statement_timeout', 'idle_in_transaction_session_timeout'];
  const set = timeouts.map((name) => `ALTER ROLE hasty SET ${name} = '200ms'`);
  await askPostgres(url, 'CREATE ROLE hasty LOGIN SUPERUSER', ...set);
  await using server = openServer({
    connection: { ...connection, user: 'hasty' },
    direct: null,
    schema: 'unused',
    connections: 1,
    durability: 'normal',
    explain: (error) => error,
  });
  await using snapshot = await server.openSnapshot();
  const slow = async () => await snapshot.read(async (tx) => await tx.rows('SELECT 1 AS one, pg_sleep(0.3)'));
  expect(await slow()).toMatchObject([{ one: 1 }]);
  await setTimeout(300);
  expect(await slow(), 'after a pause').toMatchObject([{ one: 1 }]);
});

it.each([1, 2])('reports a connection that breaks at its first question, with hosts: %i', async (count) => {
  const uncaught: unknown[] = [];
  const note = (error: unknown): void => void uncaught.push(error);
  process.on('uncaughtException', note);
  onTestFinished(() => void process.off('uncaughtException', note));
  const port = await startBreakingServer();
  const hosts = Array.from({ length: count }, () => ({ host: '127.0.0.1', port }));
  const connections = openConnections({
    connection: {
      hosts,
      database: 'sync',
      user: 'sync',
      password: null,
      sslmode: 'disable',
      rootCertificate: null,
    },
    direct: null,
    connections: 1,
    onLoss: () => undefined,
    explain: (error) => error,
  });
  onTestFinished(async () => await connections.end());
  const broken = /terminated|ECONNRESET/;
  await expect(
    connections.withClient(async (client) => await client.query('SELECT 1')),
    'from the pool',
  ).rejects.toThrow(broken);
  const alone = async (): Promise<unknown> => await (await connections.connect()).query('SELECT 1');
  await expect(alone(), 'beside the pool').rejects.toThrow(broken);
  expect(uncaught).toEqual([]);
});

it('replaces a connection that a firewall has forgotten', async () => {
  const server = await sharedPostgres();
  using relay = await startRelay(server.port);
  const connections = openConnections({
    connection: { ...server.connection, hosts: [{ host: '127.0.0.1', port: relay.port }] },
    direct: null,
    connections: 1,
    onLoss: () => undefined,
    explain: (error) => error,
    deadlineMs: 500,
  });
  onTestFinished(async () => await connections.end());
  const ask = async (sql: string) =>
    (await connections.withClient(async (client) => await client.query(sql))).rows;
  expect(await ask('SELECT 1 AS one')).toEqual([{ one: 1 }]);
  relay.forget();
  await expect(ask('SELECT 2')).rejects.toThrow('terminated');
  expect(await ask('SELECT 3 AS three')).toEqual([{ three: 3 }]);
});

/** It lets every client in, and breaks the connection when that asks something. */
async function startBreakingServer(): Promise<number> {
  const authenticated = [0x52, 0, 0, 0, 8, 0, 0, 0, 0];
  const readyForQuery = [0x5a, 0, 0, 0, 5, 0x49];
  const server = createServer((socket) => {
    socket.on('error', () => undefined);
    socket.once('data', () => {
      socket.write(Buffer.from([...authenticated, ...readyForQuery]));
      socket.once('data', () => socket.destroy());
    });
  });
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => void server.close());
  return (server.address() as AddressInfo).port;
}

/* How long a sink waits for a server that cannot be written to, and what is shown meanwhile. */

function failure(code: string, message = code): Error {
  return Object.assign(new Error(message), { code });
}

interface World {
  readonly outage: ReturnType<typeof watchOutage>;
  readonly shown: (Away | null)[];
  readonly pass: (ms: number) => void;
}

function begin(): World {
  let nowMs = 5_000;
  const shown: (Away | null)[] = [];
  const outage = watchOutage(
    'db:5432/main/sync',
    (error) => toSinkError(error, 'db:5432/main/sync'),
    (away) => shown.push(away),
    () => nowMs,
  );
  return { outage, shown, pass: (ms) => void (nowMs += ms) };
}

// Proves promise 1.1
it('waits one minute in all for a server that is away, however many steps follow one another', () => {
  const { outage, pass } = begin();
  const commit = outage.begin();
  for (let second = 0; second < 60; second += 1) {
    expect(commit(failure('ECONNREFUSED')), `after ${second} s`).toBe(true);
    pass(1_000);
  }
  expect(commit(failure('ECONNREFUSED'))).toBe(false);
  expect(() => outage.begin(), 'the next step is refused without another try').toThrow(
    'PostgreSQL at db:5432/main/sync cannot be reached (ECONNREFUSED)',
  );
  pass(10_000);
  expect(outage.begin()(failure('ECONNREFUSED')), 'one more try, and no wait').toBe(false);
});

it('gives a new minute once the server has answered, or when the last failure is long past', () => {
  const { outage, pass } = begin();
  outage.begin()(failure('ECONNREFUSED'));
  pass(59_000);
  outage.answered('committed');
  expect(outage.begin()(failure('ECONNREFUSED'))).toBe(true);
  pass(59_000);
  expect(outage.begin()(failure('ECONNREFUSED'))).toBe(true);
  pass(61_000);
  expect(outage.begin()(failure('ECONNREFUSED'))).toBe(true);
});

it('ends no outage of refused writes by an answered read', () => {
  const { outage, pass } = begin();
  outage.begin()(failure('25006'));
  outage.answered('read');
  pass(59_999);
  const later = outage.begin();
  expect(later(failure('25006'))).toBe(true);
  pass(1);
  expect(later(failure('25006'))).toBe(false);
});

it('ends the wait of a caller whose connection is cut each time, while the server answers others', () => {
  const { outage, pass } = begin();
  const commit = outage.begin();
  for (let second = 0; second < 60; second += 1) {
    expect(commit(failure('08006'))).toBe(true);
    pass(1_000);
    outage.answered('committed');
  }
  expect(commit(failure('08006'))).toBe(false);
});

it('tells a server that is away, read-only, starting or without a free connection apart', () => {
  const shownOf = (code: string): readonly string[] => {
    const error = failure(code, 'what it says');
    return [awayText(error), String(toSinkError(error, 'db'))];
  };
  expect(shownOf('ECONNREFUSED')).toEqual([
    'cannot be reached (what it says)',
    'SyncError: PostgreSQL at db cannot be reached (what it says). Check the server and the network.',
  ]);
  expect(shownOf('25006')).toEqual([
    'is read-only (what it says)',
    'SyncError: PostgreSQL at db is read-only (what it says). Name the primary in the url, promote the standby, or set default_transaction_read_only to off.',
  ]);
  expect(shownOf('57P03')).toEqual([
    'is starting or stopping (what it says)',
    'SyncError: PostgreSQL at db is starting or stopping (what it says). Try again when it accepts connections.',
  ]);
  expect(shownOf('53300')).toEqual([
    'has no connection free (what it says)',
    'SyncError: PostgreSQL at db has no connection free (what it says). Raise max_connections or the limit of the user or database, or lower connections in the config.',
  ]);
});

// Proves promise 1.1
it('shows that a commit waits for a read-only server, and stores it when writes are allowed again', async () => {
  const postgres = await startPostgres();
  onTestFinished(async () => await postgres.stop());
  const bench = benchOfTest(await postgresSinkKindOn(postgres));
  const shown: (Away | null)[] = [];
  const told = { away: (): void => undefined };
  const isShown = new Promise<void>((resolve) => (told.away = resolve));
  const options = bench.kind.options(bench.folder);
  const sink = await openSink(options, {
    clock: bench.clock,
    onAway: (away) => {
      shown.push(away);
      told.away();
    },
  });
  onTestFinished(async () => await sink[Symbol.asyncDispose]());
  const run = await PagedRun.begin(bench, sink);
  await run.store();
  const client = new pg.Client({ connectionString: postgres.url });
  await client.connect();
  // Of the next sessions: the sink gets new ones.
  const makeReadOnly = async (value: 'on' | 'off'): Promise<void> => {
    await client.query(`ALTER DATABASE postgres SET default_transaction_read_only = ${value}`);
    await client.query(
      `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'connector-sync'`,
    );
  };
  await makeReadOnly('on');
  const storing = run.store();
  await isShown;
  await makeReadOnly('off');
  await storing;
  await client.end();
  expect(shown).toEqual([
    {
      message: expect.stringMatching(
        /^PostgreSQL at .* is read-only \(cannot execute .* in a read-only transaction\)$/,
      ),
      leftMs: expect.any(Number),
    },
    null,
  ]);
}, 60_000);

const seed = startSeed();
const trials = repeats('TRIALS', { share: 2_000, full: 200_000 });

describe('texts as PostgreSQL stores them', () => {
  it(`hold no U+0000, and come back as they were (seed ${seed})`, () => {
    const random = seededRandom(seed);
    for (let trial = 0; trial < trials; trial += 1) {
      const text = hostileText(random);
      const written = writeText(text);
      expect(written).not.toContain('\0');
      expect(readText(written)).toBe(text);
      expect(written === text).toBe(!/[\0\uE000]/.test(text));
    }
  });

  it('are hashed to sixteen bytes, whatever their length', () => {
    expect(textHash('').length).toBe(16);
    expect(textHash('k'.repeat(1_000_000)).toString('hex')).toBe(
      textHash('k'.repeat(1_000_000)).toString('hex'),
    );
    expect(textHash('a').equals(textHash('a\0'))).toBe(false);
  });
});

describe('tls', () => {
  /** Signed by itself, for localhost and 127.0.0.1. */
  const certificate = 'test/fixtures/tls/cert.pem';
  const password = 'the-password-of-this-test';
  /** Not in the certificate, and the server listens there too. */
  const otherHost = '127.0.0.2';

  let keys: string;
  let server: PrivatePostgres;
  let service: Service;

  /** A user with a password who may come encrypted only. */
  beforeAll(async () => {
    keys = mkdtempSync(join(tmpdir(), 'connector-sync-tls-'));
    chmodSync(keys, 0o755);
    for (const name of ['cert.pem', 'key.pem']) {
      copyFileSync(join('test/fixtures/tls', name), join(keys, name));
      chmodSync(join(keys, name), 0o600);
      if (process.getuid?.() === 0) chownSync(join(keys, name), 65_534, 65_534);
    }
    server = await startPostgres({
      config: {
        ssl: 'on',
        ssl_cert_file: join(keys, 'cert.pem'),
        ssl_key_file: join(keys, 'key.pem'),
        listen_addresses: `127.0.0.1,${otherHost}`,
      },
    });
    const rules = join(server.data, 'pg_hba.conf');
    const ours = `hostssl all keeper all scram-sha-256\nhost all keeper all reject\nhost all sync ${otherHost}/32 trust\n`;
    writeFileSync(rules, `${ours}${readFileSync(rules, 'utf8')}`);
    const client = new pg.Client({ connectionString: server.url });
    await client.connect();
    await client.query(
      `CREATE ROLE keeper LOGIN PASSWORD '${password}'; GRANT CREATE ON DATABASE postgres TO keeper; SELECT pg_reload_conf()`,
    );
    await client.end();
    service = await startCliService();
  }, 60_000);

  afterAll(async () => {
    await service.close();
    await server.stop();
    rmSync(keys, { recursive: true, force: true });
  });

  type Mode = PostgresConnection['sslmode'];

  function place(
    sslmode: Mode,
    rootCertificate: string | null,
    host = '127.0.0.1',
    word = password,
  ): Extract<SinkPlace, { readonly type: 'postgres' }> {
    return {
      type: 'postgres',
      connection: {
        hosts: [{ host, port: server.port }],
        database: 'postgres',
        user: 'keeper',
        password: new Secret(word),
        sslmode,
        rootCertificate,
      },
      direct: null,
      schema: 'encrypted',
      connections: 2,
    };
  }

  async function encryptionOf(at: ReturnType<typeof place>): Promise<string> {
    const found = await accessSink(at).check();
    const { state, detail } = found.find(({ what }) => what === 'encryption') ?? {};
    return `${state}: ${detail}`;
  }

  async function otherAuthority(folder: string): Promise<string> {
    const file = join(folder, 'other.pem');
    writeFileSync(file, rootCertificates[0] ?? '');
    return await Promise.resolve(file);
  }

  describe('a sink over TLS', () => {
    it('is encrypted in each mode, as check says', async () => {
      const checked = /^ok: TLSv1\.[23], the certificate is checked/;
      expect(await encryptionOf(place('verify-full', certificate))).toMatch(checked);
      expect(await encryptionOf(place('verify-full', certificate, 'localhost'))).toMatch(checked);
      expect(await encryptionOf(place('verify-ca', certificate, otherHost))).toMatch(
        /^ok: TLSv1\.[23], .* for any host of the authority in sslrootcert$/,
      );
      expect(await encryptionOf(place('require', null, otherHost))).toMatch(
        /^warning: TLSv1\.[23], but the certificate is not checked/,
      );
      const sink = await openSink(
        { ...place('verify-full', certificate), name: 'encrypted', durability: 'full' },
        { clock: systemClock },
      );
      await sink[Symbol.asyncDispose]();
    });

    // Proves promise 10
    it('is refused where the certificate is of another authority or another host', async ({ folder }) => {
      const other = await otherAuthority(folder);
      const refused: readonly (readonly [Mode, string | null, string, RegExp])[] = [
        ['verify-full', null, '127.0.0.1', /that is not accepted \(DEPTH_ZERO_SELF_SIGNED_CERT/],
        ['verify-full', other, '127.0.0.1', /not accepted .* sslrootcert in the address names/],
        ['verify-ca', other, '127.0.0.1', /not accepted/],
        ['verify-full', certificate, otherHost, /a certificate that is not accepted \(.*127\.0\.0\.2/],
      ];
      for (const [mode, file, host, message] of refused) {
        await expect(accessSink(place(mode, file, host)).isThere()).rejects.toMatchObject({
          code: 'SINK_FAILED',
          recovery: 'stop',
          message: expect.stringMatching(message) as string,
        });
      }
    });

    // Proves promise 10
    it('is refused where the server offers no TLS, or takes no connection without it', async () => {
      const { port } = await sharedPostgres();
      for (const mode of ['require', 'verify-ca', 'verify-full'] as const) {
        const at = place(mode, mode === 'require' ? null : certificate);
        const connection = { ...at.connection, hosts: [{ host: '127.0.0.1', port }] };
        await expect(accessSink({ ...at, connection }).isThere()).rejects.toThrow(
          /offers no TLS, and sslmode demands it/,
        );
      }
      await expect(accessSink(place('disable', null)).isThere()).rejects.toThrow(
        /refused \(28000: .*\)\. If the server takes encrypted connections only, use sslmode=verify-full/,
      );
    });

    it('says that the file with the certificates is missing or holds none', async ({ folder }) => {
      const missing = join(folder, 'missing.pem');
      await expect(accessSink(place('verify-full', missing)).isThere()).rejects.toThrow(
        /^sslrootcert should name a file .*missing\.pem cannot be used \(ENOENT/,
      );
      writeFileSync(join(folder, 'empty.pem'), 'no certificate\n');
      await expect(accessSink(place('verify-full', join(folder, 'empty.pem'))).isThere()).rejects.toThrow(
        /empty\.pem cannot be used/,
      );
    });

    it.each([
      ['CERT_HAS_EXPIRED', 'certificate has expired', /not accepted .* the clock/],
      ['EPROTO', 'wrong version number', /could not agree on TLS/],
      ['ERR_SSL_TLSV1_ALERT_PROTOCOL_VERSION', 'alert', /could not agree on TLS/],
      ['ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED', 'alert', /could not agree on TLS/],
      ['UNABLE_TO_VERIFY_LEAF_SIGNATURE', 'unable to verify', /not accepted/],
    ])('knows %s', (code, message, said) => {
      expect(tlsProblem(code, message)).toMatch(said);
      expect(tlsProblem('', message)).toBeNull();
    });
  });

  describe('connector-sync over TLS', () => {
    async function run(
      folder: string,
      args: readonly string[],
      setting: string,
      env: Readonly<Record<string, string>> = {},
    ) {
      const config = await writeCliConfig(folder, service.url);
      copyFileSync(certificate, join(folder, 'ca.pem'));
      const url = `postgresql://keeper@localhost:${server.port}/postgres?sslmode=verify-full&sslrootcert=ca.pem`;
      const text = readFileSync(config, 'utf8').replace(
        /main: \{.*\}/,
        `main: { type: postgres, url: "${url}", password: "${setting}", schema: by_cli, connections: 2 }`,
      );
      writeFileSync(config, text);
      const result = await callCli([...args, '--config', config], {
        cwd: folder,
        env: { SECRET: cliSecret, ...env },
      });
      expect(result.stdout + result.stderr).not.toContain(env['WORD'] ?? password);
      return result;
    }

    it('syncs with a password from a file and from the environment', async ({ folder }) => {
      writeFileSync(join(folder, 'word'), `${password}\n`, { mode: 0o600 });
      const synced = await run(folder, ['sync', 'newsletter', '--select', 'lists'], '${file:word}');
      expect(synced.code).toBe(0);
      const checked = await run(folder, ['check'], '${WORD}', { WORD: password });
      expect(checked.stdout).toMatch(/^✓ encryption of main: TLSv1\.\d, the certificate is checked$/m);
    });

    // Proves promise 10
    it('says that a password is wrong without showing it', async ({ folder }) => {
      const { code, stderr } = await run(folder, ['status', 'newsletter'], '${WORD}', {
        WORD: 'quite-another-word',
      });
      expect(code).not.toBe(0);
      expect(stderr).toMatch(/refused \(28P01: .* Check the user and the password of the sink's url\./);
    });
  });
});
