import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer, type Server, type Socket } from 'node:net';
import { createServer as createTlsServer } from 'node:tls';
import { Redis } from 'ioredis';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { setTimeout as pause } from 'node:timers/promises';
import { systemClock } from '../../src/core/clock.ts';
import { Secret } from '../../src/core/secret.ts';
import { connectRedis, examineRedis } from '../../src/jobs/connect-redis.ts';
import { startRelay } from '../support/postgres-proxy.ts';
import { instantClock } from '../support/instant-clock.ts';
import { freePort, startRedis } from '../support/redis.ts';
import { addSync } from '../../src/jobs/open-queue-set.ts';
import type { LastRun } from '../../src/jobs/worker-context.ts';
import {
  collect,
  eventually,
  every,
  everySecond,
  interrupted,
  ledgerWith,
  newsletter,
  ok,
  openWorkerBench,
  yearly,
  type WorkerBench,
} from '../support/jobs/worker-bench.ts';

const prefix = 'test';

it('names the cause and the fix when Redis does not answer', async () => {
  const port = await freePort();
  const url = new Secret(`redis://127.0.0.1:${port}`);
  await expect(connectRedis({ url, prefix }, {})).rejects.toMatchObject({
    code: 'QUEUE_UNAVAILABLE',
    message: `Redis at 127.0.0.1:${port} does not answer: it refused the connection (ECONNREFUSED). Start it, or correct redis.url.`,
  });
});

it('gives up on a server that accepts the connection but does not answer', async () => {
  const server = createServer(() => undefined).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  const port = typeof address === 'object' && address !== null ? address.port : 0;
  const began = Date.now();
  await expect(
    connectRedis({ url: new Secret(`redis://127.0.0.1:${port}`), prefix }, {}),
  ).rejects.toMatchObject({
    code: 'QUEUE_UNAVAILABLE',
    message: expect.stringContaining('no answer within 2000 ms') as string,
  });
  expect(Date.now() - began).toBeLessThan(2500);
  server.close();
});

it('connects where this process had no time to read the answer within two seconds', async () => {
  await using redis = await startRedis();
  const connecting = connectRedis({ url: new Secret(redis.url), prefix }, {});
  const busyUntilMs = performance.now() + 2_100;
  while (performance.now() < busyUntilMs);
  (await connecting).disconnect();
});

it('connects anew where a firewall has forgotten the connection, and its copy for blocking reads too', async () => {
  await using redis = await startRedis();
  using relay = await startRelay(redis.port);
  const url = new Secret(`redis://127.0.0.1:${relay.port}`);
  const connection = await connectRedis({ url, prefix }, { maxRetriesPerRequest: null, socketTimeout: 300 });
  const copy = connection.redis.duplicate();
  await copy.ping();
  relay.forget();
  const answers = Promise.all([connection.redis.ping(), copy.blpop('none', 0.1)]);
  expect(await answers).toEqual(['PONG', null]);
  connection.disconnect();
});

it.each([
  ['a wrong password', ':another-password@', 'WRONGPASS'],
  ['a missing password', '', 'NOAUTH'],
])('reports rejected credentials, not an outage, for %s', async (_, userinfo, code) => {
  await using redis = await startRedis({ password: 'the-password' });
  const { host } = new URL(redis.url);
  await expect(
    connectRedis({ url: new Secret(`redis://${userinfo}${host}`), prefix }, {}),
  ).rejects.toMatchObject({
    code: 'QUEUE_UNAVAILABLE',
    message: expect.stringMatching(
      new RegExp(
        `^Redis at ${host} rejects the user name or password of redis.url: ${code} [^]*Correct them`,
      ),
    ) as string,
  });
});

it('detects a server that is not Redis', async () => {
  const server = createServer((socket) => socket.end('HTTP/1.1 400 Bad Request\r\n\r\n')).listen(
    0,
    '127.0.0.1',
  );
  await once(server, 'listening');
  const address = server.address();
  const port = typeof address === 'object' && address !== null ? address.port : 0;
  await expect(
    connectRedis({ url: new Secret(`redis://127.0.0.1:${port}`), prefix }, {}),
  ).rejects.toMatchObject({
    message: `Redis at 127.0.0.1:${port} is not a Redis server: another program answers there. Set redis.url to the address of Redis.`,
  });
  server.close();
});

it('fails if the chosen database does not exist, instead of using database 0', async () => {
  await using redis = await startRedis();
  const url = (database: number): Secret => new Secret(`${redis.url}/${database}`);
  (await connectRedis({ url: url(3), prefix }, {})).disconnect();
  await expect(connectRedis({ url: url(99), prefix }, {})).rejects.toMatchObject({
    message: expect.stringContaining('has no database 99 (ERR DB index is out of range)') as string,
  });
});

it('reports no problem for a correctly configured Redis', async () => {
  await using redis = await startRedis({ password: 'the-password', appendOnly: true });
  const findings = await examineRedis({ url: new Secret(redis.url), prefix: 'test' }, systemClock);
  expect(findings.map(({ what, state }) => [what, state])).toEqual([
    ['redis', 'ok'],
    ['redis memory', 'ok'],
    ['redis persistence', 'ok'],
    ['redis clock', 'ok'],
  ]);
  expect(findings[0]?.detail).toMatch(/^version \d+\.\d+/);
});

it('reports a cluster', async () => {
  await using redis = await startRedis({ config: { 'cluster-enabled': 'yes' } });
  const found = await examineRedis({ url: new Secret(redis.url), prefix: 'test' }, systemClock);
  expect(found[0]).toEqual({
    what: 'redis',
    state: 'failed',
    detail: 'is a cluster: jobs need keys that it keeps apart; use a standalone Redis',
  });
});

it('warns of settings that may lose jobs', async () => {
  await using redis = await startRedis({ config: { 'maxmemory-policy': 'allkeys-lru' } });
  const findings = await examineRedis({ url: new Secret(redis.url), prefix: 'test' }, systemClock);
  expect(findings.filter(({ state }) => state !== 'ok')).toMatchObject([
    { what: 'redis memory', state: 'warning', detail: expect.stringContaining('allkeys-lru') as string },
    { what: 'redis persistence', state: 'warning', detail: expect.stringContaining('appendonly') as string },
  ]);
});

it.each([
  [3600, 'behind'],
  [-3600, 'ahead of'],
])('warns of a clock that differs by %i s', async (seconds, word) => {
  await using redis = await startRedis({ appendOnly: true });
  const findings = await examineRedis(
    { url: new Secret(redis.url), prefix: 'test' },
    instantClock(Date.now() + seconds * 1000),
  );
  expect(findings.filter(({ state }) => state !== 'ok')).toMatchObject([
    { what: 'redis clock', state: 'warning', detail: expect.stringMatching(/ (3599|3600)\.\d s /) as string },
  ]);
  expect(findings.at(-1)?.detail).toContain(word);
});

it('reports a wrong password without showing it', async () => {
  await using redis = await startRedis({ password: 'the-password' });
  const url = `redis://:wrong-one@127.0.0.1:${redis.port}`;
  const [finding, ...others] = await examineRedis({ url: new Secret(url), prefix: 'test' }, systemClock);
  expect(finding).toMatchObject({ what: 'redis', state: 'failed' });
  expect(finding?.detail).toMatch(/password/i);
  expect(finding?.detail).not.toContain('wrong-one');
  expect(others).toEqual([]);
});

it('reports a refused connection', async () => {
  const url = new Secret(`redis://127.0.0.1:${await freePort()}`);
  expect(await examineRedis({ url: url, prefix: 'test' }, systemClock)).toMatchObject([
    { what: 'redis', state: 'failed', detail: expect.stringContaining('ECONNREFUSED') as string },
  ]);
});

describe('the rights of a user', () => {
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
    ['~* &* +@all -evalsha', 'run EVALSHA. Allow them'],
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
});

describe.concurrent('a worker whose Redis', () => {
  it('is killed and restarts continues, and loses no active job', async () => {
    await using bench = await openWorkerBench({ appendOnly: true });
    const begun = collect<string>();
    let release: () => void = () => undefined;
    const held = new Promise<void>((resolve) => (release = resolve));
    const worker = await bench.start({ newsletter: every(300) }, async (_, { signal }) => {
      begun.add('run');
      if (begun.values.length > 1) return ok;
      await held;
      return signal.aborted ? interrupted : ok;
    });
    await begun.until(1);
    await bench.redis.kill();
    expect(await worker.state()).toEqual({
      isReady: false,
      problems: ['Redis does not answer'],
      depth: [],
    });
    // Longer than the lock duration, which is the harder case.
    await pause(3000);
    await bench.redis.restart();
    const back = Date.now();
    await eventually(async () => (await worker.state()).isReady);
    expect(Date.now() - back).toBeLessThan(5000);
    release();
    await begun.until(4);
    expect(
      bench.lines.filter(({ message }) => message.startsWith('Redis reports an error')).length,
    ).toBeLessThan(10);
  }, 60_000);

  it('loses its data during a run interrupts the run, then resumes it', async () => {
    await using bench = await openWorkerBench();
    let last: LastRun | null = null;
    const begun = collect<string>();
    await bench.start(
      { newsletter: yearly },
      (_, { signal }) => {
        begun.add('run');
        last = { startedAt: new Date().toISOString(), state: 'running' };
        if (begun.values.length > 1) return Promise.resolve(ok);
        return new Promise((resolve) => {
          signal.addEventListener('abort', () => {
            last = { startedAt: new Date().toISOString(), state: 'interrupted' };
            resolve(interrupted);
          });
        });
      },
      { ledger: ledgerWith(() => last) },
    );
    await addNow(bench);
    await begun.until(1);
    await bench.client.flushall();
    await begun.until(2);
    expect(await bench.ticks.getJobSchedulersCount()).toBe(1);
    expect(bench.events.filter(({ kind }) => kind === 'job-started')).toMatchObject([
      { reason: 'manual' },
      { reason: 'catch-up' },
    ]);
  });

  it.each<[string, (client: Redis) => Promise<unknown>, (client: Redis) => Promise<unknown>]>([
    [
      'OOM',
      (client) => client.config('SET', 'maxmemory', '1'),
      (client) => client.config('SET', 'maxmemory', '0'),
    ],
    ['READONLY', (client) => client.replicaof('127.0.0.1', 1), (client) => client.replicaof('NO', 'ONE')],
  ])(
    'rejects commands (%s) backs off, logs it once, and resumes afterwards',
    async (kind, spoil, mend) => {
      await using bench = await openWorkerBench();
      const runs = collect<string>();
      const worker = await bench.start({ newsletter: everySecond }, () => {
        runs.add('run');
        return Promise.resolve(ok);
      });
      await runs.until(1);
      await spoil(bench.client);
      await eventually(async () => (await worker.state()).problems.length > 0);
      const said = (): number => bench.lines.filter(({ facts }) => facts['kind'] === kind).length;
      // Without backoff a worker gets some ten thousand errors in this time.
      await pause(3000);
      expect(said()).toBe(1);
      expect(bench.events.filter((event) => event.kind === 'redis-error').length).toBeLessThan(100);
      await mend(bench.client);
      const before = runs.values.length;
      await runs.until(before + 2);
      expect(await worker.state()).toMatchObject({ isReady: true, problems: [] });
    },
    60_000,
  );
});

// Proves promise 12
it('does not return a job whose lock was lost: another worker resumes the run', async () => {
  await using bench = await openWorkerBench();
  const begun = collect<string>();
  await bench.start({ newsletter: yearly }, (_, { signal }) => {
    begun.add('run');
    if (begun.values.length > 1) return Promise.resolve(ok);
    return new Promise((resolve) => {
      signal.addEventListener('abort', () => resolve(interrupted));
    });
  });
  await addNow(bench);
  await begun.until(1);
  const [job] = await bench.syncs.getJobs(['active']);
  await bench.client.del(bench.syncs.toKey(`${job?.id}:lock`));
  await begun.until(2);
  await eventually(async () => (await bench.syncs.getCompletedCount()) === 1);
  const ends = bench.events.flatMap((event) => (event.kind === 'job-ended' ? [event.end] : []));
  expect(ends).toEqual(['given-back', 'done']);
  expect((await bench.syncs.getCompleted())[0]?.attemptsMade).toBe(1);
  // Logged once, as what it is; Redis has no fault, neither in the log nor in the metrics.
  expect(bench.lines.filter(({ level }) => level !== 'info')).toEqual([
    {
      level: 'warn',
      facts: expect.objectContaining({ connector: 'newsletter' }) as object,
      message: 'lost the lock of a job: its run stopped; another worker takes it',
    },
  ]);
  expect(bench.events.filter(({ kind }) => kind === 'redis-error')).toEqual([]);
});

async function addNow(bench: WorkerBench): Promise<void> {
  await addSync(bench.syncs, { connector: newsletter, reason: 'manual', due: null }, { retryDelayMs: 100 });
}
