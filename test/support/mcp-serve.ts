import { expect } from 'vitest';
import { apiClient, textIn, tokenFor, type ApiClient } from './service/api-client.ts';
import { openMcpClient, type Answered, type McpClient } from './mcp-client.ts';
import { startCli, type RunningCli } from './run-cli.ts';

/** A `serve` as users start it, in its own process, and a client of its API. */
export interface ServeProcess {
  readonly running: RunningCli;
  readonly api: ApiClient;
  /** Its id. Two connectors may have the same name. */
  create(workspace: string, name: string): Promise<string>;
  /** As the kernel does when memory runs out. */
  kill(): Promise<void>;
}

const credentials = { clientId: 'local', clientSecret: 'secret-of-the-tests' };

/** Its data folder is `data/service` in `folder`. */
export async function startServe(folder: string, ...flags: readonly string[]): Promise<ServeProcess> {
  const env = {
    CONNECTOR_SYNC_CLIENT_ID: credentials.clientId,
    CONNECTOR_SYNC_CLIENT_SECRET: credentials.clientSecret,
  };
  const args = ['serve', '--port', '0', '--size', 'tiny', '--samples', ...flags];
  const running = startCli(args, { cwd: folder, env });
  await running.until('Ctrl-C stops it');
  const url = /http:\S+/.exec(running.output().stdout)?.[0] ?? '';
  const api = apiClient(url, await tokenFor(url, credentials));
  return {
    running,
    api,
    create: async (workspace, name) => {
      const { body } = await api.post('/api/v1/integrations/connectors', {
        workspace_name: workspace,
        connector_type: 'document-library',
        name,
        credentials: { api_token: 'sample' },
      });
      return textIn(body, 'id');
    },
    kill: async () => {
      running.child.kill('SIGKILL');
      await running.result;
    },
  };
}

/** The official client over the data folder of a service. */
export async function openServeClient(data: string, ...flags: readonly string[]): Promise<McpClient> {
  return await openMcpClient({ config: null, env: {} }, 'legacy', ['--serve', data, ...flags]);
}

export interface Listed {
  readonly connector: string;
  readonly name: string;
  readonly workspace: string;
  readonly complete?: boolean;
  readonly problem?: string;
  readonly entities?: readonly string[];
}

export async function listed(mcp: McpClient): Promise<readonly Listed[]> {
  return (await mcp.call('list_entities'))['connectors'] as readonly Listed[];
}

/** Asks until the connectors are as wanted: the service fills its stores meanwhile. */
export async function listedWhen(
  mcp: McpClient,
  isWanted: (connectors: readonly Listed[]) => boolean,
): Promise<readonly Listed[]> {
  for (;;) {
    const found = await listed(mcp);
    if (isWanted(found)) return found;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

export function areComplete(connectors: readonly Listed[]): boolean {
  return connectors.every(({ complete }) => complete === true);
}

/** All that the tools answer about every entity of a connector; `of` of the entities, their key of one record. */
export async function everyAnswer(mcp: McpClient, connector: string): Promise<readonly Answered[]> {
  const answers = [
    await mcp.call('list_entities', { name: connector }),
    await mcp.call('sql', { connector }),
  ];
  answers.push(await mcp.call('freshness', { connector }));
  const entities = answers[0]?.['entities'] as readonly { readonly entity: string; readonly key: string[] }[];
  const views = answers[1]?.['views'] as readonly { readonly view: string }[];
  for (const { view } of views) {
    answers.push(await mcp.call('sql', { connector, sql: `SELECT * FROM ${view}`, limit: 200 }));
  }
  for (const { entity, key: names } of entities) {
    answers.push(await mcp.call('list_entities', { name: entity }));
    const changed = await mcp.call('changes', { entity, since: 0, limit: 200 });
    answers.push(changed);
    // Elements are found with the records that they belong to.
    const found = await mcp.call('search', { entity, limit: 100 });
    answers.push(found);
    const record = changed.records[0]?.['record'] as Record<string, unknown>;
    const key = Object.fromEntries(names.map((name) => [name, record[name] ?? '']));
    answers.push(await mcp.call('get', { entity, key }), await mcp.call('explain', { entity, key }));
  }
  return answers;
}

/** All that the sample newsletter has of them in its events: by SQL, of more than ten people. */
export async function storedAddresses(mcp: McpClient): Promise<readonly string[]> {
  const { rows } = await mcp.call('sql', {
    connector: 'sample-newsletter',
    sql: 'SELECT DISTINCT email_address FROM store__email_activity_current',
    limit: 200,
  });
  const addresses = (rows as readonly [string][]).flat();
  expect(addresses.length).toBeGreaterThan(10);
  return addresses;
}
