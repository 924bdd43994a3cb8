import { afterAll, beforeAll, expect } from 'vitest';
import { it } from '../support/it.ts';
import type { Service } from '../../src/service/start-service.ts';
import { cliSecret, startCliService, writeCliConfig, type CliConfigOptions } from '../support/cli-config.ts';
import { freePort, startRedis } from '../support/redis.ts';
import { callCli, jsonLines, type CliResult } from '../support/run-cli.ts';

const password = 'redis-password-of-this-test';
const scheduled = { schedules: { wiki: '{ every: 1h }' }, usesRedis: true };

let folder: string;
let service: Service;

beforeAll(async () => {
  service = await startCliService();
});

afterAll(() => service.close());

it.beforeEach(({ folder: made }) => {
  folder = made;
});

async function check(options: CliConfigOptions, redis: string, ...args: string[]): Promise<CliResult> {
  const config = await writeCliConfig(folder, service.url, options);
  const result = await callCli(['check', '--config', config, ...args], {
    cwd: folder,
    env: { SECRET: cliSecret, REDIS: redis },
  });
  expect(result.stdout + result.stderr).not.toContain(password);
  return result;
}

async function nowhere(): Promise<string> {
  return `redis://:${password}@127.0.0.1:${await freePort()}`;
}

it('check inspects the Redis of the config; a warning changes no exit code', async () => {
  await using redis = await startRedis({ password });
  const { code, stdout } = await check(scheduled, redis.url);
  expect(code).toBe(0);
  expect(stdout).toMatch(/^✓ redis: /m);
  expect(stdout).toMatch(/^✓ redis memory: /m);
  expect(stdout).toMatch(/^! redis persistence: appendonly is off/m);
  expect(stdout).toMatch(/^✓ redis clock: /m);
  expect(jsonLines(await check(scheduled, redis.url, '--json'))).toMatchObject([{ ok: true }]);
});

it('check fails if a schedule needs Redis and none answers', async () => {
  const { code, stdout } = await check(scheduled, await nowhere());
  expect(code).toBe(1);
  expect(stdout).toMatch(/^✗ redis: Redis at 127.0.0.1:\d+ does not answer: /m);
});

it('check passes without Redis if no schedule needs it', async () => {
  const { code, stdout } = await check({ usesRedis: true }, await nowhere());
  expect(code).toBe(0);
  expect(stdout).toMatch(/^- redis: no schedule needs it, and rates are not shared without it: Redis at /m);
  expect(jsonLines(await check({ usesRedis: true }, await nowhere(), '--json'))).toMatchObject([
    { ok: true },
  ]);
});

it('check asks for no Redis where nothing would use one', async () => {
  const { code, stdout } = await check({}, '');
  expect(code).toBe(0);
  expect(stdout).not.toContain('redis');
});
