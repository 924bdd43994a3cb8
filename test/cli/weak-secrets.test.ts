import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, expect } from 'vitest';
import { it } from '../support/it.ts';
import type { Service } from '../../src/service/start-service.ts';
import { cliSecret, startCliService, writeCliConfig } from '../support/cli-config.ts';
import { callCli, type CliResult } from '../support/run-cli.ts';

let folder: string;
let service: Service;
let config: string;

it.beforeAll(async ({ fileFolder: made }) => {
  folder = made;
  service = await startCliService();
  config = await writeCliConfig(folder, service.url);
});

afterAll(() => service.close());

function check(secret: string, file = config): Promise<CliResult> {
  return callCli(['check', '--config', file], { cwd: folder, env: { SECRET: secret } });
}

// Proves promise 10.1
it.each(['wrong', 'secret', 'check', 'mine'])(
  'check shows the answer to the secret %j whole, and warns of it',
  async (secret) => {
    const { code, stdout } = await check(secret);
    expect(code).toBe(4);
    expect(stdout).toMatch(
      /"The client id or the client secret is wrong; unauthorized"; check api\.clientId and api\.clientSecret$/m,
    );
    expect(stdout).toMatch(/^! client secret: it is short or an ordinary word/m);
  },
);

it('check says nothing of a secret that is long enough', async () => {
  const { code, stdout } = await check(cliSecret);
  expect(code).toBe(0);
  expect(stdout).not.toContain('! client secret');
});

it('check names a wrong path of the base URL, and not the credentials', async () => {
  const file = join(folder, 'wrong-path.yaml');
  await writeFile(
    file,
    `api: { baseUrl: "${service.url}/wrong", clientId: local, clientSecret: "\${SECRET}" }
sinks: { main: { type: sqlite, path: ./main.db } }
connectors: { newsletter: { definition: email-marketing, id: c-news, sink: main } }
`,
  );
  const { code, stdout } = await check(cliSecret, file);
  expect(code).toBe(2);
  expect(stdout).toContain('there is no token endpoint here: check the path in api.baseUrl');
  expect(stdout).not.toMatch(/api\.clientSecret|Bearer \[/);
});

// Proves promise 10.1
it.each(['mine', 'fifteen-letters'])(
  'serve refuses %j as a secret, and says what it takes',
  async (secret) => {
    const env = { CONNECTOR_SYNC_CLIENT_ID: 'local', CONNECTOR_SYNC_CLIENT_SECRET: secret };
    const { code, stderr } = await callCli(['serve', '--port', '0', '--size', 'tiny'], {
      cwd: folder,
      env,
    });
    expect([code, stderr]).toEqual([2, expect.stringContaining('expected at least 16 random characters')]);
  },
);
