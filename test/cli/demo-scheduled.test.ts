import { Redis } from 'ioredis';
import { describe, expect } from 'vitest';
import { it } from '../support/it.ts';
import { findRedis } from '../../src/cli/demo/demo-world.ts';
import { freePort, startRedis } from '../support/redis.ts';
import { callCli, startCli } from '../support/run-cli.ts';
import { isLong } from '../support/trials.ts';

const password = 'redis-password-of-this-test';

/** What it says while nothing can be seen yet. */
const steps = `Starting a local API with sample data ...
Looking for Redis ...
Starting the worker ...
`;

describe.concurrent('demo --scheduled', () => {
  it.runIf(isLong)(
    'shows schedules firing and runs appearing, three times, and leaves nothing in Redis',
    async ({ folder }) => {
      await using redis = await startRedis({ password });
      const env = { REDIS_URL: redis.url };
      const result = await startCli(['demo', '--scheduled', '--directory', 'd'], { cwd: folder, env }).result;
      expect(result).toMatchObject({ code: 0, stderr: steps });
      expect(result.stdout).not.toContain(password);
      for (const name of ['newsletter', 'wiki']) {
        const fired = result.stdout.match(
          new RegExp(String.raw`^\d\d:\d\d:\d[05]  ${name} +schedule fired$`, 'gm'),
        );
        expect(fired?.length).toBeGreaterThanOrEqual(3);
        const ended = result.stdout.match(
          new RegExp(
            String.raw`^\S+  ${name} +ok in .+ read, [\d,]+ written \(next \d\d:\d\d:\d[05]\)$`,
            'gm',
          ),
        );
        expect(ended?.length).toBeGreaterThanOrEqual(3);
        expect(ended?.slice(1).every((line) => line.includes(' 0 written'))).toBe(true);
      }
      expect(result.stdout.split('\n').filter((line) => line.length > 100)).toEqual([]);
      const client = new Redis(redis.url);
      expect(await client.keys('*').finally(() => client.disconnect())).toEqual([]);

      const runs = await callCli(['runs', '--config', 'd/connector-sync.yaml'], { cwd: folder, env });
      expect(runs.stdout.match(/ ok /g)?.length).toBeGreaterThanOrEqual(6);
    },
    90_000,
  );

  it('shows a schedule firing and its run, ends in order and with 130 after Ctrl-C, leaves nothing in Redis, and says what to do next', async ({
    folder,
  }) => {
    await using redis = await startRedis({ password });
    const env = { REDIS_URL: redis.url };
    const running = startCli(['demo', '--scheduled', '--directory', 'd'], { cwd: folder, env });
    await running.until('ok in ');
    running.child.kill('SIGINT');
    const { code, stdout, stderr } = await running.result;
    expect([code, stderr]).toEqual([130, steps]);
    expect(stdout).toMatch(/^\d\d:\d\d:\d[05] {2}\w+ +schedule fired$/m);
    expect(stdout).not.toContain(password);
    const client = new Redis(redis.url);
    expect(await client.keys('*').finally(() => client.disconnect())).toEqual([]);
    expect(stdout).toContain('npx --no-install connector-sync schedule list --config d/connector-sync.yaml');
  });
});

describe('a Redis for the demo', () => {
  const prefix = 'connector-sync-demo-test';

  it('is the one that answers on this machine, from which only the keys of the prefix are removed', async () => {
    await using redis = await startRedis();
    const client = new Redis(redis.url);
    try {
      await client.mset('somebody:else', '1', `${prefix}:ticks`, '2', `${prefix}-other:x`, '3');
      const found = await findRedis({}, prefix, redis.url);
      expect(found.url.reveal()).toBe(redis.url);
      await found[Symbol.asyncDispose]();
      expect((await client.keys('*')).toSorted()).toEqual([`${prefix}-other:x`, 'somebody:else']);
    } finally {
      client.disconnect();
    }
  });

  it('is asked for in words where there is none', async () => {
    const localUrl = `redis://127.0.0.1:${await freePort()}`;
    await expect(findRedis({}, prefix, localUrl)).rejects.toMatchObject({
      code: 'USAGE',
      message: expect.stringContaining('docker run -p 6379:6379 redis') as string,
    });
    await expect(findRedis({ REDIS_URL: 'nonsense' }, prefix, localUrl)).rejects.toMatchObject({
      code: 'USAGE',
    });
  });
});
