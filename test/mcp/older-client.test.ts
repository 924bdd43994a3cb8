import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { pathToFileURL } from 'node:url';
import { expect } from 'vitest';
import { openCliWorld, type CliWorld } from '../support/cli-world.ts';
import { it } from '../support/it.ts';
import { main, startCli, type RunningCli } from '../support/run-cli.ts';
import { isLong } from '../support/trials.ts';

/** Installed here: it brings a hundred packages, which nothing else needs. */
const older = '@modelcontextprotocol/sdk@1.32.2';
const token = 'a-token-of-the-tests';
const endless = 'WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n';

/** What is used of the older package. */
interface OlderClient {
  connect(transport: object): Promise<void>;
  ping(): Promise<object>;
  listTools(): Promise<{ readonly tools: readonly { readonly name: string }[] }>;
  listResources(): Promise<{ readonly resources: readonly { readonly uri: string }[] }>;
  callTool(
    call: object,
    schema?: undefined,
    how?: { readonly signal: AbortSignal; readonly onprogress: (progress: object) => void },
  ): Promise<{ readonly content: readonly { readonly text: string }[]; readonly isError?: boolean }>;
  close(): Promise<void>;
}
type Made<Result extends object> = new (...given: readonly unknown[]) => Result;

async function withServer(
  work: (world: CliWorld, served: RunningCli, url: URL) => Promise<void>,
): Promise<void> {
  await using world = await openCliWorld({ settings: '    include: [lists]\n' });
  expect((await world.cli('sync', 'newsletter')).code).toBe(0);
  writeFileSync(world.config, `http: { token: ${token} }\nmcp: { sql: true }\n`, { flag: 'a' });
  const served = startCli(['mcp', '--http', '0', '--config', world.config], {
    cwd: world.folder,
    env: world.env,
  });
  await served.until('/mcp\n');
  try {
    await work(world, served, new URL(/http:\S+/.exec(served.output().stdout)?.[0] ?? ''));
  } finally {
    served.child.kill('SIGTERM');
    await served.result;
  }
}

it.skipIf(!isLong)(
  'serves the official client of the other major version over both transports',
  async ({ folder }) => {
    writeFileSync(`${folder}/package.json`, '{ "private": true }');
    const npm = spawnSync('npm', ['install', '--no-audit', '--no-fund', older], {
      cwd: folder,
      encoding: 'utf8',
    });
    expect(npm.status, npm.stderr).toBe(0);
    const load = async (file: string) =>
      (await import(
        pathToFileURL(`${folder}/node_modules/@modelcontextprotocol/sdk/dist/esm/client/${file}.js`).href
      )) as Record<string, Made<object>>;
    const { Client } = (await load('index')) as { Client: Made<OlderClient> };
    const { StdioClientTransport } = (await load('stdio')) as { StdioClientTransport: Made<object> };
    const { StreamableHTTPClientTransport } = (await load('streamableHttp')) as {
      StreamableHTTPClientTransport: Made<object>;
    };
    await withServer(async (world, served, url) => {
      const args = [main, 'mcp', '--config', world.config];
      const env = { PATH: process.env['PATH'] ?? '', ...world.env };
      const headers = { authorization: `Bearer ${token}` };
      const transports = [
        new StdioClientTransport({ command: process.execPath, args, env, stderr: 'ignore' }),
        new StreamableHTTPClientTransport(url, { requestInit: { headers } }),
      ];
      for (const transport of transports) {
        const client = new Client({ name: 'older', version: '1' });
        await client.connect(transport);
        await client.ping();
        expect((await client.listTools()).tools.map(({ name }) => name)).toContain('sql');
        expect((await client.listResources()).resources).toHaveLength(2);
        const call = async (name: string, given: object) => await client.callTool({ name, arguments: given });
        expect((await call('list_entities', {})).content[0]?.text).toContain('newsletter');
        expect(await call('get', { entity: 'none' })).toMatchObject({ isError: true });
        const cancelled = new AbortController();
        const progress: object[] = [];
        const stopped = client.callTool({ name: 'sql', arguments: { sql: endless } }, undefined, {
          signal: cancelled.signal,
          onprogress: (one) => {
            progress.push(one);
            cancelled.abort();
          },
        });
        await expect(stopped).rejects.toThrow();
        expect(progress).toMatchObject([{ progress: 1 }]);
        expect((await call('sql', { sql: 'SELECT 1' })).content[0]?.text).toContain('[[1]]');
        // Its connection is still there when the server ends the call.
        if (transport === transports[1]) await served.until('"result":"cancelled"');
        await client.close();
      }
    });
  },
  300_000,
);
