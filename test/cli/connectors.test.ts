import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { afterEach, describe, expect, afterAll } from 'vitest';
import { systemClock } from '../../src/core/clock.ts';
import type { ConnectorName } from '../../src/core/names.ts';
import { replaceText } from '../../src/files/replace-text.ts';
import { readSettings } from '../../src/settings/load-settings.ts';
import { openSink } from '../../src/sinks/registry.ts';
import {
  openCliWorld,
  type CliWorld,
  cliSecret,
  startCliService,
  writeCliConfig,
} from '../support/cli-world.ts';
import { it } from '../support/it.ts';
import { lakeManifests } from '../support/publish/read-lake.ts';
import { callCli, startCli, type CliResult, jsonLines } from '../support/run-cli.ts';
import { hasMoreKills, triedSinks } from '../support/trials.ts';
import type { JsonObject } from '../../src/core/json.ts';
import type { Service } from '../../src/service/start-service.ts';
import {
  startHostileServer,
  type HostileChange,
  type HostileServer,
  type HostileServerOptions,
} from '../support/hostile-server.ts';
import { apiError, json } from '../support/hostile/replies.ts';
import { object, textIn } from '../support/service/served-api.ts';
import { testCredentials } from '../support/sync-once.ts';
import { mailchimpFaults } from '../support/upstream/mailchimp.ts';
import { opened, serveWorlds } from '../support/upstream/served-world.ts';
import { mailchimpWorld } from '../support/upstream/upstream-world.ts';

describe('the entries of a config', () => {
  const config = `# Ours.
sinks: { main: { type: sqlite, path: ./main.db } }
redis: { url: redis://127.0.0.1:1 }
connectors:
  newsletter:   # the letter
    definition: email-marketing
    credentials: { api_key: "\${API_KEY}" }
    sink: main
`;
  const env = { API_KEY: 'abcdef-us1', NOTION_TOKEN: 'ntn_secret' };
  const wiki = ['wiki', '--definition', 'workspace-notes'];
  const token = ['--credentials-env', 'token=NOTION_TOKEN'];

  let folder: string;
  let file: string;

  it.beforeEach(({ folder: made }) => {
    folder = made;
    file = join(folder, 'c.yaml');
    writeFileSync(file, config);
  });

  function connectors(...args: readonly string[]): Promise<CliResult> {
    return callCli(['connectors', ...args, '--config', 'c.yaml'], { cwd: folder, env });
  }

  describe('connectors add and remove', () => {
    it('write one entry into the config, and take it out again, with everything else as it was', async () => {
      chmodSync(file, 0o640);
      const added = await connectors('add', ...wiki, ...token, '--every', '1h');
      expect(added).toMatchObject({ code: 0, stderr: '' });
      expect(added.stdout).toMatch(/^Added wiki to c\.yaml\.\nNext: .*connector-sync sync wiki\n$/);
      expect(readFileSync(file, 'utf8')).toBe(
        `${config}  wiki:\n    definition: workspace-notes\n    credentials:\n      token: \${NOTION_TOKEN}\n    sink: main\n    schedule:\n      every: 1h\n`,
      );
      expect(statSync(file).mode & 0o777).toBe(0o640);
      expect((await connectors('remove', 'wiki')).stdout).toContain('What sink main has of it stays.');
      expect(readFileSync(file, 'utf8')).toBe(config);
      expect(readdirSync(folder)).toEqual(['c.yaml']);
    });

    it('edit what a link leads to', async () => {
      const place = join(folder, 'place.yaml');
      writeFileSync(place, config);
      symlinkSync('place.yaml', join(folder, 'link.yaml'));
      await callCli(['connectors', 'remove', 'newsletter', '--config', 'link.yaml'], { cwd: folder, env });
      expect(lstatSync(join(folder, 'link.yaml')).isSymbolicLink()).toBe(true);
      expect(readFileSync(place, 'utf8')).toContain('connectors: {}\n');
    });

    it('change nothing where the config would have mistakes, and name them', async () => {
      const added = await connectors('add', ...wiki, ...token, '--every', '1h', '--sink', 'mian');
      expect(added.code).toBe(2);
      expect(added.stderr).toContain('Nothing was changed');
      expect(added.stderr).toContain('c.yaml:13: connectors.wiki.sink: no such sink: "mian"');
      writeFileSync(
        file,
        `${config}publish: { lake: { type: files, directory: ./lake, connectors: [newsletter] } }\n`,
      );
      const removed = await connectors('remove', 'newsletter');
      expect(removed.stderr).toContain('publish.lake.connectors.0');
      expect(readFileSync(file, 'utf8')).toContain('newsletter:   # the letter');
    });

    it.each([
      ['given for a variable', ['--credentials-env', 'token=sk_live_4711']],
      ['given without a field', ['--credentials-env', 'sk_live_4711']],
      ['given for a file', ['--credentials-file', 'token=sk_live_4711']],
    ])('never write or repeat a secret: %s', async (_, flags) => {
      const refused = await connectors('add', ...wiki, ...flags);
      expect(refused.code).toBe(2);
      expect(readFileSync(file, 'utf8')).toBe(config);
      if (flags[0] === '--credentials-env') expect(JSON.stringify(refused)).not.toContain('sk_live_4711');
    });

    it('take a secret from a file that only its owner can read, and defaults from the config', async () => {
      writeFileSync(
        file,
        config.replace('connectors:', 'defaults: { sink: main, schedule: { every: 1h } }\nconnectors:'),
      );
      writeFileSync(join(folder, 'token'), 'ntn_secret\n', { mode: 0o600 });
      const added = await connectors('add', ...wiki, '--credentials-file', 'token=token');
      expect(added.stderr).toBe('');
      expect(readFileSync(file, 'utf8')).toMatch(
        /wiki:\n {4}definition: workspace-notes\n {4}credentials:\n {6}token: \$\{file:\.\/token\}\n$/,
      );
    });

    it('ask which of several files is meant, and make a new one', async () => {
      mkdirSync(join(folder, 'connectors'));
      const [head, entry] = config.split('connectors:\n');
      writeFileSync(file, `${head}connectors: [./connectors]\n`);
      for (const name of ['a', 'b']) {
        writeFileSync(
          join(folder, 'connectors', `${name}.yaml`),
          `connectors:\n${entry?.replace('newsletter', name)}`,
        );
      }
      expect((await connectors('add', ...wiki, ...token)).stderr).toContain('(a.yaml, b.yaml)');
      expect((await connectors('add', ...wiki, ...token, '--file', 'wiki.yaml')).stderr).toContain(
        'stands for',
      );
      expect(existsSync(join(folder, 'wiki.yaml'))).toBe(false);
      expect(await connectors('add', ...wiki, ...token, '--file', 'connectors/wiki.yaml')).toMatchObject({
        code: 0,
      });
      expect(readFileSync(join(folder, 'connectors/wiki.yaml'), 'utf8')).toMatch(/^connectors:\n {2}wiki:\n/);
      expect(await connectors('remove', 'a')).toMatchObject({ code: 0 });
      expect(readFileSync(join(folder, 'connectors/a.yaml'), 'utf8')).toBe('connectors: {}\n');
    });
  });

  describe('a file that is edited', () => {
    it('is not written where it has changed meanwhile, or another process edits it', () => {
      const replaced = { file, after: 'new', like: file, nowMs: Date.now() };
      expect(() => replaceText({ ...replaced, before: 'old' })).toThrow('was changed by another process');
      expect(() => replaceText({ ...replaced, before: null })).toThrow('was changed by another process');
      const lock = join(folder, '.c.yaml.edit');
      writeFileSync(lock, '');
      expect(() => replaceText({ ...replaced, before: config })).toThrow('Another process is editing');
      expect(readFileSync(file, 'utf8')).toBe(config);
      // One that was killed holds it no longer than a minute.
      utimesSync(lock, new Date(0), new Date(0));
      replaceText({ ...replaced, before: config });
      expect(readFileSync(file, 'utf8')).toBe('new');
      expect(readdirSync(folder)).toEqual(['c.yaml']);
    });
  });
});

describe('data', () => {
  const newsletter = 'newsletter' as ConnectorName;
  let world: CliWorld;

  afterEach(async () => {
    await world[Symbol.asyncDispose]();
  });

  function publishInto(lake: string): void {
    const text = `${readFileSync(world.config, 'utf8')}publish: { lake: { type: files, directory: ./lake, format: jsonl, when: by-hand } }\n`;
    writeFileSync(world.config, text.replace('./lake', lake));
  }

  describe.each(triedSinks)('connectors remove --data in a %s sink', (sink) => {
    it('says what is stored, drops it and the entry, and publishes generations without rows', async () => {
      world = await openCliWorld({ sink, isWhole: true });
      publishInto('./published');
      await world.cli('sync');
      await world.cli('publish', 'lake');
      const config = readFileSync(world.config, 'utf8');
      const wiki = await world.json('status', 'wiki', '--json');
      const shown = await world.cli('connectors', 'remove', 'newsletter', '--data');
      expect(shown.stdout).toMatch(/newsletter in sink main would be dropped for good:\n.*rows +deleted/);
      expect(shown.stdout).toMatch(/list_members +\d+ +0 +\d+/);
      expect(shown.stdout).toContain('Its rows leave lake with the next publication.');
      expect(shown.stdout).toContain('Nothing was changed. To do it: ');
      expect(readFileSync(world.config, 'utf8')).toBe(config);
      const [done] = await world.json('connectors', 'remove', 'newsletter', '--data', '--yes');
      expect(done).toMatchObject({ isDone: true, sinks: ['main'], next: ['publish lake'] });
      expect(done?.['rows']).toBeGreaterThan(10);
      expect(readFileSync(world.config, 'utf8')).not.toContain('newsletter:');
      expect(await world.json('status', 'wiki', '--json')).toEqual(wiki);
      expect((await world.cli('actions')).stdout).toMatch(/newsletter .*remove|remove .*newsletter/);
      const folder = sink === 'jsonl' ? join(world.folder, 'main', 'newsletter') : null;
      if (folder !== null) expect(existsSync(folder)).toBe(false);
      expect(await world.cli('publish', 'lake')).toMatchObject({ code: 0 });
      const entities = lakeManifests(join(world.folder, 'published')).at(-1)?.entities ?? [];
      const ofNews = entities.filter(({ connector }) => connector === newsletter);
      expect(ofNews.length).toBeGreaterThan(3);
      for (const one of ofNews) expect(one).toMatchObject({ generation: 2, through: 0, files: [] });
      expect(await world.cli('connectors', 'remove', 'newsletter', '--data')).toMatchObject({ code: 2 });
    });

    it('refuses a connector that is held, and drops one that has left the config', async () => {
      world = await openCliWorld({ sink, isWhole: true });
      await world.cli('sync', 'newsletter');
      const config = readFileSync(world.config, 'utf8');
      const options = readSettings({ file: world.config, env: world.env }).sinks.get('main');
      if (options === undefined) throw new TypeError('the config has no such sink');
      const holder = { pid: 1, host: 'here', command: 'sync', since: '2026-01-01T00:00:00.000Z' };
      {
        await using opened = await openSink(options, { clock: systemClock });
        const before = async (): Promise<void> => {
          const refused = await world.cli('connectors', 'remove', 'newsletter', '--data', '--yes');
          expect(refused.code).toBe(5);
          expect(readFileSync(world.config, 'utf8')).toBe(config);
          throw new Error('broken off');
        };
        const removal = opened.repair.remove(newsletter, { holder, before });
        await expect(removal).rejects.toThrow('broken off');
      }
      expect(await world.cli('connectors', 'remove', 'newsletter')).toMatchObject({ code: 0 });
      const [shown] = await world.json('connectors', 'remove', 'newsletter', '--data');
      expect(shown).toMatchObject({ isDone: false, file: null, stored: [{ sink: 'main' }] });
      const dropped = await world.cli('connectors', 'remove', 'newsletter', '--data', '--yes');
      expect(dropped.stdout).toMatch(
        /^newsletter was not in the config\. \d+ rows dropped from sink main\.\n$/,
      );
      expect(await world.cli('connectors', 'remove', 'newsletter', '--data')).toMatchObject({ code: 2 });
    });
  });

  it('is completed by the same command where it was killed at any time', async () => {
    world = await openCliWorld({ size: { members: 300 } });
    const config = readFileSync(world.config, 'utf8');
    const remove = [
      'connectors',
      'remove',
      'newsletter',
      '--data',
      '--yes',
      '--json',
      '--config',
      world.config,
    ];
    for (const delayMs of hasMoreKills ? [300, 350, 400, 450, 500, 550, 600, 700, 800] : [450, 600]) {
      writeFileSync(world.config, config);
      expect(await world.cli('sync', 'newsletter')).toMatchObject({ code: 0 });
      const running = startCli(remove, { cwd: world.folder, env: world.env });
      const timer = setTimeout(() => running.child.kill('SIGKILL'), delayMs);
      await running.result;
      clearTimeout(timer);
      const again = await world.cli(...remove.slice(0, -2));
      // Nothing was there to do where the first one has ended.
      expect([0, 2]).toContain(again.code);
      expect(readFileSync(world.config, 'utf8')).not.toContain('newsletter:');
      writeFileSync(world.config, config);
      const [report] = (await world.json('sync', 'newsletter', '--max-calls', '1')).slice(-1);
      expect(report?.['report']).toMatchObject({ continues: null });
      await world.cli('connectors', 'remove', 'newsletter', '--data', '--yes');
    }
  });
});

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
