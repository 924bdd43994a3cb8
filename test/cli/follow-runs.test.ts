import { afterEach, expect } from 'vitest';
import { it } from '../support/it.ts';
import type { Service } from '../../src/service/start-service.ts';
import { cliSecret, startCliService, writeCliConfig } from '../support/cli-config.ts';
import { callCli, jsonLines, startCli } from '../support/run-cli.ts';

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
