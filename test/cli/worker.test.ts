import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, describe, expect } from 'vitest';
import type { Service } from '../../src/service/start-service.ts';
import { cliSecret, startCliService, writeCliConfig } from '../support/cli-config.ts';
import { it } from '../support/it.ts';
import { freePort, startRedis, type PrivateRedis } from '../support/redis.ts';
import {
  callCli,
  jsonLines,
  startCli,
  startScript,
  type CliResult,
  type RunningCli,
} from '../support/run-cli.ts';

describe('worker', () => {
  const password = 'redis-password-1';
  const token = 'the-token-of-the-board';

  let folder: string;
  let service: Service;
  let config: string;

  it.beforeEach(async ({ folder: made }) => {
    folder = made;
    service = await startCliService();
    config = await writeCliConfig(folder, service.url, {
      usesRedis: true,
      schedules: { wiki: '{ every: 1h }' },
      more: 'http: { token: "${TOKEN}" }\n',
    });
  });

  afterEach(() => service.close());

  function environment(redis: Pick<PrivateRedis, 'url'>): Readonly<Record<string, string>> {
    return { SECRET: cliSecret, REDIS: redis.url, TOKEN: token };
  }

  function startWorkerCli(redis: PrivateRedis, ...args: readonly string[]): RunningCli {
    return startCli(['worker', '--config', config, ...args], { cwd: folder, env: environment(redis) });
  }

  /** Every line of the log; throws for one that is none. */
  function logLines({ stderr }: CliResult): readonly Readonly<Record<string, unknown>>[] {
    return stderr
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as Record<string, unknown>);
  }

  function expectNoSecrets({ stdout, stderr }: CliResult): void {
    for (const secret of [password, cliSecret, token]) expect(stdout + stderr).not.toContain(secret);
  }

  describe('worker', () => {
    it('runs what is scheduled, serves health and metrics meanwhile, and ends with 0 on SIGTERM', async () => {
      await using redis = await startRedis({ password });
      const running = startWorkerCli(redis, '--http', '127.0.0.1:0');
      await running.until('"msg":"run ended"');
      const url = /"http":"(http:[^"]+)"/.exec(running.output().stderr)?.[1] ?? '';
      const [health, ready, metrics, board] = await Promise.all(
        ['/healthz', '/readyz', '/metrics', '/board'].map((path) => fetch(`${url}${path}`)),
      );
      expect([health?.status, ready?.status, metrics?.status, board?.status]).toEqual([200, 200, 200, 401]);
      const queues = await fetch(`${url}/board/api/queues`, {
        headers: { authorization: `Bearer ${token}` },
      });
      expect(await queues.json()).toMatchObject({
        queues: expect.arrayContaining([expect.objectContaining({ displayName: 'sink main' })]) as unknown,
      });
      const text = (await metrics?.text()) ?? '';
      expect(text).toMatch(/^connector_sync_runs_total\{connector="wiki",outcome="ok"\} 1$/m);
      expect(text).toMatch(/^connector_sync_freshness_seconds\{connector="wiki",entity="users"\} \d/m);
      expect(text).toMatch(/^connector_sync_redis_up 1$/m);
      expect(text).toMatch(/^connector_sync_connectors\{state="all"\} 2$/m);
      expect(text).toMatch(/^connector_sync_connectors\{state="(ok|new)"\} 1$/m);
      expect(text).toMatch(/^connector_sync_worker_runs_total\{outcome="ok"\} 1$/m);

      running.child.kill('SIGTERM');
      const result = await running.result;
      expect([result.code, result.stdout]).toEqual([0, '']);
      expectNoSecrets(result);
      const lines = logLines(result);
      const line = (msg: string): unknown => lines.find((one) => one['msg'] === msg);
      expect(line('these connectors have no schedule: they run only on request')).toMatchObject({
        connectors: ['newsletter'],
      });
      expect(line('worker started')).toMatchObject({
        queues: ['ticks', expect.stringMatching(/^syncs-/) as string],
        concurrency: 2,
      });
      expect(line('ready for scheduled runs')).toMatchObject({
        version: expect.stringMatching(/^\d+\.\d+\.\d+$/) as string,
        connectors: ['newsletter', 'wiki'],
        sinks: [`main (${join(folder, 'main.db')})`],
        http: url,
      });
      expect(line('run ended')).toMatchObject({
        connector: 'wiki',
        outcome: 'ok',
        run: expect.any(String) as string,
        read: expect.any(Number) as number,
        written: expect.any(Number) as number,
        ms: expect.any(Number) as number,
        next: expect.stringMatching(/^\d{4}-.+Z$/) as string,
      });
      expect(lines.at(-1)).toMatchObject({ msg: 'worker stopped' });

      const status = await callCli(['status', 'wiki', '--config', config, '--json'], {
        cwd: folder,
        env: environment(redis),
      });
      expect(jsonLines(status)).toMatchObject([{ connectors: [{ status: { lastRun: { state: 'ok' } } }] }]);
    });

    it('runs what it is asked for by hand, of the connectors that it serves', async () => {
      await using redis = await startRedis({ password });
      const running = startWorkerCli(redis, '--connectors', 'news*', '--concurrency', '1');
      await running.until('ready for scheduled runs');
      const asked = await callCli(['schedule', 'run', 'wiki', 'newsletter', '--config', config], {
        cwd: folder,
        env: environment(redis),
      });
      expect(asked.code).toBe(0);
      await running.until('"msg":"run ended"');
      running.child.kill('SIGINT');
      const result = await running.result;
      expect(result.code).toBe(0);
      const ended = logLines(result).filter(({ msg }) => msg === 'run ended');
      expect(ended).toMatchObject([{ connector: 'newsletter', outcome: 'ok', next: null }]);
      expectNoSecrets(result);
    });

    it('warns of a Redis that may lose jobs, in lines of the log alone', async () => {
      await using redis = await startRedis({ password, config: { 'maxmemory-policy': 'allkeys-lru' } });
      const running = startWorkerCli(redis);
      await running.until('redis memory');
      running.child.kill('SIGTERM');
      const lines = logLines(await running.result);
      expect(lines.filter(({ msg }) => String(msg).includes('allkeys-lru'))).toMatchObject([
        { level: 'warn' },
      ]);
    });
  });

  describe('a worker that cannot start', () => {
    async function refused(
      args: readonly string[],
      env: Readonly<Record<string, string>> = {},
    ): Promise<CliResult> {
      const nowhere = { url: `redis://:${password}@127.0.0.1:${await freePort()}` };
      const result = await callCli(['worker', '--config', config, ...args], {
        cwd: folder,
        env: { ...environment(nowhere), ...env },
      });
      expectNoSecrets(result);
      return result;
    }

    it('says into its log why', async () => {
      await writeFile(join(folder, '.env'), 'A=b\n', { mode: 0o644 });
      const result = await refused([]);
      expect([result.code, result.stdout]).toEqual([1, '']);
      const lines = logLines(result);
      expect(lines.map(({ level }) => level)).toEqual(['warn', 'warn', 'fatal']);
      expect(lines.at(-1)?.['msg']).toMatch(/^Redis at 127.0.0.1:\d+ does not answer: /);
    });

    it('says it in one document with --json', async () => {
      const result = await refused(['--json'], { LOG_LEVEL: 'silent' });
      expect(result.code).toBe(1);
      expect(jsonLines(result)).toMatchObject([{ error: { code: 'QUEUE_UNAVAILABLE' } }]);
    });

    it.each([
      [['--connectors', 'news*', 'blog*'], 'No connector matches "blog*"; the config has newsletter, wiki.'],
      [['--concurrency', '0'], '--concurrency: expected a whole number from 1 to 64, got "0"'],
      [['--http', 'somewhere'], '--http: expected an address to listen on such as 9400'],
    ])('for %j ends with 2', async (args, why) => {
      const result = await refused(args);
      expect(result.code).toBe(2);
      expect(result.stderr.startsWith(`Error: ${why}`)).toBe(true);
      expect(result.stderr.trim().split('\n')).toHaveLength(1);
    });

    it('because its port is taken says so before it takes a job, and leaves nothing running', async () => {
      await using redis = await startRedis({ password });
      const port = new URL(service.url).port;
      const result = await startWorkerCli(redis, '--http', port).result;
      expect(result.code).toBe(2);
      const lines = result.stderr.trim().split('\n');
      expect(lines.at(-1)).toMatch(/^Error: .*EADDRINUSE/);
      expect(result.stderr).not.toMatch(/"stack"|worker started|run ended/);
    });

    it('because another file is registered under the name of its sink says what to do', async () => {
      await using redis = await startRedis({ password });
      const env = environment(redis);
      await callCli(['schedule', 'apply', '--config', config], { cwd: folder, env });
      const other = join(folder, 'other');
      await mkdir(other);
      const options = { usesRedis: true, schedules: { wiki: '{ every: 1h }' } };
      const elsewhere = await writeCliConfig(other, service.url, options);
      const result = await callCli(['worker', '--config', elsewhere], { cwd: other, env });
      expect(result.code).toBe(2);
      expect(logLines(result).at(-1)?.['msg']).toContain('schedule apply --take-over main');
    });
  });
});

const module = fileURLToPath(new URL('../../src/cli/run-command-line.ts', import.meta.url));

// A program that pays no attention to its signal: only the second interrupt can end it.
const program = `
  import { watchInterrupts } from ${JSON.stringify(module)};
  const { signal } = watchInterrupts(() => console.log('asked once'));
  setInterval(() => undefined, 1000);
  signal.addEventListener('abort', () => console.log('aborted: ' + signal.reason.code));
  console.log('ready');
`;

it.each(['SIGINT', 'SIGTERM'] as const)(
  'asks in order on the first %s and leaves at once on the second',
  async (name) => {
    const running = startScript(['--input-type=module', '-e', program], process.cwd());
    await running.until('ready');
    running.child.kill(name);
    await running.until('aborted: INTERRUPTED');
    running.child.kill(name);
    const { code, stdout } = await running.result;
    expect(code).toBe(130);
    expect(stdout.match(/asked once/g)).toHaveLength(1);
  },
);
