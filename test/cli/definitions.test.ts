import { mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect } from 'vitest';
import { displayWidth } from '../../src/cli/output/text-table.ts';
import { serviceText } from '../support/import/miniature.ts';
import { it } from '../support/it.ts';
import { callCli, jsonLines } from '../support/run-cli.ts';

const helpDesk = readFileSync('docs/examples/help-desk.yaml', 'utf8');

describe('definitions list', () => {
  it('lists the built-in definitions where there is no config', async ({ folder }) => {
    const { code, stdout } = await callCli(['definitions', 'list'], { cwd: folder });
    expect(code).toBe(0);
    expect(stdout).toBe(
      `name              title             entities  is read
document-library  Document library         3  by the API
email-marketing   Email marketing         12  directly or by the API
workspace-notes   Workspace notes          5  directly or by the API
`,
    );
  });

  it('lists those of the config, with their connectors, where no credentials are set', async ({ folder }) => {
    mkdirSync(join(folder, 'own'));
    writeFileSync(join(folder, 'own', 'desk.yaml'), helpDesk);
    writeFileSync(
      join(folder, 'sync.yaml'),
      `definitions: [./own]
sinks: { main: { type: sqlite, path: ./main.db } }
connectors:
  mine: { definition: help-desk, credentials: { subdomain: a, email: b, api_token: "\${TOKEN}" }, sink: main }
`,
    );
    const run = (...args: readonly string[]) =>
      callCli(['definitions', 'list', '--config', 'sync.yaml', ...args], { cwd: folder });
    const { code, stdout } = await run();
    expect({ code, stdout }).toEqual({
      code: 0,
      stdout: expect.stringMatching(/^help-desk +Help desk +1 +directly or by the API +mine$/m) as string,
    });
    expect(jsonLines(await run('--json'))).toMatchObject([
      {
        definitions: [
          { name: 'document-library', isDirect: false, connectors: [] },
          { name: 'email-marketing', aliases: ['Mailchimp'] },
          { name: 'workspace-notes' },
          { name: 'help-desk', entities: ['tickets'], isDirect: true, connectors: ['mine'] },
        ],
      },
    ]);
    const missing = await callCli(['definitions', 'list', '--config', 'no.yaml'], { cwd: folder });
    expect(missing).toMatchObject({ code: 2, stderr: expect.stringContaining('no.yaml') as string });
  });
});

describe('definitions show', () => {
  it('says how an entity is read, and how its changes and deletes are found', async ({ folder }) => {
    const { code, stdout } = await callCli(['definitions', 'show', 'email-marketing', 'list_members'], {
      cwd: folder,
      columns: 80,
    });
    expect(code).toBe(0);
    expect(stdout).toContain(`list_members: People on a list, with what is known of each
  key       list_id, id
  parent    lists (list_id is its id)
  pages     by offset (offset), 1,000 records each (count)
  order     by last_changed
  changes   by last_changed: asks with since_last_changed for what changed,
            again from 1m before the newest known
  deletes   a full read does not return the record, and get finds none; only by
            a full read (fullEvery)
  also has  get

fields
`);
    expect(stdout).toMatch(/^ {2}list_id +string\n +id of lists$/m);
  });

  it('fits into 80 columns, whatever the definition', async ({ folder }) => {
    for (const name of ['document-library', 'email-marketing', 'workspace-notes']) {
      const { code, stdout } = await callCli(['definitions', 'show', name], { cwd: folder, columns: 80 });
      expect(code).toBe(0);
      expect(stdout.split('\n').filter((line) => displayWidth(line) > 80)).toEqual([]);
    }
  });

  it('shows a file that no config names, and says what it does not have', async ({ folder }) => {
    writeFileSync(join(folder, 'desk.yaml'), helpDesk);
    const run = (...args: readonly string[]) => callCli(['definitions', 'show', ...args], { cwd: folder });
    const { code, stdout } = await run('desk.yaml', '--json');
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({
      definition: { name: 'help-desk', isDirect: true },
      entities: [{ entity: 'tickets', key: ['id'], actions: ['list', 'get'], deletes: 'sweep' }],
    });
    expect(await run('desk.yaml', 'tikets')).toMatchObject({
      code: 2,
      stderr: 'Error: help-desk has no entity "tikets"; did you mean "tickets"?\n',
    });
    expect(await run('help-desk')).toMatchObject({
      code: 2,
      stderr:
        'Error: There is no definition "help-desk"; known are document-library, email-marketing, workspace-notes, or give the path of a file.\n',
    });
  });
});

describe('definitions check', () => {
  it('reports every mistake of each file with line, column and path, and needs no config', async ({
    folder,
  }) => {
    writeFileSync(join(folder, 'good.yaml'), helpDesk);
    const bad = helpDesk.replace('tokenKeys: [', 'tokenKey: [');
    writeFileSync(join(folder, 'bad.yaml'), bad.replace('name: help-desk', 'name: other-desk'));
    const run = (...args: readonly string[]) => callCli(['definitions', 'check', ...args], { cwd: folder });
    expect(await run('bad.yaml', 'good.yaml')).toEqual({
      code: 2,
      stdout: `✗ bad.yaml: 2 mistakes
  bad.yaml:31:5: entities.tickets.pagination.tokenKeys: is missing; expected an array
  bad.yaml:37:7: entities.tickets.pagination.tokenKey: unknown key; did you mean "tokenKeys"?
✓ good.yaml: help-desk (Help desk), 1 entity
`,
      stderr: '',
    });
    expect(await run('good.yaml')).toMatchObject({ code: 0 });
    const [document] = jsonLines(await run('bad.yaml', 'missing.yaml', '--json'));
    expect(document).toMatchObject({
      ok: false,
      files: [
        {
          definition: 'other-desk',
          problems: [{ line: 31, column: 5, path: 'entities.tickets.pagination.tokenKeys' }, {}],
        },
        {
          definition: null,
          problems: [{ line: null, message: expect.stringContaining('ENOENT') as string }],
        },
      ],
    });
  });

  it('checks all files of a folder', async ({ folder }) => {
    mkdirSync(join(folder, 'defs'));
    const check = () => callCli(['definitions', 'check', 'defs'], { cwd: folder });
    expect((await check()).stderr).toContain('defs has no definition files: expected *.yaml.');
    for (const name of ['a.yaml', 'b.yml']) writeFileSync(join(folder, 'defs', name), 'name: 5');
    const { code, stdout } = await check();
    expect(code).toBe(2);
    expect(stdout).toContain(`${join('defs', 'a.yaml')}: `);
    expect(stdout).toContain(`${join('defs', 'b.yml')}: `);
  });

  it('reports YAML that is broken, and a name that two files have', async ({ folder }) => {
    writeFileSync(join(folder, 'a.yaml'), helpDesk);
    writeFileSync(join(folder, 'b.yaml'), `# A copy.\n${helpDesk}`);
    writeFileSync(join(folder, 'c.yaml'), 'name: [\n');
    writeFileSync(join(folder, 'd.yaml'), helpDesk.replace('name: help-desk', 'name: workspace-notes'));
    const { code, stdout } = await callCli(['definitions', 'check', 'a.yaml', 'b.yaml', 'c.yaml', 'd.yaml'], {
      cwd: folder,
    });
    expect(code).toBe(2);
    expect(stdout).toContain('✓ a.yaml');
    expect(stdout).toMatch(
      /^ {2}b\.yaml:3:1: name: the definition help-desk is already in .*a\.yaml; rename/m,
    );
    expect(stdout).toMatch(/^ {2}c\.yaml:2:1: invalid YAML: /m);
    // One that comes with the program.
    expect(stdout).toMatch(/^ {2}d\.yaml:2:1: name: the definition workspace-notes is already in /m);
  });
});

const onePage = { 'x-airbyte-no-pagination': 'All of them come in a single response.' };
const report = { day: { type: 'string' }, clicks: { type: 'integer' } };
const flag = { type: 'boolean' };
const account = { account: { required: true, schema: { type: 'string' } } };
const shop = {
  listings: {
    orders: { more: onePage, params: account, get: true },
    items: { path: '/orders/{order_id}/items', more: onePage },
    clicks: { record: report, more: onePage },
  },
};

/** Runs an import of the service in the folder. */
async function run(cwd: string, args: readonly string[] = []) {
  return await callCli(['definitions', 'import', 'connector.yaml', '-o', 'defs', ...args], { cwd });
}

describe('definitions import', () => {
  it('writes a definition for each mode, with a TODO for what is open', async ({ folder }) => {
    writeFileSync(join(folder, 'connector.yaml'), serviceText(shop));
    const { code, stdout } = await run(folder);
    expect(code).toBe(0);
    expect(stdout).toContain('Corner Shop (hosted): 3 entities, 1 converted, 2 with a TODO, 0 refused.');
    for (const entity of Object.keys(shop.listings)) expect(stdout.split(`\n${entity} `)).toHaveLength(3);
    const text = readFileSync(join(folder, 'defs', 'corner-shop.yaml'), 'utf8');
    expect(text).toContain(`    # key: guessed
    # TODO write the fields that identify a record, or none (perhaps day, clicks): no field of its records is known to identify them
    key: [ day ]
`);
    const lineOf = (part: string): number => text.split('\n').findIndex((line) => line.includes(part)) + 1;
    const todos = [lineOf('# TODO write what to send as account'), lineOf('# TODO write the fields')];
    for (const line of todos) expect(stdout).toContain(`! defs/corner-shop.yaml:${line}: TODO write`);
    expect(stdout).toMatch(
      /Next, for connectors behind an API:\n {2}.* definitions show defs\/corner-shop\.yaml\n {2}.* definitions check /,
    );
    const check = async (): Promise<unknown> =>
      jsonLines(await callCli(['definitions', 'check', 'defs/corner-shop.yaml', '--json'], { cwd: folder }));
    expect(await check()).toMatchObject([
      {
        ok: true,
        files: [
          {
            todos: [
              { entity: 'orders', line: todos[0] },
              { entity: 'clicks', line: todos[1] },
            ],
          },
        ],
      },
    ]);
    const shown = await callCli(['definitions', 'check', 'defs/corner-shop.yaml'], { cwd: folder });
    expect(shown.stdout).toContain(`defs/corner-shop.yaml:${todos[1]}: TODO write the fields`);
    writeFileSync(join(folder, 'defs', 'corner-shop.yaml'), text.replaceAll(/^ *# TODO .*\n/gm, ''));
    expect(await check()).toMatchObject([{ ok: true, files: [{ todos: [] }] }]);
  });

  it('converts the chosen entities with their parents, and names the others', async ({ folder }) => {
    const parents = {
      listings: {
        lists: { more: onePage },
        members: { path: '/lists/{list_id}/members', more: onePage },
        tags: { more: onePage },
      },
    };
    writeFileSync(join(folder, 'connector.yaml'), serviceText(parents));
    const [told] = jsonLines(await run(folder, ['--mode', 'hosted', '--only', 'members', '--json']));
    expect(told).toMatchObject({
      imports: [
        {
          entities: {
            lists: { outcome: 'converted' },
            members: { outcome: 'converted' },
            tags: { outcome: 'notChosen', details: 'left out by --only' },
          },
        },
      ],
    });
    const all = await run(folder, ['--mode', 'hosted']);
    expect(all.stdout).toContain('defs/corner-shop.yaml: written\n');
    const fewer = await run(folder, ['--mode', 'hosted', '--only', 'tags']);
    expect(fewer.stdout).toContain(
      '3 entities, 1 converted, 0 with a TODO, 0 refused, 2 not chosen (--only).',
    );
    expect(fewer.stdout).toContain('! corner-shop.yaml had lists, members, and this import leaves them out');
    const wrong = await run(folder, ['--only', 'member']);
    expect(wrong).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('the file has no entity "member"') as string,
    });
  });

  it('sends credentials to no new host by itself', async ({ folder }) => {
    writeFileSync(join(folder, 'connector.yaml'), serviceText({ listings: { things: { more: onePage } } }));
    await run(folder, ['--mode', 'direct']);
    const file = join(folder, 'defs', 'corner-shop-direct.yaml');
    const kept = readFileSync(file, 'utf8');
    const servers = [{ url: 'https://collector.example/v1' }];
    const moved = serviceText({ listings: { things: { more: onePage } }, servers });
    writeFileSync(join(folder, 'connector.yaml'), moved);
    const { stdout } = await run(folder, ['--mode', 'direct']);
    expect(stdout.replaceAll(/\s+/g, ' ')).toContain(
      'its address would change from https://api.corner-shop.example/v1 to https://collector.example/v1, and credentials would be sent there',
    );
    expect(readFileSync(file, 'utf8')).toBe(kept);
    expect(readFileSync(`${file}.new`, 'utf8')).toContain('baseUrl: https://collector.example/v1');
  });

  it('never overwrites a definition that was edited', async ({ folder }) => {
    writeFileSync(join(folder, 'connector.yaml'), serviceText({ listings: { tags: { more: onePage } } }));
    await run(folder, ['--mode', 'hosted']);
    const file = join(folder, 'defs', 'corner-shop.yaml');
    const edited = `${readFileSync(file, 'utf8')}# mine\n`;
    writeFileSync(file, edited);
    writeFileSync(
      join(folder, 'connector.yaml'),
      serviceText({ listings: { tags: { more: onePage }, labels: { more: onePage } } }),
    );
    const { stdout } = await run(folder, ['--mode', 'hosted']);
    expect(stdout).toContain(
      'defs/corner-shop.yaml: you edited it; the new text is in defs/corner-shop.yaml.new',
    );
    expect(readFileSync(file, 'utf8')).toBe(edited);
  });

  it('leaves nothing behind where a file cannot be read', async ({ folder }) => {
    writeFileSync(join(folder, 'connector.yaml'), 'openapi: 3.1.0');
    const { code, stderr } = await run(folder);
    expect(code).toBe(2);
    expect(stderr).toContain('The file to import cannot be used (1 error):\n');
    expect(readdirSync(folder)).toEqual(['connector.yaml']);
  });

  it('lists what the OpenAPI file of a service has, and imports what is chosen', async ({ folder }) => {
    const record = { type: 'object', required: ['id'], properties: { id: { type: 'string' } } };
    const schema = { type: 'object', properties: { items: { type: 'array', items: record }, next: flag } };
    const get = { responses: { '200': { content: { 'application/json': { schema } } } } };
    const paths = { '/tickets': { get }, '/tickets/{id}': { get: {} } };
    const schemes = { components: { securitySchemes: { key: { type: 'http', scheme: 'bearer' } } } };
    const file = { openapi: '3.1.0', info: { title: 'Help \u001b[31mDesk' }, paths, ...schemes };
    writeFileSync(join(folder, 'openapi.json'), JSON.stringify(file));
    const args = ['definitions', 'import', 'openapi.json', '--from', 'openapi'];
    const listed = await callCli(args, { cwd: folder });
    expect(listed.stdout).toContain('2 GET operations, of which 1 answer with a list.');
    expect(listed.stdout).toContain('--from openapi --path /tickets -o my-definitions\n');
    const chosen = [...args, '--path', '/tickets'];
    expect((await callCli(chosen, { cwd: folder })).stderr).toContain('Expected -o <folder>');
    const hosted = await callCli([...chosen, '--mode', 'hosted', '-o', 'defs'], { cwd: folder });
    expect(hosted).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('in direct mode only') as string,
    });
    const done = await callCli([...chosen, '-o', 'defs', '--json'], { cwd: folder });
    expect(jsonLines(done)).toMatchObject([
      { imports: [{ mode: 'direct', entities: { tickets: { outcome: 'refused' } } }] },
    ]);
    const plain = await callCli(['definitions', 'import', 'openapi.json', '-o', 'defs'], { cwd: folder });
    expect(plain.stderr).toContain('import with --from openapi');
  });
});
