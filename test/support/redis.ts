import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { findRedisServer } from './ensure-servers.ts';

export type PrivateRedis = Awaited<ReturnType<typeof startRedis>>;

export interface RedisOptions {
  readonly password?: string;
  /** Where one was before, for tests in which it comes back; a free one where none is given. */
  readonly port?: number;
  /** Every command is on disk before it is answered. */
  readonly appendOnly?: boolean;
  /** Further settings, as the server's command line takes them: `{ maxmemory: '4mb' }`. */
  readonly config?: Readonly<Record<string, string>>;
}

/**
 * A Redis of this test's own: a free port on loopback, nothing on disk that outlives it. Resolves when it accepts
 * connections.
 */
export async function startRedis(options: RedisOptions = {}) {
  const executable = findRedisServer();
  if (executable === null) {
    throw new Error(
      'This test needs a redis-server executable. Install Debian package redis-server (apt-get install redis-server), ' +
        'or set REDIS_SERVER to its path.',
    );
  }
  const directory = await mkdtemp(join(tmpdir(), 'connector-sync-redis-'));
  const port = options.port ?? (await freePort());
  const settings = {
    port: String(port),
    bind: '127.0.0.1',
    dir: directory,
    save: '',
    appendonly: options.appendOnly === true ? 'yes' : 'no',
    appendfsync: 'always',
    'maxmemory-policy': 'noeviction',
    ...(options.password === undefined ? {} : { requirepass: options.password }),
    ...options.config,
  };
  const args = Object.entries(settings).flatMap(([name, value]) => [`--${name}`, value]);
  const start = async (): Promise<ChildProcess> => {
    const started = spawn(executable, args, { stdio: ['ignore', 'pipe', 'inherit'] });
    await accepting(started);
    return started;
  };
  let server = await start();
  const kill = async (): Promise<void> => {
    if (server.exitCode !== null || server.signalCode !== null) return;
    const exited = once(server, 'exit');
    server.kill('SIGKILL');
    await exited;
  };
  const stop = async (): Promise<void> => {
    await kill();
    await rm(directory, { recursive: true, force: true });
  };
  const credentials = options.password === undefined ? '' : `:${options.password}@`;
  return {
    url: `redis://${credentials}127.0.0.1:${port}`,
    port,
    /** Kills the server at once and leaves its files for a `restart`; idempotent. */
    kill,
    /** Starts it again on the same port, with what its append-only file holds. */
    restart: async () => {
      await kill();
      server = await start();
    },
    /** Kills the server at once and removes its files; idempotent. */
    stop,
    [Symbol.asyncDispose]: stop,
  };
}

/** A port that was free a moment ago, for servers that cannot choose one themselves. */
export async function freePort(): Promise<number> {
  const probe = createServer().listen(0, '127.0.0.1');
  await once(probe, 'listening');
  const address = probe.address();
  probe.close();
  await once(probe, 'close');
  if (address === null || typeof address === 'string') throw new Error('the server has no TCP port');
  return address.port;
}

async function accepting(server: ChildProcess): Promise<void> {
  if (server.stdout === null) throw new Error('redis-server should be started with its output piped');
  for await (const line of createInterface({ input: server.stdout })) {
    if (line.includes('Ready to accept connections')) {
      server.stdout.resume();
      return;
    }
  }
  throw new Error('redis-server ended before it accepted connections');
}
