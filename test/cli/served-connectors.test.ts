import { chmodSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'vitest';
import type { JsonObject } from '../../src/core/json.ts';
import { it } from '../support/it.ts';
import { callCli, jsonLines, type CliResult } from '../support/run-cli.ts';
import { textIn } from '../support/service/api-client.ts';
import { object } from '../support/service/served-api.ts';
import { testCredentials } from '../support/sync-once.ts';
import { mailchimpFaults } from '../support/upstream/mailchimp.ts';
import { opened, serveWorlds } from '../support/upstream/served-world.ts';
import { mailchimpWorld } from '../support/upstream/upstream-world.ts';

it('creates and checks a connector of a real account, and shows why a service refuses one', async ({
  folder,
}) => {
  const world = await opened(mailchimpWorld());
  const { service } = await serveWorlds([world]);
  const config = join(folder, 'sync.yaml');
  writeFileSync(
    config,
    `api: { baseUrl: "${service.url}", clientId: ${testCredentials.clientId}, clientSecret: "\${SECRET}" }
sinks: { main: { type: sqlite, path: ./x.db } }
connectors: { any: { definition: email-marketing, id: c-1, sink: main } }
`,
  );
  const env = { SECRET: testCredentials.clientSecret };
  const cli = async (...args: readonly string[]): Promise<CliResult> =>
    await callCli(['connectors', ...args, '--config', config], { cwd: folder, env });
  const create = async (key: string): Promise<CliResult> => {
    const file = join(folder, 'key.json');
    writeFileSync(file, JSON.stringify({ api_key: key }));
    chmodSync(file, 0o600);
    const named = ['--workspace', 'default', '--definition', 'email-marketing'];
    return await cli('create', ...named, '--credentials-file', file, '--json');
  };

  const wrongKey = 'f'.repeat(32);
  const refused = await create(`${wrongKey}-us1`);
  expect(refused.code).toBe(1);
  expect(refused.stdout).toMatch(/The API key is not valid.*check the credentials/);
  expect(refused.stdout + refused.stderr).not.toContain(wrongKey);
  world.fake.script({ effect: mailchimpFaults.unavailable });
  expect((await create(world.fake.apiKey)).stdout).toMatch(/nothing was changed: try it again later/);

  const [made] = jsonLines(await create(world.fake.apiKey));
  const id = textIn(object(made?.['connector'] as JsonObject), 'id');
  const taken = await cli('check', id);
  expect([taken.code, taken.stdout]).toEqual([0, `${id}: its credentials are taken.\n`]);
  world.fake.script({ effect: mailchimpFaults.keyInvalid });
  const no = await cli('check', id);
  expect([no.code, no.stdout]).toEqual([4, expect.stringContaining('The API key is not valid') as string]);
});
