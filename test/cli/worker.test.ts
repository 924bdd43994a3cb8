import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
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
import { callCli, jsonLines, startCli } from '../support/run-cli.ts';

let folder: CliFolder;
let service: Service;
let config: string;

beforeEach(async () => {
  folder = await makeCliFolder();
  service = await startCliService();
  config = await writeCliConfig(folder, service.url);
  const text = await readFile(config, 'utf8');
  const scheduled = text.replace('  wiki:\n', '  wiki:\n    schedule: { every: 1h }\n    include: [users]\n');
  await writeFile(config, `${scheduled}redis: { url: "\${REDIS}" }\n`);
});

afterEach(async () => {
  await service.close();
  await folder[Symbol.asyncDispose]();
});

it('worker runs what is scheduled without being asked, and ends with 0 on SIGTERM', async () => {
  await using redis = await startRedis({ password: 'redis-password-1' });
  const env = { SECRET: cliSecret, REDIS: redis.url };
  const running = startCli(['worker', '--config', config], { cwd: folder.path, env });
  await running.until('"outcome":"ok","msg":"run ended"');
  running.child.kill('SIGTERM');
  const { code, stdout, stderr } = await running.result;
  expect(code).toBe(0);
  expect(stdout).toBe('');
  expect(stderr).toContain('"connectors":["newsletter"],"msg":"these connectors have no schedule');
  expect(stderr).toContain('Interrupted: ending in order');
  for (const line of stderr.trim().split('\n')) expect(() => JSON.parse(line) as unknown, line).not.toThrow();
  expect(stderr).not.toContain('redis-password-1');
  expect(stderr).not.toContain(cliSecret);

  const status = await callCli(['status', 'wiki', '--config', config, '--json'], { cwd: folder.path, env });
  expect(jsonLines(status)).toMatchObject([{ connectors: [{ status: { lastRun: { state: 'ok' } } }] }]);
});

it('worker says into its log why it cannot start', async () => {
  await writeFile(join(folder.path, '.env'), 'A=b\n', { mode: 0o644 });
  const port = await freePort();
  const { code, stdout, stderr } = await callCli(['worker', '--config', config], {
    cwd: folder.path,
    env: { SECRET: cliSecret, REDIS: `redis://127.0.0.1:${port}` },
  });
  expect([code, stdout]).toEqual([1, '']);
  const lines = stderr
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as { level: string; msg: string });
  expect(lines.map(({ level }) => level)).toEqual(['warn', 'warn', 'fatal']);
  expect(lines.at(-1)?.msg).toContain(`Redis at 127.0.0.1:${port} should answer within 2 s`);
});

it('worker says in one sentence that there is no Redis', async () => {
  const port = await freePort();
  const result = await callCli(['worker', '--config', config, '--json'], {
    cwd: folder.path,
    env: { SECRET: cliSecret, REDIS: `redis://:redis-password-2@127.0.0.1:${port}`, LOG_LEVEL: 'silent' },
  });
  expect(result.code).toBe(1);
  expect(jsonLines(result)).toMatchObject([{ error: { code: 'QUEUE_UNAVAILABLE' } }]);
  expect(result.stdout + result.stderr).not.toContain('redis-password-2');
});
