import { afterEach, expect } from 'vitest';
import { it } from '../support/it.ts';
import type { Service } from '../../src/service/start-service.ts';
import { cliSecret, startCliService, writeCliConfig } from '../support/cli-config.ts';
import { startRedis } from '../support/redis.ts';
import { callCli, jsonLines, startCli, type CliResult } from '../support/run-cli.ts';

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
  expect(jsonLines(result).at(-1)).toMatchObject({ kind: 'run-report', report: { outcome: 'interrupted' } });

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
