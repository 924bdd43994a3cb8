import { expect } from 'vitest';
import { it } from '../support/it.ts';
import { cliSecret, writeCliConfig } from '../support/cli-config.ts';
import { throttled } from '../support/hostile/replies.ts';
import { startHostileServer } from '../support/hostile-server.ts';
import { callCli } from '../support/run-cli.ts';

it('sync ends with 3 and says until when it was put off, also before a run has begun', async ({ folder }) => {
  await using server = await startHostileServer({ respondToken: () => throttled({ seconds: 60 }) });
  const config = await writeCliConfig(folder, server.baseUrl);
  const before = Date.now();
  const { code, stderr } = await callCli(['sync', 'newsletter', '--config', config], {
    cwd: folder,
    env: { SECRET: cliSecret },
  });
  expect(code).toBe(3);
  const [, until = ''] = /the API asked to wait until (\S+Z), run it again then/.exec(stderr) ?? [];
  expect(Date.parse(until)).toBeGreaterThanOrEqual(before + 60_000);
});
