import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer, type Server, type Socket } from 'node:net';
import { createServer as createTlsServer } from 'node:tls';
import { Redis } from 'ioredis';
import { afterEach, expect, it, vi } from 'vitest';
import { Secret } from '../../src/core/secret.ts';
import { connectRedis } from '../../src/jobs/connect-redis.ts';
import { startRedis } from '../support/redis.ts';

const prefix = 'connector-sync';
const opened: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of opened.splice(0).toReversed()) await close();
});

/** The error message for the Redis at `url`; null if it can be used. */
async function toldOf(url: string): Promise<string | null> {
  const printed = vi.spyOn(console, 'warn');
  try {
    (await connectRedis({ url: new Secret(url), prefix }, { enableOfflineQueue: false })).disconnect();
    return null;
  } catch (error) {
    expect(error).toMatchObject({ code: 'QUEUE_UNAVAILABLE' });
    return (error as Error).message.replace(/127\.0\.0\.1:\d+/, 'HOST');
  } finally {
    // The client prints to the console if INFO is denied.
    expect(printed).not.toHaveBeenCalled();
    printed.mockRestore();
  }
}

/** A Redis with a user `w` that has these rights, and its URL for that user. */
async function withUser(rights: string): Promise<{ readonly url: string; readonly admin: Redis }> {
  const redis = await startRedis();
  opened.push(() => redis.stop());
  const admin = new Redis(redis.url);
  opened.push(() => admin.disconnect());
  await admin.call('ACL', 'SETUSER', 'w', 'on', '>pw', ...rights.split(' '));
  return { url: redis.url.replace('//', '//w:pw@'), admin };
}

async function listening(server: Server): Promise<number> {
  const sockets = new Set<Socket>();
  server.on('connection', (socket: Socket) => sockets.add(socket.on('error', () => undefined)));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  opened.push(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  const address = server.address();
  return typeof address === 'object' && address !== null ? address.port : 0;
}

// Proves promise 12
it.each([
  ['~* &* +@all -@dangerous', 'run INFO\\. Allow them \\(ACL SETUSER w \\+@all -@dangerous \\+info\\)\\.'],
  ['~* &* +@all -eval -evalsha', 'run EVAL, EVALSHA. Allow them'],
  ['~* &* +@all -bzpopmin', 'run BZPOPMIN. Allow them'],
  ['~* &* +@all -zadd -hset', 'run HSET, ZADD. Allow them'],
  ['~* &* +@all -@write', 'and \\d+ more\\. Allow them'],
  ['~other:* &* +@all', 'use keys that begin with "connector-sync:". Allow them'],
  ['%R~* &* +@all', 'use keys that begin with "connector-sync:". Allow them'],
])('names the missing rights of a user with %s', async (rights, told) => {
  const { url, admin } = await withUser(rights);
  const pattern = new RegExp(`^Redis at HOST does not let its user "w" .*${told}`);
  expect(await toldOf(url)).toMatch(pattern);
  expect(await admin.keys('*')).toEqual([]);
});

// Proves promise 12
it('needs only the documented rights, and leaves no keys', async () => {
  const [, rights = ''] =
    /ACL SETUSER connector-sync on >\S+ (?<rights>.+)$/m.exec(
      readFileSync('docs/operations/install.md', 'utf8'),
    ) ?? [];
  const { url, admin } = await withUser(rights);
  expect(await toldOf(url)).toBeNull();
  expect(await admin.keys('*')).toEqual([]);
});

it('reports a replica, a loading server, and one at maxclients', async () => {
  const replica = await startRedis({ config: { replicaof: '127.0.0.1 1' } });
  opened.push(() => replica.stop());
  expect(await toldOf(replica.url)).toBe(
    'Redis at HOST is a read-only replica. Set redis.url to the primary.',
  );

  const info = 'loading:1\r\nloading_eta_seconds:600\r\n';
  const answers: Readonly<Record<string, string>> = {
    info: `$${info.length}\r\n${info}\r\n`,
    hello: '%1\r\n$6\r\nserver\r\n$5\r\nredis\r\n',
  };
  const loading = await listening(
    createServer((socket) =>
      socket.on('data', (data) => {
        for (const [, command = ''] of data.toString().matchAll(/\*\d+\r\n\$\d+\r\n(\w+)/g)) {
          socket.write(answers[command.toLowerCase()] ?? '+OK\r\n');
        }
      }),
    ),
  );
  expect(await toldOf(`redis://127.0.0.1:${loading}`)).toBe(
    'Redis at HOST is still loading its data. Start again when it has finished.',
  );

  const full = await startRedis({ config: { maxclients: '2' } });
  opened.push(() => full.stop());
  const others = [new Redis(full.url), new Redis(full.url)];
  for (const other of others) {
    await other.ping();
    opened.push(() => other.disconnect());
  }
  expect(await toldOf(full.url)).toMatch(/^Redis at HOST .*maxclients/);
});

it('reports missing TLS on either side, and an untrusted certificate', async () => {
  const plain = await startRedis();
  opened.push(() => plain.stop());
  expect(await toldOf(plain.url.replace('redis:', 'rediss:'))).toMatch(
    /^Redis at HOST does not answer over TLS: .* begin redis\.url with redis:\/\/ instead of rediss:\/\/\.$/,
  );
  const [key, cert] = ['key', 'cert'].map((name) => readFileSync(`test/fixtures/tls/${name}.pem`));
  const tls = await listening(createTlsServer({ key, cert }));
  expect(await toldOf(`redis://127.0.0.1:${tls}`)).toMatch(
    /^Redis at HOST closes the connection without an answer\. If it expects TLS, begin redis\.url with rediss:/,
  );
  expect(await toldOf(`rediss://127.0.0.1:${tls}`)).toMatch(
    /^Redis at HOST has a TLS certificate that is not trusted: .* NODE_EXTRA_CA_CERTS\.$/,
  );
});
