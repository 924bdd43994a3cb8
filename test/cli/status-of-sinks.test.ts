import { readFile, writeFile } from 'node:fs/promises';
import { expect } from 'vitest';
import { it } from '../support/it.ts';
import { cliSecret, writeCliConfig } from '../support/cli-config.ts';
import { callCli, jsonLines, type CliResult } from '../support/run-cli.ts';

let folder: string;
let config: string;

/** The wiki's sink is a server that does not answer; status asks no API. */
it.beforeEach(async ({ folder: made }) => {
  folder = made;
  config = await writeCliConfig(folder, 'http://127.0.0.1:1');
  const text = await readFile(config, 'utf8');
  const away =
    '  away: { type: postgres, url: "postgresql://sync@127.0.0.1:1/warehouse", schema: raw }\nconnectors:\n';
  await writeFile(
    config,
    text
      .replace('connectors:\n', away)
      .replace('workspace: default\n    sink: main', 'workspace: default\n    sink: away'),
  );
});

function status(...args: readonly string[]): Promise<CliResult> {
  return callCli(['status', ...args, '--config', config], { cwd: folder, env: { SECRET: cliSecret } });
}

it('shows the connectors of other sinks when one cannot be read, and ends with 1', async () => {
  const { code, stdout, stderr } = await status();
  expect(stdout).toContain('newsletter');
  expect(stdout).not.toContain('wiki');
  expect(stderr).toMatch(/^Not shown: 1 connector of the sink "away"\. .*127\.0\.0\.1:1/m);
  expect(code).toBe(1);

  const [document] = jsonLines(await status('--json'));
  expect(document).toMatchObject({
    connectors: [{ connector: 'newsletter' }],
    total: 1,
    unreadableSinks: [{ sink: 'away', connectors: ['wiki'], error: { code: 'SINK_FAILED' } }],
  });
});

it('shows the schedules of other sinks too when one cannot be read', async () => {
  const cli = (...args: readonly string[]) =>
    callCli(['schedule', 'list', ...args, '--config', config], { cwd: folder, env: { SECRET: cliSecret } });
  const { code, stdout, stderr } = await cli();
  expect(stdout).toMatch(/^newsletter +new +none +never$/m);
  expect(stdout).not.toContain('wiki');
  expect(stderr).toContain('Not shown: 1 connector of the sink "away". ');
  expect(code).toBe(1);
  expect(jsonLines(await cli('--json'))).toMatchObject([
    { connectors: [{ connector: 'newsletter' }], unreadableSinks: [{ sink: 'away', connectors: ['wiki'] }] },
  ]);
});

it('fails as a whole when no sink of the requested connectors can be read', async () => {
  const { code, stdout, stderr } = await status('wiki');
  expect(stdout).toBe('');
  expect(stderr).toMatch(/^Error: .*127\.0\.0\.1:1/);
  expect(code).toBe(1);
  expect((await status('newsletter')).code).toBe(0);
});
