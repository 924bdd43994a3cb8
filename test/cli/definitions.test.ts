import { mkdirSync, readFileSync, readdirSync, writeFileSync, appendFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect } from 'vitest';
import { displayWidth } from '../../src/cli/output/text-table.ts';
import { manifestText } from '../support/import/manifest.ts';
import { bearer, serviceText } from '../support/import/miniature.ts';
import { it } from '../support/it.ts';
import { callCli, jsonLines, type CliResult } from '../support/run-cli.ts';
import type { JsonObject } from '../../src/core/json.ts';
import { textOf } from '../../src/sample/sample-values.ts';
import { openCliWorld } from '../support/cli-world.ts';
import { openDirectWorld } from '../support/upstream/direct-world.ts';
import { bentBody, onPath } from '../support/upstream/faults.ts';
import { deskWorld, mailchimpWorld } from '../support/upstream/upstream-world.ts';

const helpDesk = readFileSync('docs/examples/help-desk.yaml', 'utf8');

describe('definitions list', () => {
  it('lists the built-in definitions where there is no config', async ({ folder }) => {
    const { code, stdout } = await callCli(['definitions', 'list'], { cwd: folder });
    expect(code).toBe(0);
    expect(stdout).toBe(
      `name              title             entities  is read
calendly          Calendly                 4  directly or by the API
chargebee         Chargebee                9  directly or by the API
document-library  Document library         3  by the API
email-marketing   Email marketing         12  directly or by the API
freshdesk         Freshdesk                6  directly or by the API
github            GitHub                   5  directly or by the API
gitlab            GitLab                   6  directly or by the API
pipedrive         Pipedrive               11  directly or by the API
stripe            Stripe                  14  directly or by the API
woocommerce       WooCommerce              6  directly or by the API
workspace-notes   Workspace notes          5  directly or by the API
zendesk           Zendesk                  6  directly or by the API
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
          { name: 'calendly' },
          { name: 'chargebee' },
          { name: 'document-library', isDirect: false, connectors: [] },
          { name: 'email-marketing', aliases: ['Mailchimp'] },
          { name: 'freshdesk' },
          { name: 'github' },
          { name: 'gitlab' },
          { name: 'pipedrive' },
          { name: 'stripe' },
          { name: 'woocommerce' },
          { name: 'workspace-notes' },
          { name: 'zendesk' },
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
  pages     by offset (offset, count), at most 1,000 records each
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
    for (const name of ['document-library', 'email-marketing', 'workspace-notes', 'stripe', 'zendesk']) {
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
    expect(await run('unknown')).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(
        /^Error: There is no definition "unknown"; known are calendly, .*, or give the path of a file\.\n$/,
      ) as string,
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
  bad.yaml:33:5: entities.tickets.pagination.tokenKeys: is missing; expected an array
  bad.yaml:39:7: entities.tickets.pagination.tokenKey: unknown key; did you mean "tokenKeys"?
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
          problems: [{ line: 33, column: 5, path: 'entities.tickets.pagination.tokenKeys' }, {}],
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
    expect(text)
      .toContain(`    # TODO write the fields that identify a record, or none (perhaps day, clicks): no field of its records is known to identify them
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

  it('names the entities that a newer file lacks', async ({ folder }) => {
    const parents = {
      listings: {
        lists: { more: onePage },
        members: { path: '/lists/{list_id}/members', more: onePage },
        tags: { more: onePage },
      },
    };
    writeFileSync(join(folder, 'connector.yaml'), serviceText(parents));
    const all = await run(folder, ['--mode', 'hosted']);
    expect(all.stdout).toContain('defs/corner-shop.yaml: written\n');
    const fewer = { listings: { tags: { more: onePage } } };
    writeFileSync(join(folder, 'connector.yaml'), serviceText(fewer));
    expect((await run(folder, ['--mode', 'hosted'])).stdout).toContain(
      '! corner-shop.yaml had lists, members, and this import leaves them out',
    );
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

  it('says which ways to sign in are left out, and why', async ({ folder }) => {
    const schemes = { key: bearer, sso: { type: 'openIdConnect' } };
    writeFileSync(
      join(folder, 'connector.yaml'),
      serviceText({ listings: { things: { more: onePage } }, schemes }),
    );
    const { stdout } = await run(folder, ['--mode', 'direct']);
    expect(stdout).toContain(
      'Left out: the sign-in sso, because a security scheme of type openIdConnect is not supported.\n',
    );
    expect(stdout).not.toContain('the sign-in Key');
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
    const newer = readFileSync(`${file}.new`, 'utf8');
    expect(newer).toContain('labels:');
    expect(newer).toMatch(/^# generated by/);
  });

  it('leaves nothing behind where a file cannot be read', async ({ folder }) => {
    writeFileSync(join(folder, 'connector.yaml'), 'openapi: 3.1.0\nx-airbyte-action: list');
    const { code, stderr } = await run(folder);
    expect(code).toBe(2);
    expect(stderr).toContain('The file to import cannot be used (1 error):\n');
    expect(readdirSync(folder)).toEqual(['connector.yaml']);
  });

  it('recognizes a low-code manifest by its content', async ({ folder }) => {
    const file = join('source-corner-shop', 'manifest.yaml');
    mkdirSync(join(folder, 'source-corner-shop'));
    writeFileSync(
      join(folder, file),
      manifestText({ things: {}, jobs: { retriever: 'type: AsyncRetriever' } }),
    );
    const { code, stdout } = await callCli(['definitions', 'import', file, '-o', 'defs'], { cwd: folder });
    expect(code).toBe(0);
    expect(stdout).toContain('Corner Shop (direct): 2 entities, 1 converted, 0 with a TODO, 1 refused.');
    expect(stdout).toMatch(/^jobs +refused +a retriever of this type \(AsyncRetriever, line \d+\)$/m);
    const text = readFileSync(join(folder, 'defs', 'corner-shop.yaml'), 'utf8');
    expect(text).toContain('imported for direct connectors from corner-shop 1.2.3 (manifest.yaml, SHA-256 ');
    const check = await callCli(['definitions', 'check', 'defs/corner-shop.yaml'], { cwd: folder });
    expect(check.code).toBe(0);
    const named = ['definitions', 'import', file, '--from', 'airbyte', '--mode', 'hosted', '-o', 'defs'];
    expect((await callCli(named, { cwd: folder })).code).toBe(2);
  });

  it('shows a table of a folder of manifests, and writes nothing', async ({ folder }) => {
    for (const [name, text] of [
      ['a', manifestText({ things: {}, jobs: { retriever: 'type: AsyncRetriever' } })],
      ['b', 'type: DeclarativeSource\na: { $ref: "#/nowhere" }'],
    ] as const) {
      mkdirSync(join(folder, 'all', name), { recursive: true });
      writeFileSync(join(folder, 'all', name, 'manifest.yaml'), text);
    }
    const args = ['definitions', 'import', 'all', '-o', 'defs'];
    const { code, stdout } = await callCli(args, { cwd: folder });
    expect(code).toBe(0);
    expect(stdout).toMatch(/^a\/manifest\.yaml +2 +1 +0 +1/m);
    expect(stdout).toMatch(/^b\/manifest\.yaml .*there is no #\/nowhere/m);
    expect(stdout).toMatch(/^1 +a retriever of this type \(AsyncRetriever\)$/m);
    expect(readdirSync(folder)).toEqual(['all']);
    expect(jsonLines(await callCli([...args, '--json'], { cwd: folder }))).toMatchObject([
      {
        manifests: [
          { streams: 2, converted: 1, refused: 1 },
          { problem: expect.stringContaining('line 2') as string },
        ],
      },
    ]);
  });

  it('lists what the OpenAPI file of a service has, and imports what is chosen', async ({ folder }) => {
    const record = { type: 'object', required: ['id'], properties: { id: { type: 'string' } } };
    const schema = { type: 'object', properties: { items: { type: 'array', items: record }, next: flag } };
    const get = { responses: { '200': { content: { 'application/json': { schema } } } } };
    const paths = { '/tickets': { get }, '/tickets/{id}': { get: {} } };
    const schemes = { components: { securitySchemes: { key: { type: 'http', scheme: 'bearer' } } } };
    const file = { openapi: '3.1.0', info: { title: 'Help \u001b[31mDesk' }, paths, ...schemes };
    writeFileSync(join(folder, 'openapi.json'), JSON.stringify(file));
    const args = ['definitions', 'import', 'openapi.json'];
    const listed = await callCli(args, { cwd: folder });
    expect(listed.stdout).toContain('2 GET operations, of which 1 answer with a list.');
    expect(listed.stdout).toMatch(
      /left out +because\n\/tickets\/\{id\} +the file does not show what it answers/,
    );
    expect(listed.stdout).toContain('definitions import openapi.json --path /tickets -o my-definitions\n');
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
    const named = await callCli([...args, '--from', 'connector', '-o', 'defs'], { cwd: folder });
    expect(named.stderr).toContain('expected an operation with x-airbyte-action: list');
  });
});

type Desk = Awaited<ReturnType<typeof deskWorld>>;
type Try = (
  args: readonly string[],
  credentials?: Readonly<Record<string, string>>,
  change?: (file: string) => string,
) => Promise<CliResult>;

/** `definitions try` of a file in an empty folder, in 80 columns, with a key in the environment. */
function tryDesk(world: Desk, folder: string): Try {
  const file = readFileSync(join(world.definitionsFolder, 'definition.yaml'), 'utf8');
  return (args, credentials = { QUERY_KEY: world.fake.key }, change = (text) => text) => {
    writeFileSync(join(folder, 'desk.yaml'), change(file));
    const variables = Object.entries(credentials).map(([name, value]) => [
      `CONNECTOR_SYNC_CREDENTIAL_${name}`,
      value,
    ]);
    return callCli(['definitions', 'try', './desk.yaml', ...args, '--allow-upstream-host', '127.0.0.1'], {
      cwd: folder,
      columns: 80,
      env: Object.fromEntries(variables) as Record<string, string>,
    });
  };
}

const bent = (body: (right: JsonObject) => JsonObject) => ({ times: 100, effect: bentBody(body) });
/** Ports and times differ. */
const steady = (text: string): string =>
  text
    .replaceAll(/127\.0\.0\.1:\d+/g, 'HOST')
    .replaceAll(/\d+ ms/g, 'TIME')
    .replaceAll(/\d+ K?B/g, 'SIZE');

describe('a definition that no config names', () => {
  it('is tried with credentials of the environment: requests, answers, rows, paging, the next call', async ({
    folder,
  }) => {
    await using world = await deskWorld({
      rows: () =>
        ['Ada', 'Zoë'].map((title, index) => ({
          id: `t${index}`,
          title,
          state: 'open',
          changed_at: '2024-01-01',
        })),
    });
    const { code, stdout, stderr } = await tryDesk(world, folder)(['tickets']);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(steady(stdout)).toBe(`help-desk/tickets, at most 3 calls; nothing is stored
  GET       http://HOST/api/account?apikey=[secret]
  answer    200, SIZE, TIME; has ok, account
✓ account desk-9 answers

call 1    list tickets limit=50
  GET       http://HOST/api/tickets?limit=50&apikey=[secret]
  answer    200, SIZE, TIME; has object, data, has_more
  records   2 records
  id  title  state  changed_at
  t0  Ada    open   2024-01-01
  t1  Zoë    open   2024-01-01
  empty     email
  paging    the end: the first page has everything; the flag for more is false;
            no token

The listing was read to its end.
`);
    expect(readdirSync(folder)).toEqual(['desk.yaml']);
  });

  it('makes no more calls than were asked for, and shows what the next one would be', async ({ folder }) => {
    await using world = await deskWorld();
    const { code, stdout } = await tryDesk(world, folder)(['tickets', '--max-calls', '1', '--rows', '2']);
    expect(code).toBe(0);
    expect(stdout).toMatch(/^next +list tickets limit=50 starting_after=ti_00050$/m);
    expect(stdout).toMatch(/^ +and 48 more records$/m);
    expect(stdout).toMatch(/^1 call made \(--max-calls\); a sync would continue with the next one\.$/m);
    expect(world.fake.requests.map(({ path }) => path)).toEqual(['/api/account', '/api/tickets']);
  });

  it('ends as a sync would where the definition does not fit', async ({ folder }) => {
    await using world = await deskWorld();
    const run = tryDesk(world, folder);
    const wrong = await run(['tickets'], undefined, (file) =>
      file.replace('records: data', 'records: items'),
    );
    expect(wrong.code).toBe(1);
    expect(wrong.stdout).toMatch(
      /^ {2}failed +list tickets: expected an array of records at items, got nothing\n +there: /m,
    );
    // A person sees the mistake at once: the same answer is not asked for again.
    expect(world.fake.requests.filter(({ path }) => path === '/api/tickets')).toHaveLength(1);
    expect(wrong.stderr).not.toContain('attempt');
    expect(wrong.stdout).toMatch(/^✗ A sync would leave this listing and read the others\.$/m);
    const refused = await run(['tickets'], { QUERY_KEY: 'wrong-key-1234567' });
    expect(refused).toMatchObject({ code: 4, stderr: expect.stringContaining('401') as string });
    expect(refused.stderr).toContain('from the environment: CONNECTOR_SYNC_CREDENTIAL_QUERY_KEY');
    expect(refused.stdout).toMatch(/^ {2}GET +http:.*\/account\?apikey=\[secret\]\n {2}answer +401, /m);
  });

  it('shows hostile records safely, cut and within the screen', async ({ folder }) => {
    await using world = await deskWorld();
    const hostile = {
      id: 'x1',
      title: `\u001b[2J\u202eevil\nline`,
      email: 'y'.repeat(1_000_000),
      state: 7,
      changed_at: '宽'.repeat(100),
      'na\u001b[31mme': { deep: ['z'.repeat(1_000_000)] },
    };
    const records = [hostile, { title: 'no key' }, { id: 5 }];
    world.fake.script({
      on: onPath('/api/articles/query'),
      ...bent(() => ({ '\u001b[0m': 1, result: { articles: records }, page: { next: 'c'.repeat(5_000) } })),
    });
    const { code, stdout } = await tryDesk(world, folder)(['articles', '--max-calls', '1']);
    // Two of the records have no key that could be stored.
    expect(code).toBe(3);
    // eslint-disable-next-line no-control-regex
    expect(stdout).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u202e]/);
    expect(stdout.length).toBeLessThan(5_000);
    expect(stdout.split('\n').filter((line) => displayWidth(line) > 80)).toEqual([]);
    expect(stdout).toMatch(/refused +key-type: id must be string, got number 5$/m);
    expect(stdout).toContain('na�[31mme');
  });

  it('never shows a credential', async ({ folder }) => {
    await using world = await deskWorld();
    const run = tryDesk(world, folder);
    const { key } = world.fake;
    const echo = bent((right) => ({
      ...right,
      has_more: false,
      data: [{ id: key, title: `Key ${key}`, [key]: 1 }],
    }));
    world.fake.script({ on: onPath('/api/tickets'), ...echo });
    for (const variables of [
      { QUERY_KEY: key },
      { HEADER_KEY: key },
      { EMAIL: 'ada@example.test', AGENT_KEY: key },
    ]) {
      for (const args of [['tickets'], ['tickets', '--json']]) {
        const { code, stdout, stderr } = await run(args, variables);
        expect(code).toBe(0);
        expect(stdout + stderr).toContain('[secret]');
        expect(stdout + stderr).not.toContain(key);
        expect(stdout + stderr).not.toContain(
          Buffer.from(`ada@example.test/token:${key}`).toString('base64'),
        );
      }
    }
  });

  it('says what to give where there are no credentials and no API', async ({ folder }) => {
    await using world = await deskWorld();
    const { code, stderr } = await tryDesk(world, folder)(['tickets'], {});
    expect(code).toBe(2);
    expect(stderr).toContain(`help-desk needs credentials. Set these variables of the environment:
  CONNECTOR_SYNC_CREDENTIAL_HEADER_KEY (Key in a header), or
`);
    const part = await tryDesk(world, folder)(['tickets'], { EMAIL: 'ada@example.test' });
    expect(part).toMatchObject({
      code: 2,
      stderr: 'Error: CONNECTOR_SYNC_CREDENTIAL_AGENT_KEY: expected a text, got nothing\n',
    });
    expect(world.fake.requests).toEqual([]);
  });

  it.each([
    [['tikets'], 'help-desk has no entity "tikets"; did you mean "tickets"?'],
    [
      ['tickets', '--param', 'starting_after=x'],
      '--param: starting_after: is set page by page; leave it out',
    ],
    [['tickets', '--param', 'state=new'], '--param: state: expected one of open, closed, got "new"'],
    [['tickets', '--max-calls', '0'], '--max-calls: expected a whole number from 1 to 1000, got "0".'],
    [['tickets', '--connector', 'mine'], 'Unknown connector "mine"'],
  ])('refuses %j without a call', async (args, message) => {
    await using world = await deskWorld();
    const folder = join(world.definitionsFolder, '..', 'empty');
    mkdirSync(folder);
    const { code, stderr } = await tryDesk(world, folder)(args);
    expect(code).toBe(2);
    expect(stderr).toContain(message);
    expect(world.fake.requests).toEqual([]);
  });
});

describe('what is tried', () => {
  it('is what a sync stores', async () => {
    await using world = await mailchimpWorld({ as: 'my-mail' });
    await using direct = openDirectWorld(world);
    const asked = ['definitions', 'try', 'my-mail'];
    const named = ['--connector', 'mine', '--max-calls', '50'];
    const callsOf = async (...args: readonly string[]) => {
      const [document] = await direct.json(...asked, ...args, ...named);
      return (document as unknown as { readonly calls: readonly Tried[] }).calls;
    };
    const [lists] = await callsOf('lists');
    const listId = textOf(lists?.rows[0]?.rows[0]?.fields['id'] ?? null);
    expect(lists?.children).toContainEqual({ entity: 'list_members', params: { list_id: listId } });
    expect((await direct.cli('sync', '--select', 'list_members', '--select', 'tags')).code).toBe(0);
    // Members carry the id of their list; tags get it from the parameter.
    for (const entity of ['list_members', 'tags']) {
      const calls = await callsOf(entity, '--param', `list_id=${listId}`);
      const tried = calls
        .flatMap(({ rows }) => rows[0]?.rows ?? [])
        .map(({ fields }) => [textOf(fields['id'] ?? null), fields] as const);
      const exported = await direct.json('export', `mine/${entity}`);
      const stored = exported
        .filter((row) => row['list_id'] === listId)
        .map((row) => Object.fromEntries(Object.entries(row).filter(([name]) => !name.startsWith('_'))));
      expect(stored.length).toBeGreaterThan(1);
      expect(Object.fromEntries(tried)).toEqual(
        Object.fromEntries(stored.map((row) => [String(row['id']), row])),
      );
    }
  });

  it('needs the parameters of its parents, and says how to get them', async () => {
    await using world = await openCliWorld();
    const asked = ['definitions', 'try', 'email-marketing', 'list_members', '--connector', 'newsletter'];
    const { code, stderr } = await world.cli(...asked);
    expect(code).toBe(2);
    expect(stderr).toBe(
      'Error: list_members has a listing for each record of its parent, and needs list_id (the id of a record of lists). ' +
        'Try lists first, which shows values. ' +
        'Then add --param list_id=<id>.\n',
    );
    const [lists] = await world.json('definitions', 'try', 'email-marketing', 'lists');
    const { calls } = lists as unknown as { readonly calls: readonly Tried[] };
    const [found] = calls[0]?.children.filter(({ entity }) => entity === 'list_members') ?? [];
    const child = await world.cli(...asked, '--param', `list_id=${textOf(found?.params['list_id'] ?? null)}`);
    expect(child.code).toBe(0);
    expect(child.stdout).toMatch(/^ {2}list_id +id +email_address/m);
  });

  it('is read by the API of the config, found by its type or named by its id', async () => {
    await using world = await openCliWorld();
    const asked = ['definitions', 'try', 'email-marketing', 'lists', '--max-calls', '1'];
    const shown = await world.cli(...asked);
    expect(shown.code).toBe(0);
    expect(shown.stdout).toContain('✓ connector c-news answers');
    expect(shown.stdout).toMatch(
      /^ {2}POST +http:\/\/127\.0\.0\.1:\d+\/api\/v1\/integrations\/connectors\/c-news\/execute$/m,
    );
    expect(shown.stdout).toContain('"entity":"lists", "action":"list"');
    const [named] = await world.json(...asked, '--connector', 'c-news');
    expect(named).toMatchObject({
      definition: 'email-marketing',
      entity: 'lists',
      isDirect: false,
      account: 'c-news',
    });
    const other = await world.cli(...asked, '--connector', 'wiki');
    expect(other).toMatchObject({
      code: 2,
      stderr: 'Error: The connector "wiki" is of the type workspace-notes, and email-marketing is tried.\n',
    });
    expect(readdirSync(world.folder)).toEqual(['sync.yaml']);
  });
});

interface Tried {
  readonly rows: readonly { readonly rows: readonly { readonly fields: JsonObject }[] }[];
  readonly children: readonly { readonly entity: string; readonly params: JsonObject }[];
}

describe('a definition whose type the config masks', () => {
  const mask = (rule: string): string =>
    `    include: [lists, list_members]\n    mask: { list_members: { fields: { email_address: ${rule}, full_name: drop, merge_fields: drop } } }\n`;
  const key = `mask: { key: ${Buffer.alloc(32, 7).toString('base64')} }\n`;

  // Proves promise 10.5
  it('is tried with these masks, with and without the name of a connector', async () => {
    await using world = await openCliWorld({ settings: mask('hash') });
    appendFileSync(world.config, key);
    const { stdout: lists } = await world.cli('definitions', 'try', 'email-marketing', 'lists', '--json');
    const [, list = ''] = /"id":"(\w+)"/.exec(lists) ?? [];
    const members = ['definitions', 'try', 'email-marketing', 'list_members', '--param', `list_id=${list}`];
    for (const more of [[], ['--connector', 'newsletter'], ['--connector', 'c-news'], ['--json']]) {
      const { stdout, code } = await world.cli(...members, ...more);
      expect(code).toBe(0);
      expect(stdout).toContain('hmac-');
      expect(stdout).not.toMatch(/@|"full_name":"/);
    }
    const config = readFileSync(world.config, 'utf8');
    const other = `connectors:\n  other:\n    definition: email-marketing\n    id: c-other\n    sink: main\n${mask('drop')}`;
    writeFileSync(world.config, config.replace('connectors:\n', other));
    expect((await world.cli(...members)).stderr).toContain('mask list_members in several ways');
    expect((await world.cli(...members, '--connector', 'newsletter')).stdout).toContain('hmac-');
  });
});
