import { execFileSync, spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import {
  appendFileSync,
  chmodSync,
  chownSync,
  existsSync,
  mkdtempSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import pg from 'pg';
import type { PostgresConnection } from '../../src/sql/postgres/place.ts';
import { findPostgres, howToGetPostgres, initializedFolder } from './ensure-servers.ts';
import { freePort } from './redis.ts';

export interface PrivatePostgres extends AsyncDisposable {
  /** As a sink's settings have it: over TCP on loopback, without a password. */
  readonly connection: PostgresConnection;
  readonly url: string;
  readonly port: number;
  /** The data directory, for a standby or a look at its files. */
  readonly data: string;
  /** Kills the server and all its processes at once, as a power loss would; its files stay. */
  kill(): Promise<void>;
  /** Starts it again on the same port. */
  restart(): Promise<void>;
  /** Stops the server and removes its files; idempotent. */
  stop(): Promise<void>;
}

let shared: Promise<PrivatePostgres> | null = null;

/**
 * One server for all tests of this process that need nothing else of it than a schema of their own. It ends with the
 * process.
 */
export async function sharedPostgres(): Promise<PrivatePostgres> {
  shared ??= startPostgres();
  return await shared;
}

/** Runs these statements on a connection of their own, one after the other; gives the rows of the last. */
export async function askPostgres(
  url: string,
  ...statements: readonly string[]
): Promise<readonly Readonly<Record<string, unknown>>[]> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    let rows: readonly Readonly<Record<string, unknown>>[] = [];
    for (const sql of statements) ({ rows } = await client.query<Record<string, unknown>>(sql));
    return rows;
  } finally {
    await client.end();
  }
}

interface PostgresOptions {
  /** Settings as `postgresql.conf` has them: `{ max_connections: '20' }`. */
  readonly config?: Readonly<Record<string, string>>;
  /** Where the files lie; a folder below the system's for temporary files where none is given. It must be empty. */
  readonly folder?: string;
  /** The server is a standby of this one, which is stopped for a moment, and begins as a copy of it. */
  readonly standbyOf?: PrivatePostgres;
}

/** PostgreSQL refuses to run as root. */
const nobody = process.getuid?.() === 0 ? { uid: 65_534, gid: 65_534 } : null;

const environment = { PATH: process.env['PATH'] ?? '', LC_ALL: 'C', TZ: 'UTC' };

/**
 * Ends the server at once, without a checkpoint, when its input is closed: also when the process that started it was
 * killed.
 */
const untilAbandoned = '"$@" < /dev/null & server=$!; cat > /dev/null; kill -QUIT $server; wait $server';

/** A PostgreSQL of this test's own, on a free port of loopback. Resolves when it accepts connections. */
export async function startPostgres(options: PostgresOptions = {}): Promise<PrivatePostgres> {
  const bin = findPostgres();
  if (bin === null) throw new Error(howToGetPostgres);
  const folder = options.folder ?? mkdtempSync(join(tmpdir(), 'connector-sync-postgres-'));
  if (nobody !== null) chownSync(folder, nobody.uid, nobody.gid);
  chmodSync(folder, 0o700);
  const data = join(folder, 'data');
  const port = await freePort();
  if (options.standbyOf === undefined) {
    initialize(bin, folder, data);
  } else {
    await copyStopped(options.standbyOf, data);
  }
  const settings = {
    listen_addresses: '127.0.0.1',
    unix_socket_directories: folder,
    port: String(port),
    max_connections: '60',
    // What is tested here is never the disk: killed, a server finds all that it wrote in the system's cache.
    fsync: 'off',
    // The line that says it is ready is of this level; the readiness is awaited by it.
    log_min_messages: 'log',
    log_checkpoints: 'off',
    log_min_error_statement: 'panic',
    ...options.config,
  };
  const args = Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
  const start = async (): Promise<ChildProcess> => {
    const started = spawn(
      '/bin/sh',
      ['-c', untilAbandoned, 'sh', join(bin, 'postgres'), '-D', data, ...args],
      {
        ...nobody,
        cwd: folder,
        env: environment,
        stdio: ['pipe', 'ignore', 'pipe'],
      },
    );
    await accepting(started);
    return started;
  };
  let server = await start();
  const kill = async (): Promise<void> => {
    if (server.exitCode !== null || server.signalCode !== null) return;
    const exited = once(server, 'exit');
    server.stdin?.end();
    await exited;
  };
  const stop = async (): Promise<void> => {
    await kill();
    rmSync(folder, { recursive: true, force: true });
  };
  return {
    connection: {
      hosts: [{ host: '127.0.0.1', port }],
      database: 'postgres',
      user: 'sync',
      password: null,
      sslmode: 'disable',
      rootCertificate: null,
    },
    url: `postgresql://sync@127.0.0.1:${port}/postgres?sslmode=disable`,
    port,
    data,
    kill,
    restart: async () => {
      await kill();
      server = await start();
    },
    stop,
    [Symbol.asyncDispose]: stop,
  };
}

/**
 * Makes the files of an empty server once for all tests and copies them from then on: that takes an eighth of the
 * processor time.
 */
function initialize(bin: string, folder: string, data: string): void {
  const shared = process.env[initializedFolder];
  const kept = shared === undefined ? null : join(shared, bin.replaceAll('/', '-'));
  if (kept !== null && existsSync(kept)) {
    execFileSync('cp', ['-a', kept, data]);
    return;
  }
  execFileSync(
    join(bin, 'initdb'),
    ['-D', data, '-U', 'sync', '-A', 'trust', '-E', 'UTF8', '-N', '--no-instructions'],
    {
      ...nobody,
      cwd: folder,
      env: environment,
      stdio: ['ignore', 'ignore', 'pipe'],
    },
  );
  if (kept === null) return;
  const own = `${kept}-${process.pid}`;
  execFileSync('cp', ['-a', data, own]);
  // Another process may have put its own there meanwhile: a folder with files in it is not replaced.
  try {
    renameSync(own, kept);
  } catch {
    rmSync(own, { recursive: true, force: true });
  }
}

/** A standby begins as the files of its primary while that is not running. */
async function copyStopped(primary: PrivatePostgres, data: string): Promise<void> {
  await primary.kill();
  execFileSync('cp', ['-a', primary.data, data]);
  await primary.restart();
  rmSync(join(data, 'postmaster.pid'), { force: true });
  writeFileSync(join(data, 'standby.signal'), '');
  const from = `host=127.0.0.1 port=${primary.port} user=sync`;
  appendFileSync(join(data, 'postgresql.auto.conf'), `primary_conninfo = '${from}'\n`);
  if (nobody !== null) chownSync(join(data, 'standby.signal'), nobody.uid, nobody.gid);
}

async function accepting(server: ChildProcess): Promise<void> {
  if (server.stderr === null) throw new Error('postgres should be started with its errors piped');
  const lines: string[] = [];
  for await (const line of createInterface({ input: server.stderr })) {
    lines.push(line);
    if (/database system is ready to accept (?:read-only )?connections/.test(line)) {
      server.stderr.resume();
      return;
    }
  }
  throw new Error(`postgres ended before it accepted connections: ${lines.join(' / ')}`);
}
