import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { makeCliFolder, type CliFolder } from '../support/cli-config.ts';
import { callCli, jsonLines, runCli, startCli } from '../support/run-cli.ts';

let folder: CliFolder;

beforeEach(async () => {
  folder = await makeCliFolder();
});

afterEach(async () => {
  await folder[Symbol.asyncDispose]();
});

it('demo fills a database over HTTP, answers questions from it, and writes nothing the second time', async () => {
  const first = await runCli(['demo', '--directory', 'd'], { cwd: folder.path });
  expect(first.code).toBe(0);
  expect(first.stdout).toMatch(/^newsletter: ok in /m);
  expect(first.stdout).toMatch(/^wiki: ok in /m);
  expect(first.stdout).toMatch(/ subscribed +\d+/);
  // Lines of the two runs' tables are for any width; the rest fits the narrowest usual terminal.
  const afterRuns = first.stdout.slice(first.stdout.indexOf('records read in'));
  expect(afterRuns.split('\n').filter((line) => line.length > 80)).toEqual([]);
  expect(first.stdout).toContain('    npx connector-sync status --config d/connector-sync.yaml\n');
  expect((await stat(join(folder.path, 'd', 'demo.db'))).size).toBeGreaterThan(100_000);

  const second = await callCli(['demo', '--directory', 'd', '--json'], { cwd: folder.path });
  expect(second.code).toBe(0);
  const summary = jsonLines(second).at(-1);
  expect(summary).toMatchObject({ kind: 'demo', written: 0 });
  expect(summary?.['answers']).toHaveLength(3);

  const status = await callCli(['status', '--config', join('d', 'connector-sync.yaml')], {
    cwd: folder.path,
  });
  expect(status.stdout).toMatch(/^newsletter: last run ok/m);
});

it('serve announces where it is and with which credentials, and ends with 0 when it is told to', async () => {
  const running = startCli(['serve', '--port', '0', '--size', 'tiny', '--json'], { cwd: folder.path });
  await running.until('"url"');
  running.child.kill('SIGTERM');
  const result = await running.result;
  expect(result.code).toBe(0);
  expect(jsonLines(result)).toMatchObject([
    {
      url: expect.stringMatching(/^http:\/\/127\.0\.0\.1:\d+$/) as string,
      connectors: ['sample-newsletter', 'sample-wiki'],
      clientId: 'local',
      clientSecret: expect.stringMatching(/^.{20,}$/) as string,
    },
  ]);
});

it('serve never prints credentials that it was given', async () => {
  const running = startCli(['serve', '--port', '0', '--size', 'tiny'], {
    cwd: folder.path,
    env: { CONNECTOR_SYNC_CLIENT_ID: 'me', CONNECTOR_SYNC_CLIENT_SECRET: 'given-by-the-user' },
  });
  await running.until('Ctrl-C ends it');
  running.child.kill('SIGINT');
  const { code, stdout, stderr } = await running.result;
  expect(code).toBe(0);
  expect(stdout).toContain('credentials: from CONNECTOR_SYNC_CLIENT_ID');
  expect(stdout + stderr).not.toContain('given-by-the-user');
});
