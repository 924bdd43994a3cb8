import { chmodSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, describe, expect } from 'vitest';
import type { JsonObject } from '../../src/core/json.ts';
import type { Service } from '../../src/service/start-service.ts';
import { cliSecret, startCliService, writeCliConfig } from '../support/cli-config.ts';
import {
  startHostileServer,
  type HostileChange,
  type HostileServer,
  type HostileServerOptions,
} from '../support/hostile-server.ts';
import { apiError, json } from '../support/hostile/replies.ts';
import { it } from '../support/it.ts';
import { callCli, jsonLines, type CliResult } from '../support/run-cli.ts';
import { object, textIn } from '../support/service/served-api.ts';
import { testCredentials } from '../support/sync-once.ts';
import { mailchimpFaults } from '../support/upstream/mailchimp.ts';
import { opened, serveWorlds } from '../support/upstream/served-world.ts';
import { mailchimpWorld } from '../support/upstream/upstream-world.ts';

describe('administration', () => {
  const mailId = 'b03a9f3e-22a5-11eb-adc1-0242ac120002';
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
      const [table, asJson] = [
        await cli(['definitions', '--name', 'a']),
        await cli(['definitions', '--json']),
      ];
      expect(names).toEqual(['a', null]);
      expect(table.code).toBe(0);
      expect(table.stdout).toMatch(
        /^name +definition +id\nE-mail \ufffd\[31mmarketing +email-marketing +b03a/,
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
  });

  describe('connectors create', () => {
    const create = ['connectors', 'create', '--workspace', 'acme', '--definition', 'email-marketing'];

    it('sends the credentials of a file, and prints the id and the command for the config', async () => {
      await serve();
      const result = await cli([...create, '--name', 'News 2', '--credentials-file', secretFile()]);
      expect(result).toMatchObject({ code: 0, stderr: '' });
      expect(result.stdout).toBe(
        `Created new-1 (made) in workspace acme.
Next: npx --no-install connector-sync connectors add email-marketing --definition email-marketing --id new-1
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
          next: 'connectors add email-marketing --definition email-marketing --id new-1',
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

    it('takes one of several ways to sign in, and names them where none fits', async () => {
      await serve();
      const notes = ['connectors', 'create', '--workspace', 'acme', '--definition', 'workspace-notes'];
      expect((await cli(notes, '{"token":"planted-token"}')).code).toBe(0);
      const wrong = await cli(notes, '{"client_id":"a","access_token":"planted-token"}');
      expect(wrong.stderr).toContain('client_secret: Expected a text, got nothing. Ways to sign in: ');
      expect(wrong.stderr).toContain('(client_id, client_secret, access_token, optional refresh_token)');
      expect(wrong.stderr).not.toContain('planted-token');
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
});

describe('a config of one workspace', () => {
  let folder: string;
  let service: Service;
  let config: string;
  let elsewhere: string;

  it.beforeAll(async ({ fileFolder: made }) => {
    folder = made;
    service = await startCliService();
    config = await writeCliConfig(folder, service.url);
    const text = readFileSync(config, 'utf8');
    const scopedTo = (workspace: string): string =>
      text.replace('clientId: local,', `clientId: local, scopedToWorkspace: ${workspace},`);
    writeFileSync(config, scopedTo('default'));
    elsewhere = join(folder, 'elsewhere.yaml');
    writeFileSync(elsewhere, scopedTo('another'));
  });
  afterAll(() => service.close());

  describe('with api.scopedToWorkspace', () => {
    it('a sync and everything around it works in that workspace', async () => {
      const checked = await cli('check');
      expect(checked.stdout).toMatch(/^✓ credentials: /m);
      expect(checked.code).toBe(0);
      expect(await cli('sync', 'newsletter', '--select', 'lists')).toMatchObject({ code: 0 });
      expect((await cli('definitions')).stdout).toContain('email-marketing');
    });

    it('the connectors of that workspace are all there is', async () => {
      const [document] = jsonLines(await cli('connectors', 'list', '--json'));
      expect(document).toMatchObject({
        connectors: [
          { workspace: 'default', id: 'c-news', configured: ['newsletter'] },
          { workspace: 'default', id: 'c-wiki' },
        ],
      });
    });

    it('a connector is created and deleted in that workspace', async () => {
      const create = [
        'connectors',
        'create',
        '--workspace',
        'default',
        '--definition',
        'email-marketing',
        '--json',
      ];
      const made = await cliWith('{"api_key":"planted-key-us1"}', config, ...create);
      const id = /"id":"([^"]+)"/.exec(made.stdout)?.[1] ?? '';
      expect(made).toMatchObject({ code: 0 });
      const gone = await cli('connectors', 'delete', id, '--yes', '--json');
      expect(jsonLines(gone)).toMatchObject([{ id, isDone: true, job: expect.any(String) as string }]);
      expect((await cli('connectors', 'list', '--json')).stdout).not.toContain(id);
    });

    it('what belongs to the whole organization or to another workspace is out of reach', async () => {
      const workspaces = await cli('workspaces', 'list');
      expect(workspaces.code).toBe(1);
      expect(workspaces.stderr).toMatch(
        /list workspaces was answered with 403 .*check what the credentials may do/,
      );
      const synced = await cliWith('', elsewhere, 'sync', 'newsletter', '--select', 'lists', '--json');
      expect(synced.code).not.toBe(0);
      expect(synced.stdout).toContain('CONNECTOR_UNKNOWN');
      const created = ['connectors', 'create', '--workspace', 'default', '--definition', 'email-marketing'];
      expect((await cliWith('{"api_key":"planted-key-us1"}', elsewhere, ...created)).code).toBe(1);
    });
  });

  function cli(...args: readonly string[]): Promise<CliResult> {
    return cliWith('', config, ...args);
  }

  function cliWith(stdin: string, file: string, ...args: readonly string[]): Promise<CliResult> {
    const env = { SECRET: cliSecret };
    return callCli([...args, '--config', file], { cwd: folder, env, stdin });
  }
});

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
