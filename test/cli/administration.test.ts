import { chmodSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, describe, expect } from 'vitest';
import { it } from '../support/it.ts';
import { apiError, json } from '../support/hostile/replies.ts';
import {
  startHostileServer,
  type HostileChange,
  type HostileServer,
  type HostileServerOptions,
} from '../support/hostile-server.ts';
import { cliSecret } from '../support/cli-config.ts';
import { callCli, jsonLines, type CliResult } from '../support/run-cli.ts';

const mailId = 'b03a9f3e-22a5-11eb-adc1-0242ac120002';
const notesId = '6e00b415-b02e-4160-bf02-58176a0ae687';
const wikiByWorkspace = 'wiki: { definition: workspace-notes, workspace: acme, sink: main }';
const foreignId = '11111111-2222-4333-8444-555555555555';
const apiKey = 'planted-key-5f2e9c-us6';

let folder: string;
let server: HostileServer | null = null;
let config: string;
let changes: HostileChange[];

it.beforeEach(({ folder: made }) => {
  folder = made;
  changes = [];
});
afterEach(async () => {
  await server?.[Symbol.asyncDispose]();
  server = null;
});

describe('definitions', () => {
  it('lists what the API offers, and which of it can be synced', async () => {
    const names: (string | null)[] = [];
    await serve({
      respondGet: (path, query) => {
        if (!path.endsWith('/sources')) return null;
        names.push(query.get('name'));
        return json(200, {
          definitions: [
            { sourceDefinitionId: mailId, name: 'E-mail \u001b[31mmarketing', supportLevel: 'certified' },
            { sourceDefinitionId: foreignId, name: 'Payments' },
          ],
        });
      },
    });
    const [table, asJson] = [await cli(['definitions', '--name', 'a']), await cli(['definitions', '--json'])];
    expect(names).toEqual(['a', null]);
    expect(table.code).toBe(0);
    expect(table.stdout).toMatch(
      /^name +definition +id +support\nE-mail \ufffd\[31mmarketing +email-marketing +b03a/,
    );
    expect(jsonLines(asJson)).toMatchObject([
      {
        definitions: [
          { id: mailId, definition: 'email-marketing', supportLevel: 'certified' },
          { id: foreignId, name: 'Payments', definition: null },
        ],
      },
    ]);
  });
});

describe('workspaces list', () => {
  it('reads every page and filters as it was asked to', async () => {
    const queries: string[] = [];
    await serve({
      respondGet: (path, query) => {
        if (path !== '/api/v1/workspaces') return null;
        queries.push(query.toString());
        const isFirst = query.get('cursor') === null;
        return json(200, {
          data: [{ id: isFirst ? 'w1' : 'w2', name: isFirst ? 'acme' : 'beta', status: 'active' }],
          next: isFirst ? `${server?.baseUrl}/api/v1/workspaces?cursor=p2` : null,
        });
      },
    });
    const found = await cli(['workspaces', 'list', '--name', 'e', '--status', 'active', '--json']);
    expect(jsonLines(found)).toMatchObject([{ workspaces: [{ name: 'acme' }, { name: 'beta' }] }]);
    expect(queries[1]).toBe('limit=100&name_contains=e&status=active&cursor=p2');
    expect((await cli(['workspaces', 'list', '--status', 'asleep'])).code).toBe(2);
  });
});

describe('connectors list', () => {
  const workspaces = json(200, {
    data: [
      { id: 'w1', name: 'acme' },
      { id: 'w2', name: 'gone' },
    ],
    next: null,
  });

  it('looks into every workspace, and says which connectors the config reads', async () => {
    await serve({
      connectors: [{ id: 'c-news', name: 'News', definitionId: mailId.toUpperCase() }],
      respondGet: (path, query) => {
        if (path === '/api/v1/workspaces') return workspaces;
        // It was deleted between the two calls.
        return query.get('workspace_name') === 'gone' ? apiError(404, 'No such workspace') : null;
      },
    });
    const listed = await cli(['connectors', 'list', '--json']);
    expect(jsonLines(listed)).toEqual([
      {
        connectors: [
          {
            workspace: 'acme',
            id: 'c-news',
            name: 'News',
            definition: 'email-marketing',
            configured: ['newsletter'],
          },
        ],
        direct: [],
      },
    ]);
    expect((await cli(['connectors', 'list'])).stdout).toMatch(
      /^workspace +id +definition +config +name\nacme +c-news +email-marketing +newsletter +News$/m,
    );
  });

  it('says so too of one that the config finds as the only one of its type in a workspace', async () => {
    const wiki = { id: 'c-wiki', name: 'Wiki', definitionId: notesId };
    const configuredOf = async (more: readonly (typeof wiki)[]): Promise<unknown> => {
      await serve({ connectors: [wiki, ...more] }, '', wikiByWorkspace);
      const [listed] = jsonLines(await cli(['connectors', 'list', '--workspace', 'acme', '--json']));
      return listed;
    };
    expect(await configuredOf([])).toMatchObject({ connectors: [{ id: 'c-wiki', configured: ['wiki'] }] });
    expect(await configuredOf([{ ...wiki, id: 'c-other' }])).toMatchObject({
      connectors: [{ configured: [] }, { configured: [] }],
    });
  });

  it('fails for a named workspace that does not exist', async () => {
    await serve({ respondGet: () => apiError(404, 'No such workspace') });
    const listed = await cli(['connectors', 'list', '--workspace', 'nowhere']);
    expect(listed.code).toBe(1);
    expect(listed.stderr).toContain('the workspace is not known to the service');
  });

  it('narrows to a type, and refuses one that is no type before any call', async () => {
    const queries: string[] = [];
    await serve({
      respondGet: (_path, query) => {
        queries.push(query.toString());
        return null;
      },
    });
    await cli(['connectors', 'list', '--workspace', 'a', 'b', '--definition', 'email-marketing']);
    expect(queries).toEqual([
      `workspace_name=a&definition_id=${mailId}`,
      `workspace_name=b&definition_id=${mailId}`,
    ]);
    const wrong = await cli(['connectors', 'list', '--workspace', 'a', '--definition', 'email-marketin']);
    expect(wrong.code).toBe(2);
    expect(wrong.stderr).toContain('did you mean "email-marketing"?');
    expect(queries).toHaveLength(2);
  });

  it('looks into its one workspace where the config is scoped to it', async () => {
    const queries: string[] = [];
    await serve(
      {
        respondGet: (_path, query) => {
          queries.push(query.toString());
          return null;
        },
      },
      'scopedToWorkspace: "my team"',
    );
    expect((await cli(['connectors', 'list'])).code).toBe(0);
    expect(queries).toEqual(['workspace_name=my+team']);
    expect(server?.scopedTo).toEqual(['my team']);
  });
});

describe('connectors', () => {
  it('explains itself without a subcommand', async () => {
    await serve();
    const result = await cli(['connectors']);
    expect(result.code).toBe(2);
    for (const command of ['list', 'create', 'delete']) expect(result.stderr).toContain(`  ${command} `);
  });
});

describe('connectors create', () => {
  const create = ['connectors', 'create', '--workspace', 'acme', '--definition', 'email-marketing'];

  it('sends the credentials of a file, and prints the id and the lines for the config', async () => {
    await serve();
    const result = await cli([...create, '--name', 'News 2', '--credentials-file', secretFile()]);
    expect(result).toMatchObject({ code: 0, stderr: '' });
    expect(result.stdout).toBe(
      `Created new-1 (made) in workspace acme.
To sync it, add this below "connectors:" in ${config}:
  email-marketing:
    definition: email-marketing
    id: "new-1"
    sink: main
`,
    );
    expect(changes).toMatchObject([
      {
        method: 'POST',
        body: {
          workspace_name: 'acme',
          definition_id: mailId,
          name: 'News 2',
          credentials: { api_key: apiKey },
        },
      },
    ]);
  });

  it('takes them from standard input too, and reports the same with --json', async () => {
    await serve();
    const result = await cli([...create, '--json'], JSON.stringify({ api_key: apiKey }));
    expect(jsonLines(result)).toMatchObject([
      {
        connector: { id: 'new-1', workspace: 'acme', definition: 'email-marketing', definitionId: mailId },
        config: '  email-marketing:\n    definition: email-marketing\n    id: "new-1"\n    sink: main',
      },
    ]);
    expect(changes).toMatchObject([{ body: { credentials: { api_key: apiKey } } }]);
  });

  it.each<[string, string, string]>([
    ['nothing', '', 'got nothing'],
    ['no JSON', `{"api_key": ${apiKey}}`, 'got invalid JSON'],
    ['a list', `["${apiKey}"]`, 'got other JSON'],
    ['a missing field', `{"data_center":"${apiKey}"}`, 'api_key: Expected a text, got nothing.'],
    [
      'an unknown field',
      `{"api_key":"${apiKey}","__proto__":"x"}`,
      'no other fields than those of API key (api_key, optional data_center)',
    ],
    ['a number', '{"api_key":5}', 'api_key: Expected a text of'],
    ['an empty text', '{"api_key":" "}', 'that are not all blank'],
  ])('refuses %s as credentials before any call, without quoting it', async (_title, text, said) => {
    await serve();
    const result = await cli(create, text);
    expect(result.code).toBe(2);
    expect(result.stderr).toContain(said);
    expect(result.stderr).not.toContain(apiKey);
    expect(server?.requests).toEqual([]);
  });

  it('refuses a file that others may read', async () => {
    await serve();
    const file = secretFile();
    chmodSync(file, 0o640);
    const result = await cli([...create, '--credentials-file', file]);
    expect(result.code).toBe(2);
    expect(result.stderr).toContain(`others may read or change the secret file ${file}: chmod 600 it`);
    expect(server?.requests).toEqual([]);
  });

  it('takes one of several ways to sign in, and names them where none fits', async () => {
    await serve();
    const notes = ['connectors', 'create', '--workspace', 'acme', '--definition', 'workspace-notes'];
    expect((await cli(notes, '{"token":"planted-token"}')).code).toBe(0);
    const wrong = await cli(notes, '{"client_id":"a","access_token":"planted-token"}');
    expect(wrong.stderr).toContain('client_secret: Expected a text, got nothing. Ways to sign in: ');
    expect(wrong.stderr).toContain('(client_id, client_secret, access_token, optional refresh_token)');
    expect(wrong.stderr).not.toContain('planted-token');
  });

  it('creates one of a type that only the service knows, unchecked', async () => {
    await serve({
      respondGet: (path) => (path.endsWith(`/sources/${foreignId}`) ? json(200, { name: 'Payments' }) : null),
    });
    const args = ['connectors', 'create', '--workspace', 'acme', '--definition', foreignId];
    const result = await cli([...args, '--credentials-file', '-'], '{"key":{"any":"planted"}}');
    expect(result.stdout).toContain('There is no definition of its type here');
    expect(changes).toMatchObject([
      { body: { definition_id: foreignId, credentials: { key: { any: 'planted' } } } },
    ]);
  });

  it('says that it may have taken effect if the answer is lost, without the credentials', async () => {
    await serve({
      respondChange: ({ body }) => apiError(502, `could not store ${JSON.stringify(body['credentials'])}`),
    });
    const result = await cli([...create, '--debug'], '{"api_key":"short-pw"}');
    expect(result.code).toBe(1);
    expect(result.stderr).toContain('it may have taken effect: check before you repeat it');
    expect(result.stderr).not.toContain('short-pw');
    const foreign = ['connectors', 'create', '--workspace', 'acme', '--definition', foreignId];
    await serve({
      respondGet: () => json(200, { name: 'Payments' }),
      respondChange: ({ body }) => apiError(422, `refused ${JSON.stringify(body['credentials'])}`),
    });
    const nested = await cli(
      [...foreign, '--debug'].concat('--credentials-file', '-'),
      '{"oauth":{"keys":["deep-pw"]}}',
    );
    expect(nested.stderr).toContain('refused');
    expect(nested.stderr).not.toContain('deep-pw');
  });
});

describe('connectors delete', () => {
  it('shows what would go, does nothing without --yes and ends with 0', async () => {
    await serve({ connectors: [{ id: 'c-news', name: 'News', definitionId: mailId.toUpperCase() }] });
    const result = await cli(['connectors', 'delete', 'c-news']);
    expect(result.code).toBe(0);
    expect(result.stdout).toBe(
      `c-news (News), email-marketing, would be deleted.
The config's newsletter reads it: without it, syncs of it fail. What is stored stays.
Nothing was changed. To do it: npx --no-install connector-sync connectors delete c-news --yes
`,
    );
    expect(changes).toEqual([]);
  });

  it('names what reads it by its workspace', async () => {
    const wiki = { id: 'c-wiki', name: 'Wiki', definitionId: notesId };
    await serve({ connectors: [wiki] }, '', wikiByWorkspace);
    const result = await cli(['connectors', 'delete', 'c-wiki']);
    expect(result.stdout).toContain("The config's wiki reads it");
    expect(changes).toEqual([]);
  });

  it('deletes with --yes', async () => {
    await serve();
    const result = await cli(['connectors', 'delete', 'c-9', '--yes', '--json']);
    expect(jsonLines(result)).toEqual([{ id: 'c-9', using: [], isDone: true, job: 'job-1' }]);
    expect(changes).toMatchObject([{ method: 'DELETE', path: '/api/v1/integrations/connectors/c-9' }]);
  });

  it.each(['..', 'a/b', '%2e%2e', ''])('refuses %j as an id before any call', async (id) => {
    await serve();
    expect((await cli(['connectors', 'delete', id, '--yes'])).code).toBe(2);
    expect(server?.requests).toEqual([]);
  });
});

async function serve(options: HostileServerOptions = {}, api = '', more = ''): Promise<void> {
  await server?.[Symbol.asyncDispose]();
  server = await startHostileServer({
    ...options,
    respondChange: (change) => {
      changes.push(change);
      if (options.respondChange !== undefined) return options.respondChange(change);
      const isDelete = change.method === 'DELETE';
      return isDelete ? json(202, { job_id: 'job-1' }) : json(200, { id: 'new-1', name: 'made' });
    },
  });
  config = join(folder, 'sync.yaml');
  writeFileSync(
    config,
    `api:
  baseUrl: ${server.baseUrl}
  clientId: me
  clientSecret: "\${SECRET}"
  ${api}
sinks: { main: { type: sqlite, path: ./main.db } }
connectors:
  newsletter: { definition: email-marketing, id: c-news, sink: main }
  ${more}
`,
  );
}

function secretFile(): string {
  const file = join(folder, 'mail.json');
  writeFileSync(file, JSON.stringify({ api_key: apiKey }), { mode: 0o600 });
  return file;
}

function cli(args: readonly string[], stdin = ''): Promise<CliResult> {
  return callCli([...args, '--config', config], {
    cwd: folder,
    env: { SECRET: cliSecret },
    stdin,
  });
}
