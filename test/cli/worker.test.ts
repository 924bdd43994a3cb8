import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, describe, expect } from 'vitest';
import { readFileSync, writeFileSync } from 'node:fs';
import type { Service } from '../../src/service/start-service.ts';
import {
  cliSecret,
  startCliService,
  writeCliConfig,
  openCliWorld,
  type CliWorld,
} from '../support/cli-world.ts';
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
import { redisContents } from '../support/redis-contents.ts';
import { systemClock } from '../../src/core/clock.ts';
import type { JsonObject } from '../../src/core/json.ts';
import { jsonAnswer } from '../support/upstream/fake-server.ts';
import { bentBody, instead, onPath } from '../support/upstream/faults.ts';
import { openDirectWorld, worldRows } from '../support/upstream/direct-world.ts';
import { mailchimpWorld } from '../support/upstream/upstream-world.ts';
import type { SampleAccount } from '../../src/sample/sample-account.ts';
import { ApiError } from '../../src/service/api-error.ts';
import { text } from '../support/service/served-api.ts';

describe('worker', () => {
  const password = 'redis-password-1';
  const token = 'the-token-of-the-pages';

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
      const [health, ready, metrics, pages] = await Promise.all(
        ['/healthz', '/readyz', '/metrics', '/'].map((path) => fetch(`${url}${path}`)),
      );
      expect([health?.status, ready?.status, metrics?.status, pages?.status]).toEqual([200, 200, 200, 401]);
      const opened = await fetch(url, { headers: { authorization: `Bearer ${token}` } });
      expect([opened.status, await opened.text()]).toEqual([200, expect.stringContaining('connectors/wiki')]);
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
      const ends = lines.filter(({ msg }) => /\b(ended|finished)$/.test(String(msg)));
      expect(ends.map(({ msg }) => msg)).toEqual(ends.map(() => 'run ended'));
      expect(new Set(ends.map(({ run }) => run)).size).toBe(ends.length);
      expect(line('run ended')).toMatchObject({
        connector: 'wiki',
        outcome: 'ok',
        run: expect.any(String) as string,
        read: expect.any(Number) as number,
        written: expect.any(Number) as number,
        ms: expect.any(Number) as number,
      });
      expect(lines.at(-1)).toMatchObject({ msg: 'worker stopped' });

      const status = await callCli(['status', 'wiki', '--config', config, '--json'], {
        cwd: folder,
        env: environment(redis),
      });
      expect(jsonLines(status)).toMatchObject([{ connectors: [{ status: { lastRun: { state: 'ok' } } }] }]);
    });

    it('runs what it is asked for by hand, and warns of a Redis that may lose jobs', async () => {
      await using redis = await startRedis({ password, config: { 'maxmemory-policy': 'allkeys-lru' } });
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
      expect(ended).toMatchObject([{ connector: 'newsletter', outcome: 'ok' }]);
      const warned = logLines(result).filter(({ msg }) => String(msg).includes('allkeys-lru'));
      expect(warned).toMatchObject([{ level: 'warn' }]);
      expectNoSecrets(result);
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

describe('with credentials in the config, and no API', () => {
  it('every command that reads a connector works', async () => {
    await using world = await mailchimpWorld({ as: 'my-mail' });
    await using direct = openDirectWorld(world, { settings: '    include: [lists, list_members]\n' });
    const checked = await direct.cli('check');
    expect(checked.stdout).toContain(`✓ connector mine: account ${world.identity} answers`);
    expect(checked.code).toBe(0);
    expect((await direct.cli('sync')).code).toBe(0);

    const [list] = worldRows(world).get('lists')?.keys() ?? [];
    const id = String((JSON.parse(list ?? '[]') as unknown[])[0]);
    expect(await direct.json('list', 'mine/lists')).toMatchObject([
      { records: [{ name: expect.any(String) }, {}] },
    ]);
    expect(await direct.json('get', 'mine/lists', '--param', `list_id=${id}`)).toMatchObject([
      { record: { id } },
    ]);
    expect(await direct.json('audit', 'mine/list_members')).toMatchObject([
      { isEqual: true, isProven: true },
    ]);
    expect((await direct.cli('refetch', 'mine/lists', '--key', `id=${id}`)).code).toBe(0);
    expect((await direct.cli('explain', 'mine/lists', '--key', `id=${id}`)).code).toBe(0);
    const since = ['--since', '2024-01-01', '--until', '2025-01-01', '--window', '12mo'];
    const filled = await direct.cli('backfill', 'mine', '--select', 'list_members', ...since);
    expect({ code: filled.code, stderr: filled.stderr }).toMatchObject({ code: 0 });
    expect((await direct.cli('status')).stdout).toContain('mine: ok; last run ok');
  });

  // Proves promise 17.3
  it('processes with one key keep the limit of calls at a time together, without a Redis', async () => {
    await using world = await mailchimpWorld({ as: 'my-mail' });
    const most = world.definition.upstream?.limits.concurrency;
    await using first = openDirectWorld(world);
    await using second = openDirectWorld(world);
    await using third = openDirectWorld(world);
    world.fake.script({
      times: Infinity,
      effect: async (right) => {
        await systemClock.sleep(50);
        return right();
      },
    });
    const synced = [first, second, third].map((direct) => direct.cli('sync'));
    expect((await Promise.all(synced)).map(({ code }) => code)).toEqual([0, 0, 0]);
    expect(world.fake.peak()).toBeLessThanOrEqual(most ?? 0);
  });

  it('check asks each root entity for one page, and names those that are not as the definition says', async () => {
    await using world = await mailchimpWorld({ as: 'my-mail' });
    await using direct = openDirectWorld(world);
    const sound = await direct.cli('check');
    expect(sound.code).toBe(0);
    expect(sound.stdout).toMatch(/^✓ pages of mine: (\d+) root entities answered as the definition says$/m);
    const bend = (path: string, body: (right: JsonObject) => JsonObject): void =>
      world.fake.script({ on: onPath(path), times: 100, effect: bentBody(body) });
    bend('/lists', ({ lists, ...rest }) => ({ ...rest, audiences: lists ?? [] }));
    bend('/campaigns', ({ total_items: _total, ...rest }) => rest);
    bend('/automations', (right) => ({ ...right, automations: [], total_items: 70 }));
    const forbidden = jsonAnswer(403, { status: 403, title: 'Forbidden', detail: 'not for your role' });
    world.fake.script({ on: onPath('/reports'), times: 100, effect: instead(forbidden) });
    const before = world.fake.requests.length;
    const { code, stdout } = await direct.cli('check');
    expect(code).toBe(1);
    expect(stdout).toMatch(
      /^✗ page of mine\/lists: list lists: expected an array of records at lists, got nothing there: the answer is an object with .*"audiences" \(an array of 2\), /m,
    );
    expect(stdout).toMatch(
      /^! page of mine\/campaigns: the answer names no total where the definition says/m,
    );
    expect(stdout).toMatch(
      /^! page of mine\/automations: asked for \d+ records by count, got 0 of 70: the service gives shorter pages/m,
    );
    expect(stdout).toMatch(
      /^! page of mine\/reports: list reports was answered with 403 "not for your role"/m,
    );
    // One for each, one more for the wrong path, and the one for the credentials.
    const entities = Number(/pages of mine: (\d+) root/.exec(sound.stdout)?.[1]);
    expect(world.fake.requests.length - before).toBe(entities + 2);
    expect(JSON.parse((await direct.cli('check', '--json')).stdout)).toMatchObject({
      ok: false,
      checks: expect.arrayContaining([
        expect.objectContaining({ what: 'page of mine/lists', state: 'failed', code: 'BODY_INVALID' }),
      ]) as unknown,
    });
  });

  it('commands that need an API say so', async () => {
    await using world = await mailchimpWorld({ as: 'my-mail' });
    await using direct = openDirectWorld(world);
    for (const args of [['connectors', 'list'], ['workspaces', 'list'], ['definitions']]) {
      const { code, stderr } = await direct.cli(...args);
      expect({ args, code }).toEqual({ args, code: 2 });
      expect(stderr).toMatch(/API/);
    }
    expect(world.fake.requests).toEqual([]);
  });

  // Proves promise 10
  it('a worker runs what is scheduled, and nothing that it says or keeps in Redis holds a credential', async () => {
    await using redis = await startRedis({ password: 'redis-password-1' });
    await using world = await mailchimpWorld({ as: 'my-mail' });
    await using direct = openDirectWorld(world, {
      settings: '    schedule: { every: 1h }\n    include: [lists]\n',
    });
    writeFileSync(direct.config, `${readFileSync(direct.config, 'utf8')}redis: { url: "\${REDIS}" }\n`);
    const worker = startCli(['worker', '--config', direct.config], {
      cwd: direct.folder,
      env: { ...direct.env, REDIS: redis.url },
    });
    await worker.until('"msg":"run ended"');
    const stored = await redisContents(redis.url);
    expect(stored).toContain('mine');
    worker.child.kill('SIGTERM');
    const { code, stdout, stderr } = await worker.result;
    expect(code).toBe(0);
    expect(stderr).toContain('"outcome":"ok"');
    for (const secret of Object.values(direct.env)) expect(stdout + stderr + stored).not.toContain(secret);
  });
});

describe('backfills', () => {
  let world: CliWorld;
  let failing: string | null = null;
  const asked: Record<string, unknown>[] = [];

  const wrap = (account: SampleAccount): SampleAccount => ({
    get: (entity, params) => account.get(entity, params),
    list: (entity, params) => {
      if (entity === 'list_members') asked.push({ ...params });
      if (failing !== null && text(params['since_last_changed']).startsWith(failing)) {
        throw new ApiError(400, 'out of order');
      }
      return account.list(entity, params);
    },
  });

  afterEach(async () => {
    failing = null;
    asked.length = 0;
    await world[Symbol.asyncDispose]();
  });

  const members = ['backfill', 'newsletter', '--select', 'list_members'] as const;
  const threeYears = ['--since', '2022-01-01', '--until', '2025-01-01', '--window', '12mo'] as const;

  interface Ended {
    readonly kind: string;
    readonly window: string;
    readonly report: { readonly kind: string; readonly outcome: string };
  }

  function ended(lines: readonly Record<string, unknown>[]): readonly Ended[] {
    return lines.filter(({ kind }) => kind === 'run-report') as unknown as readonly Ended[];
  }

  describe('backfill', () => {
    it('reads the windows newest first, a run for each, and passes over those that are done', async () => {
      world = await openCliWorld({ wrap });
      const lines = await world.json(...members, ...threeYears);
      expect(ended(lines).map(({ window, report }) => [window, report.kind, report.outcome])).toEqual(
        ['2024', '2023', '2022'].map((year) => [
          `${year}-01-01T00:00:00.000Z/${Number(year) + 1}-01-01T00:00:00.000Z`,
          'backfill',
          'ok',
        ]),
      );
      expect(lines.at(-1)).toMatchObject({ kind: 'backfill', isDone: true });
      // Every call for members has both bounds.
      expect(asked.length).toBeGreaterThan(3);
      expect(asked.every((params) => 'since_last_changed' in params && 'before_last_changed' in params)).toBe(
        true,
      );
      asked.length = 0;
      const again = await world.cli(...members, ...threeYears);
      expect(again).toMatchObject({ code: 0, stdout: expect.stringContaining('0 windows') as string });
      expect(asked).toEqual([]);
      const longer = await world.json(
        ...members,
        '--since',
        '2022-01-01',
        '--until',
        '2026-01-01',
        '--window',
        '12mo',
      );
      expect(ended(longer).map(({ window }) => window.slice(0, 4))).toEqual(['2025']);
      expect(ended(await world.json(...members, ...threeYears, '--again'))).toHaveLength(3);
    });

    it('reports each window once, as it ends, and then their sum', async () => {
      world = await openCliWorld();
      const { code, stdout } = await world.cli(...members, ...threeYears);
      expect(code).toBe(0);
      expect(stdout).toMatch(/^newsletter: 3 windows of list_members to read$/m);
      expect(stdout).toMatch(/^2024-01-01 to 2025-01-01: ok in .* read, \d+ written {2}run \d{8}T/m);
      expect(stdout.match(/2024-01-01 to 2025-01-01/g)).toHaveLength(1);
      expect(stdout).toMatch(/^total: 3 windows, \d+ read, \d+ inserted, .* calls$/m);
    });

    it('reads a window that had to leave something out again the next time, and ends with 3', async () => {
      world = await openCliWorld({ wrap, settings: '    include: [lists, list_members]\n' });
      failing = '2022-12-31';
      const first = await world.cli(...members, ...threeYears, '--json');
      expect(first.code).toBe(3);
      const outcomes = ended(jsonLines(first)).map(({ report }) => report.outcome);
      expect(outcomes[0]).toBe('ok');
      expect(outcomes).not.toEqual(['ok', 'ok', 'ok']);
      failing = null;
      const second = await world.cli(...members, ...threeYears, '--json');
      expect(second.code).toBe(0);
      expect(ended(jsonLines(second)).length).toBeGreaterThan(0);
      expect(ended(jsonLines(second)).every(({ report }) => report.outcome === 'ok')).toBe(true);
      expect(ended(jsonLines(second)).map(({ window }) => window.slice(0, 4))).not.toContain('2024');
    }, 60_000);

    it.each([
      [['--since', '2022-01-01'], "'--window <length>' not specified"],
      [['--since', 'yesterday', '--window', '1mo'], '--since: expected a date'],
      [['--since', '2022-01-01', '--window', '1x'], '--window: expected 1mo'],
      [['--since', '2022-01-01', '--until', '2021-01-01', '--window', '1mo'], 'before the end'],
      [
        ['--since', '2022-01-01', '--window', '1m'],
        'at least 1h (m are minutes), got "1m". Did you mean "1mo" (months)?',
      ],
      [['--since', '2022-01-01', '--until', '2023-06-01', '--window', '1h'], 'more than 10000 windows'],
      [['--since', '2022-01-01', '--window', '1mo', '--queue', '--again'], 'use one of the two'],
    ])('refuses %j', async (args, message) => {
      world = await openCliWorld();
      const result = await world.cli(...members, ...args);
      expect(result).toMatchObject({ code: 2, stderr: expect.stringContaining(message) as string });
    });

    it('refuses entities that cannot be bounded, and names those that can', async () => {
      world = await openCliWorld();
      const args = ['--since', '2024-01-01', '--window', '1mo'];
      const wiki = await world.cli('backfill', 'wiki', ...args);
      expect(wiki).toMatchObject({ code: 2, stderr: expect.stringContaining('No entity of this') as string });
      const nothing = await world.cli('backfill', 'newsletter', '--select', 'nothing', ...args);
      expect(nothing).toMatchObject({ code: 2, stderr: expect.stringContaining('list_members') as string });
    });

    it('has examples in its help that it understands', async () => {
      world = await openCliWorld();
      const { stdout } = await world.cli('backfill', '--help');
      const examples = [...stdout.matchAll(/^ {2}\$ connector-sync (backfill .*)$/gm)].map(
        ([, command = '']) => command,
      );
      expect(examples.length).toBeGreaterThan(1);
      const [first = ''] = examples;
      expect((await world.cli(...first.split(' '))).code).toBe(0);
    });
  });
});

describe('backfill --queue', () => {
  it('leaves the windows to a worker, once', async () => {
    await using redis = await startRedis();
    await using world = await openCliWorld({
      redisUrl: redis.url,
      settings: '    include: [lists, list_members]\n',
    });
    const args = ['backfill', 'newsletter', '--select', 'list_members', '--since', '2022-01-01'];
    const span = [...args, '--until', '2025-01-01', '--window', '12mo'];
    const nobody = await world.cli(...span, '--queue');
    expect(nobody).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('no worker would take') as string,
    });
    await world.json('sync', 'newsletter', '--select', 'lists');
    const [queued] = await world.json(...span, '--queue');
    expect(queued).toEqual({
      connector: 'newsletter',
      isNew: true,
      backfill: {
        entities: ['list_members'],
        since: '2022-01-01T00:00:00.000Z',
        until: '2025-01-01T00:00:00.000Z',
        window: '12mo',
      },
    });
    expect((await world.cli(...span, '--queue')).code).toBe(5);

    const worker = startCli(['worker', '--config', world.config], { cwd: world.folder, env: world.env });
    await worker.until('"job":"backfill","end":"done"');
    worker.child.kill('SIGTERM');
    expect((await worker.result).code).toBe(0);
    const kinds = jsonLines(await world.cli('runs', '--json'))[0]?.['runs'] as readonly {
      readonly kind: string;
    }[];
    expect(kinds.filter(({ kind }) => kind === 'backfill')).toHaveLength(3);
    expect(await world.cli(...span)).toMatchObject({
      code: 0,
      stdout: expect.stringContaining('0 windows') as string,
    });
  }, 60_000);
});
