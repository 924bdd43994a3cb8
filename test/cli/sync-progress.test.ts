import { createServer, type AddressInfo } from 'node:net';
import { expect } from 'vitest';
import { it } from '../support/it.ts';
import { builtInDefinitionsFolder, loadDefinitions } from '../../src/definitions/load-definitions.ts';
import { serveSamples } from '../support/serve-samples.ts';
import { cliSecret, writeCliConfig } from '../support/cli-config.ts';
import { startCli } from '../support/run-cli.ts';

it(
  'says which attempt failed while the API is away, and when it answers again',
  { timeout: 60_000 },
  async ({ folder }) => {
    const port = await freePort();
    const config = await writeCliConfig(folder, `http://127.0.0.1:${port}`);
    const running = startCli(['sync', 'newsletter', '--select', 'lists', '--config', config], {
      cwd: folder,
      env: { SECRET: cliSecret },
    });
    await running.until('attempt 2 of 6');
    const service = await serveSamples({
      port,
      clientId: 'local',
      clientSecret: cliSecret,
      definitions: loadDefinitions([builtInDefinitionsFolder]),
      accounts: [
        {
          connectorId: 'c-news',
          workspace: 'default',
          definitionName: 'email-marketing',
          seed: 1,
          size: 'tiny',
        },
      ],
    });
    const { code, stdout, stderr } = await running.result;
    await service.close();
    expect(code).toBe(0);
    expect(stdout).toMatch(/^newsletter: ok in /m);
    const lines = stderr.split('\n').filter((line) => !/^newsletter {2}\d/.test(line) && line !== '');
    expect(lines[0]).toMatch(
      /^newsletter: get an application token: connection refused \(ECONNREFUSED\), attempt 1 of 6, next (in \d+ s|one now)$/,
    );
    expect(lines[1]).toMatch(/^newsletter: .* attempt 2 of 6, next (in \d+ s|one now)$/);
    expect(lines.at(-1)).toMatch(/^newsletter: calls are answered again after /);
    expect(stderr).not.toContain('0 records');
  },
);

/** Of a server that has gone again: nothing answers there. */
async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}
