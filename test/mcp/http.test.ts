import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { request, type IncomingMessage } from 'node:http';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { expect } from 'vitest';
import { openCliWorld, type CliWorld } from '../support/cli-world.ts';
import { it } from '../support/it.ts';
import { callsOf, processesOf } from '../support/mcp-client.ts';
import { callCli, startCli, type RunningCli } from '../support/run-cli.ts';

const token = 'a-token-of-the-tests';
let world: CliWorld;
let served: RunningCli;
let url: URL;

it.beforeAll(async () => {
  world = await openCliWorld({ settings: '    include: [lists]\n' });
  expect((await world.cli('sync', 'newsletter')).code).toBe(0);
  writeFileSync(
    world.config,
    `http: { token: ${token}, hosts: [agents.example.com] }\nmcp: { sql: true }\n`,
    { flag: 'a' },
  );
  served = startCli(['mcp', '--http', '0', '--config', world.config], { cwd: world.folder, env: world.env });
  await served.until('/mcp\n');
  url = new URL(/http:\S+/.exec(served.output().stdout)?.[0] ?? '');
}, 60_000);
it.afterAll(async () => {
  served.child.kill('SIGTERM');
  expect((await served.result).code).toBe(0);
  await world[Symbol.asyncDispose]();
});

async function connect(mode: 'legacy' | 'auto', given = token): Promise<Client> {
  const client = new Client({ name: 'test', version: '1' }, { versionNegotiation: { mode } });
  const headers = { authorization: `Bearer ${given}` };
  await client.connect(new StreamableHTTPClientTransport(url, { requestInit: { headers } }));
  return client;
}

it.each(['legacy', 'auto'] as const)('serves many clients of the protocol "%s" at once', async (mode) => {
  const client = await connect(mode);
  const { call } = callsOf(client);
  const answers = await Promise.all(
    Array.from({ length: 30 }, () => call('changes', { entity: 'newsletter/lists', since: 0 })),
  );
  expect(answers.every(({ complete, records }) => complete === true && records.length > 0)).toBe(true);
  await client.close();
});

it('is closed without a token, to other hosts, to pages of other sites, and to large messages', async () => {
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list', params: {} });
  const ask = async (headers: Record<string, string>, text = body): Promise<number> => {
    const all = {
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      ...headers,
    };
    return (await fetch(url, { method: 'POST', headers: all, body: text })).status;
  };
  const authorization = `Bearer ${token}`;
  expect(await ask({ authorization })).toBe(200);
  expect(await ask({})).toBe(401);
  expect(await ask({ authorization: 'Bearer wrong' })).toBe(401);
  expect(await ask({ authorization, origin: 'https://evil.example.com' })).toBe(403);
  expect(await ask({ authorization }, `${body}${' '.repeat(300_000)}`)).toBe(413);
  expect(await ask({ authorization }, '{')).toBe(400);
  expect(await ask({ authorization, 'content-type': 'text/plain' })).toBe(415);
  expect((await fetch(url, { headers: { authorization } })).status).toBe(405);
  expect((await fetch(url, { method: 'DELETE', headers: { authorization } })).status).toBe(405);
  const named = async (host: string): Promise<number | undefined> => {
    const asked = request(url, { headers: { authorization, host } }).end();
    const [{ statusCode }] = (await once(asked, 'response')) as [IncomingMessage];
    return statusCode;
  };
  expect(await named('evil.example.com')).toBe(421);
  expect(await named('agents.example.com')).toBe(405);
  await expect(connect('legacy', 'not-the-token-at-all')).rejects.toThrow();
});

it('counts its calls', async () => {
  const text = await (await fetch(new URL('/metrics', url))).text();
  expect(text).toContain('connector_sync_mcp_calls_total{tool="changes",result="ok"} 60\n');
  expect(text).toContain('connector_sync_mcp_call_seconds_count 60\n');
});

it.each([
  ['legacy', 1],
  ['auto', 2],
] as const)(
  'ends what a client of the protocol "%s" cancels',
  async (mode, cancelled) => {
    const client = await connect(mode);
    const stopping = new AbortController();
    const sql = 'WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n';
    const asked = client.callTool({ name: 'sql', arguments: { sql } }, { signal: stopping.signal });
    const refused = expect(asked).rejects.toThrow();
    await expect.poll(() => processesOf(served.child).length, { timeout: 20_000 }).toBe(1);
    stopping.abort();
    await refused;
    const counted = async (): Promise<string> => await (await fetch(new URL('/metrics', url))).text();
    const line = `connector_sync_mcp_calls_total{tool="sql",result="cancelled"} ${cancelled}\n`;
    await expect.poll(counted, { timeout: 20_000 }).toContain(line);
    await client.close();
  },
  60_000,
);

it('does not start for other machines, nor without a token', async () => {
  const start = async (...flags: readonly string[]): Promise<string> =>
    (await callCli(['mcp', ...flags], { cwd: world.folder, env: world.env })).stderr.replaceAll(/\s+/g, ' ');
  expect(await start('--http', ':9402', '--config', world.config)).toContain(
    'an address of this machine alone',
  );
  const config = `${world.folder}/open.yaml`;
  writeFileSync(config, 'sinks: {}\napi: { baseUrl: "http://127.0.0.1:1", clientId: a, clientSecret: b }\n');
  expect(await start('--http', '0', '--config', config)).toContain(
    'set http.token or http.tokens in the config',
  );
});
