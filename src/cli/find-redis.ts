import { spawn, type ChildProcessByStdio } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';
import { hasCode, SyncError } from '../core/errors.ts';
import { Secret } from '../core/secret.ts';
import { usage } from '../core/usage-error.ts';
import { checkTemporaryFolder } from '../files/temporary-folder.ts';
import type { RedisConnection } from '../jobs/connect-redis.ts';

export const localRedisUrl = 'redis://127.0.0.1:6379';

/**
 * One that answers, for keys that begin with the prefix: $REDIS_URL, else the usual port of this machine, where these
 * keys are removed at the end; else a `redis-server` of the PATH, started on a free port and ended with it. It is
 * disposed without leaving anything behind. `origin`: for people, which one it is. Throws USAGE where there is none.
 */
export async function findRedis(
  env: Readonly<Record<string, string | undefined>>,
  prefix: string,
  localUrl = localRedisUrl,
) {
  const given = env['REDIS_URL'] ?? '';
  if (given !== '' && !URL.canParse(given)) {
    throw usage(`REDIS_URL: expected an address such as ${localRedisUrl}.`);
  }
  const candidates = [
    ...(given === '' ? [] : [{ url: new Secret(given), origin: '$REDIS_URL' }]),
    { url: new Secret(localUrl), origin: localUrl },
  ];
  for (const { url, origin } of candidates) {
    if (await answers(url, prefix)) {
      return { url, origin, [Symbol.asyncDispose]: () => removeKeys(url, prefix) };
    }
  }
  return await startRedisServer(env['PATH']);
}

async function answers(url: Secret, prefix: string): Promise<boolean> {
  try {
    const connection = await connect(url, prefix);
    // One that wants a password answers the connection and nothing else.
    const answer = await connection.redis.ping().catch(() => null);
    connection.disconnect();
    return answer !== null;
  } catch (error) {
    if (hasCode(error, 'QUEUE_UNAVAILABLE')) return false;
    throw error;
  }
}

async function connect(url: Secret, prefix: string): Promise<RedisConnection> {
  // Loaded only here: the plain demo needs no Redis client.
  const { connectRedis } = await import('../jobs/connect-redis.ts');
  return await connectRedis({ url, prefix }, { commandTimeout: 2000 });
}

async function removeKeys(url: Secret, prefix: string): Promise<void> {
  const connection = await connect(url, prefix);
  const { redis } = connection;
  try {
    let cursor = '0';
    do {
      const [next, keys] = await redis.scan(cursor, 'MATCH', `${prefix}:*`, 'COUNT', 500);
      if (keys.length > 0) await redis.unlink(keys);
      cursor = next;
    } while (cursor !== '0');
  } finally {
    connection.disconnect();
  }
}

async function startRedisServer(path: string | undefined) {
  checkTemporaryFolder([tmpdir()]);
  const port = await freePort();
  const options = ['--port', String(port), '--bind', '127.0.0.1', '--dir', tmpdir(), '--save', ''];
  const policy = ['--appendonly', 'no', '--maxmemory-policy', 'noeviction'];
  const server = spawn('redis-server', [...options, ...policy], {
    env: { PATH: path },
    stdio: ['ignore', 'pipe', 'ignore'],
    // In a separate process group: Ctrl-C is for us, and we still need it while we end in order.
    detached: true,
  });
  // The second Ctrl-C leaves at once, without any cleaning up but this.
  const kill = (): void => void server.kill('SIGKILL');
  process.once('exit', kill);
  const stop = async (): Promise<void> => {
    process.off('exit', kill);
    if (server.exitCode !== null || server.signalCode !== null) return;
    const exited = once(server, 'exit');
    server.kill('SIGKILL');
    await exited;
  };
  try {
    await accepting(server);
  } catch (error) {
    process.off('exit', kill);
    throw noRedis(error);
  }
  return {
    url: new Secret(`redis://127.0.0.1:${port}`),
    origin: `started for this demo on port ${port}`,
    [Symbol.asyncDispose]: stop,
  };
}

/** Rejects when it cannot be started or ends before it accepts connections. */
function accepting(server: ChildProcessByStdio<null, Readable, null>): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.once('exit', () => reject(new Error('redis-server ended at once')));
    createInterface({ input: server.stdout }).on('line', (line) => {
      if (line.includes('Ready to accept connections')) resolve();
    });
  });
}

async function freePort(): Promise<number> {
  const probe = createServer().listen(0, '127.0.0.1');
  await once(probe, 'listening');
  const address = probe.address();
  probe.close();
  await once(probe, 'close');
  if (address !== null && typeof address === 'object') return address.port;
  throw new SyncError('A server on loopback should have a port.', { code: 'INTERNAL', recovery: 'stop' });
}

function noRedis(cause: unknown): SyncError {
  return new SyncError(
    [
      `Schedules need Redis: none answers at $REDIS_URL or ${localRedisUrl}, and there is no redis-server to start. Install one:`,
      '  apt-get install redis-server          on Debian and Ubuntu',
      '  brew install redis                    on macOS',
      '  docker run -p 6379:6379 redis         anywhere with Docker',
      'then run the same command again.',
    ].join('\n'),
    { code: 'USAGE', recovery: 'stop', cause },
  );
}
