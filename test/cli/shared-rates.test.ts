import { Redis } from 'ioredis';
import { afterEach, expect } from 'vitest';
import { it } from '../support/it.ts';
import type { Service } from '../../src/service/start-service.ts';
import { cliSecret, startCliService, writeCliConfig } from '../support/cli-config.ts';
import { freePort, startRedis } from '../support/redis.ts';
import { callCli, type CliResult } from '../support/run-cli.ts';

const password = 'redis-password-of-this-test';

let folder: string;
let service: Service;

it.beforeEach(async ({ folder: made }) => {
  folder = made;
  service = await startCliService();
});

afterEach(() => service.close());

async function sync(redis: string): Promise<CliResult> {
  const config = await writeCliConfig(folder, service.url, { usesRedis: true });
  return await callCli(['sync', 'wiki', '--select', 'users', '--config', config, '--json'], {
    cwd: folder,
    env: { SECRET: cliSecret, REDIS: redis },
  });
}

it('sync shares its rate through the Redis of the config', async () => {
  await using redis = await startRedis({ password });
  const client = new Redis(redis.url);
  try {
    const { code, stderr } = await sync(redis.url);
    expect([code, stderr]).toEqual([0, expect.stringMatching(/^wiki: made the sink main: \S+\n$/)]);
    expect(await client.info('commandstats')).toContain('cmdstat_eval');
  } finally {
    client.disconnect();
  }
});

it('sync continues with its own rate if that Redis does not answer, and reports it once', async () => {
  const { code, stderr } = await sync(`redis://:${password}@127.0.0.1:${await freePort()}`);
  expect(code).toBe(0);
  expect(stderr.match(/Rate limits are not shared with other processes/g)).toHaveLength(1);
  expect(stderr).not.toContain(password);
});
