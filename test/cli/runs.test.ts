import { userInfo } from 'node:os';
import { afterEach, describe, expect } from 'vitest';
import type { Service } from '../../src/service/start-service.ts';
import { cliSecret, startCliService, writeCliConfig } from '../support/cli-config.ts';
import { openCliWorld } from '../support/cli-world.ts';
import { it } from '../support/it.ts';
import { startRedis } from '../support/redis.ts';
import { callCli, jsonLines, startCli, type CliResult } from '../support/run-cli.ts';

describe('runs --follow', () => {
  let service: Service;
  let config: string;
  const env = { SECRET: cliSecret };

  it.beforeEach(async ({ folder }) => {
    service = await startCliService();
    config = await writeCliConfig(folder, service.url);
  });

  afterEach(() => service.close());

  it('runs --follow reports each run as it starts and ends, also before there is any sink, until it is stopped', async ({
    folder,
  }) => {
    const following = startCli(['runs', '--follow', '--config', config], { cwd: folder, env });
    await following.until('Waiting for runs');
    const sync = (connector: string): Promise<unknown> =>
      callCli(['sync', connector, '--config', config], { cwd: folder, env });
    await sync('wiki');
    await following.until('wiki        ok in ');
    await sync('newsletter');
    await following.until('newsletter  ok in ');
    following.child.kill('SIGINT');
    const { code, stdout, stderr } = await following.result;
    expect([code, stderr]).toEqual([0, '']);
    const [none, waiting, ...lines] = stdout.trim().split('\n');
    expect(none).toBe('No runs yet.');
    expect(waiting).toBe('Waiting for runs to start and end; Ctrl-C stops looking.');
    const time = String.raw`^\d\d:\d\d:\d\d  `;
    for (const [at, what] of [
      String.raw`wiki        started: [\w-]+$`,
      String.raw`wiki        ok in \S+ m?s: [\d,]+ read, [\d,]+ written$`,
      String.raw`newsletter  started: [\w-]+$`,
      String.raw`newsletter  ok in \S+ m?s: [\d,]+ read, [\d,]+ written$`,
    ].entries()) {
      expect(lines[at]).toMatch(new RegExp(`${time}${what}`));
    }
    expect(lines).toHaveLength(4);
  });

  it('runs --follow --json begins with the newest runs and then has a line for each change', async ({
    folder,
  }) => {
    const sync = (): Promise<unknown> => callCli(['sync', 'wiki', '--config', config], { cwd: folder, env });
    await sync();
    const following = startCli(['runs', '--follow', '--json', '--config', config], { cwd: folder, env });
    await following.until('"runs":[');
    await sync();
    await following.until('"change":"ended"');
    following.child.kill('SIGTERM');
    const result = await following.result;
    expect(result.code).toBe(0);
    expect(jsonLines(result)).toMatchObject([
      { runs: [{ connector: 'wiki', state: 'ok' }] },
      { change: 'started', run: { connector: 'wiki' } },
      { change: 'ended', run: { connector: 'wiki', state: 'ok', report: { outcome: 'ok' } } },
    ]);
  });

  it("runs takes a run's id alone", async ({ folder }) => {
    const id = '20261121T152528492Z-4b72c77d';
    for (const more of ['--follow', 'wiki']) {
      const { code, stderr } = await callCli(['runs', id, more, '--config', config], { cwd: folder, env });
      expect(code).toBe(2);
      expect(stderr).toContain("Expected a run's id alone, got more.");
    }
  });
});

describe('cancel', () => {
  let folder: string;
  let service: Service;
  let config: string;
  const env = { SECRET: cliSecret };

  it.beforeEach(async ({ folder: made }) => {
    folder = made;
    // Slow enough for a run to last until it is cancelled.
    service = await startCliService({ latencyMs: 400 });
    config = await writeCliConfig(folder, service.url);
  });

  afterEach(() => service.close());

  function cli(...args: readonly string[]): Promise<CliResult> {
    return callCli([...args, '--config', config], { cwd: folder, env });
  }

  /** The id of the newest run. */
  async function newestRun(): Promise<{ readonly run: string; readonly state: string }> {
    const [document = {}] = jsonLines(await cli('runs', '--limit', '1', '--json'));
    const [run] = document['runs'] as readonly { readonly run: string; readonly state: string }[];
    if (run === undefined) throw new Error('expected a run in the ledger');
    return run;
  }

  it('cancel ends a sync of another process after a checkpoint, and the next one resumes', async () => {
    const syncing = startCli(['sync', 'newsletter', '--config', config, '--json'], { cwd: folder, env });
    await syncing.until('"kind":"page-committed"');
    const { run } = await newestRun();
    const { code, stdout } = await cli('cancel', run);
    expect(code).toBe(0);
    expect(stdout).toBe(
      `newsletter: run ${run} stops at its next page, within seconds; what is stored stays.\n`,
    );
    const result = await syncing.result;
    expect(result.code).toBe(130);
    expect(result.stderr).toContain('newsletter: cancelled on request; what is stored stays');
    expect(jsonLines(result).at(-1)).toMatchObject({
      kind: 'run-report',
      report: { outcome: 'interrupted' },
    });

    const over = await cli('cancel', run);
    expect(over.code).toBe(2);
    expect(over.stderr).toContain(`Run ${run} of newsletter is not running: it ended interrupted at 20`);

    const next = await cli('sync', 'newsletter', '--json');
    expect(next.code).toBe(0);
    expect(jsonLines(next)[0]).toMatchObject({ kind: 'run-started', continues: run });
  }, 60_000);

  it('cancel ends a run of a worker, which is not retried', async () => {
    await using redis = await startRedis();
    config = await writeCliConfig(folder, service.url, {
      schedules: { newsletter: '{ every: 1h }' },
      more: `redis: { url: "${redis.url}" }\n`,
    });
    const worker = startCli(['worker', '--config', config], { cwd: folder, env });
    await worker.until('"event":"run-started"');
    const { run } = await newestRun();
    expect((await cli('cancel', run)).code).toBe(0);
    await worker.until('"msg":"job ended"');
    worker.child.kill('SIGTERM');
    const { code, stderr } = await worker.result;
    expect(code).toBe(0);
    expect(stderr).toContain(`"outcome":"interrupted","run":"${run}"`);
    expect(stderr.match(/"event":"run-started"/g)).toHaveLength(1);
    expect(await newestRun()).toMatchObject({ run, state: 'interrupted' });
  }, 60_000);

  it('cancel reports that the process of a run no longer exists', async () => {
    const syncing = startCli(['sync', 'newsletter', '--config', config, '--json'], { cwd: folder, env });
    await syncing.until('"kind":"run-started"');
    syncing.child.kill('SIGKILL');
    await syncing.result;
    const { run } = await newestRun();
    const { code, stdout } = await cli('cancel', run);
    expect(code).toBe(0);
    expect(stdout).toBe(
      `newsletter: the process of run ${run} (${syncing.child.pid}) has ended; the next run resumes from what it stored.\n`,
    );
  });

  it('cancel ends with 2 for an unknown run', async () => {
    const { code, stderr } = await cli('cancel', 'nope');
    expect(code).toBe(2);
    expect(stderr).toContain('Expected the id of a run, got "nope"');
    const other = await cli('cancel', '20260101T000000000Z-00000000');
    expect(other.code).toBe(2);
    expect(other.stderr).toContain('No sink of the config has a run 20260101T000000000Z-00000000.');
  });
});

it('lists what people did, by whom and with which run, newest first', async () => {
  await using redis = await startRedis();
  await using world = await openCliWorld({ sink: 'sqlite', redisUrl: redis.url });
  const { stdout } = await world.cli('actions');
  expect(stdout).toContain('Nothing was done by hand yet.');
  await world.json('sync', 'newsletter', '--select', 'lists');
  const [forced] = (await world.json('sync', 'newsletter', '--select', 'lists', '--full')).slice(-1);
  await world.json('reset', 'newsletter/lists', '--yes');
  await world.json('schedule', 'pause', 'newsletter', '--reason', 'moving house');
  await world.json('schedule', 'resume', 'newsletter');
  const [listed] = await world.json('actions', 'newsletter');
  const report = forced?.['report'] as { readonly run: string } | undefined;
  expect(listed).toMatchObject({
    actions: [
      { action: 'resume' },
      { action: 'pause', connector: 'newsletter', detail: { reason: 'moving house' }, run: null },
      { action: 'reset', entity: 'lists', detail: { withData: false } },
      { action: 'read-in-full', run: report?.run },
    ],
  });
  const actions = listed?.['actions'] as readonly { readonly who: string }[];
  expect(actions.every(({ who }) => who.startsWith(`${userInfo().username}@`))).toBe(true);
  const shown = await world.cli('actions', '--limit', '2');
  expect(shown.stdout).toMatch(/pause +newsletter +reason: moving house/);
  expect(shown.stdout).not.toContain('reset');
});
