import { Redis } from 'ioredis';
import { afterEach, beforeEach, expect, it } from 'vitest';
import type { Service } from '../../src/service/start-service.ts';
import {
  cliSecret,
  makeCliFolder,
  startCliService,
  writeCliConfig,
  type CliFolder,
} from '../support/cli-config.ts';
import { freePort, startRedis } from '../support/redis.ts';
import { callCli, type CliResult } from '../support/run-cli.ts';

const password = 'redis-password-of-this-test';

let folder: CliFolder;
let service: Service;

beforeEach(async () => {
  folder = await makeCliFolder();
  service = await startCliService();
});

afterEach(async () => {
  await service.close();
  await folder[Symbol.asyncDispose]();
});

async function sync(redis: string): Promise<CliResult> {
  const config = await writeCliConfig(folder, service.url, { usesRedis: true });
  return await callCli(['sync', 'wiki', '--select', 'users', '--config', config, '--json'], {
    cwd: folder.path,
    env: { SECRET: cliSecret, REDIS: redis },
  });
}

it('sync shares its rate through the Redis of the config', async () => {
  await using redis = await startRedis({ password });
  const client = new Redis(redis.url);
  try {
    const { code, stderr } = await sync(redis.url);
    expect([code, stderr]).toEqual([0, '']);
    expect(await client.info('commandstats')).toContain('cmdstat_eval');
  } finally {
    client.disconnect();
  }
});

it('sync goes on by itself where that Redis is away, and says so once', async () => {
  const { code, stderr } = await sync(`redis://:${password}@127.0.0.1:${await freePort()}`);
  expect(code).toBe(0);
  expect(stderr.match(/Rate limits are not shared with other processes/g)).toHaveLength(1);
  expect(stderr).not.toContain(password);
});
