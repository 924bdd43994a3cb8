import {
  chmodSync,
  chownSync,
  copyFileSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { rootCertificates } from 'node:tls';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect } from 'vitest';
import { systemClock } from '../../../src/core/clock.ts';
import { Secret } from '../../../src/core/secret.ts';
import type { Service } from '../../../src/service/start-service.ts';
import { accessSink, openSink } from '../../../src/sinks/registry.ts';
import type { PostgresConnection } from '../../../src/sql/postgres/place.ts';
import { tlsProblem } from '../../../src/sql/postgres/tls.ts';
import type { SinkPlace } from '../../../src/sinks/sink-access.ts';
import { cliSecret, startCliService, writeCliConfig } from '../../support/cli-config.ts';
import { it } from '../../support/it.ts';
import { sharedPostgres, startPostgres, type PrivatePostgres } from '../../support/postgres.ts';
import { callCli } from '../../support/run-cli.ts';

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
  const found = await accessSink(at).check({ clock: systemClock, durability: 'full' });
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
      ['verify-full', null, '127.0.0.1', /an authority that is not trusted \(DEPTH_ZERO_SELF_SIGNED_CERT/],
      ['verify-full', other, '127.0.0.1', /not trusted .* sslrootcert in the address\.$/],
      ['verify-ca', other, '127.0.0.1', /an authority that is not trusted/],
      [
        'verify-full',
        certificate,
        otherHost,
        /a certificate of another host \(.*127\.0\.0\.2.*\)\. Use a name/,
      ],
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
    ['CERT_HAS_EXPIRED', 'certificate has expired', /not valid today .* Renew it/],
    ['EPROTO', 'wrong version number', /could not agree on TLS/],
    ['ERR_SSL_TLSV1_ALERT_PROTOCOL_VERSION', 'alert', /could not agree on TLS/],
    ['UNABLE_TO_VERIFY_LEAF_SIGNATURE', 'unable to verify', /not trusted/],
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
