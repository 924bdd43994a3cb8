import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { findRedisServer } from './ensure-redis-server.ts';

export interface PrivateRedis extends AsyncDisposable {
  readonly url: string;
  readonly port: number;
  /** Kills the server at once; idempotent. */
  stop(): Promise<void>;
}

/** A Redis of this test's own: a free port on loopback, nothing on disk that outlives it. Resolves when it accepts connections. */
export async function startRedis(options: { readonly password?: string } = {}): Promise<PrivateRedis> {
  const executable = findRedisServer();
  if (executable === null) {
    throw new Error(
      'This test needs a redis-server executable. Install Debian package redis-server (apt-get install redis-server), ' +
        'or set REDIS_SERVER to its path.',
    );
  }
  const directory = await mkdtemp(join(tmpdir(), 'connector-sync-redis-'));
  const port = await freePort();
  const password = options.password === undefined ? [] : ['--requirepass', options.password];
  const server = spawn(
    executable,
    [
      '--port',
      String(port),
      '--bind',
      '127.0.0.1',
      '--dir',
      directory,
      '--save',
      '',
      '--appendonly',
      'no',
      '--maxmemory-policy',
      'noeviction',
      ...password,
    ],
    { stdio: ['ignore', 'pipe', 'inherit'] },
  );
  await accepting(server);
  const stop = async (): Promise<void> => {
    if (server.exitCode === null && server.signalCode === null) {
      const exited = once(server, 'exit');
      server.kill('SIGKILL');
      await exited;
    }
    await rm(directory, { recursive: true, force: true });
  };
  const credentials = options.password === undefined ? '' : `:${options.password}@`;
  return { url: `redis://${credentials}127.0.0.1:${port}`, port, stop, [Symbol.asyncDispose]: stop };
}

/** A port that was free a moment ago, for servers that cannot choose one themselves. */
export async function freePort(): Promise<number> {
  const probe = createServer().listen(0, '127.0.0.1');
  await once(probe, 'listening');
  const address = probe.address();
  probe.close();
  await once(probe, 'close');
  if (address === null || typeof address === 'string') throw new Error('a TCP server should have a port');
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
