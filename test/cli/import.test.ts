import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect } from 'vitest';
import { it } from '../support/it.ts';
import { serviceText } from '../support/import/miniature.ts';
import { callCli, jsonLines } from '../support/run-cli.ts';

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
  it('writes a definition for each mode, with a TODO for what is open, and a report of every entity', async ({
    folder,
  }) => {
    writeFileSync(join(folder, 'connector.yaml'), serviceText(shop));
    const { code, stdout } = await run(folder);
    expect(code).toBe(0);
    expect(stdout).toContain('Corner Shop (hosted): 3 entities, 1 converted, 2 with a TODO, 0 refused.');
    expect(readdirSync(join(folder, 'defs', 'import'))).toEqual(['corner-shop.report.md']);
    const report = readFileSync(join(folder, 'defs', 'import', 'corner-shop.report.md'), 'utf8');
    for (const entity of Object.keys(shop.listings)) expect(report.split(`\n| ${entity} |`)).toHaveLength(3);
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

  it('names what the file has no list of, and lists that are not read', async ({ folder }) => {
    const text = serviceText({
      listings: {
        tags: { more: onePage },
        files: { path: '/files/{id}', more: { 'x-airbyte-action': 'download' } },
        others: { path: '/all/tags', more: { ...onePage, 'x-airbyte-entity': 'tags' } },
      },
    });
    writeFileSync(join(folder, 'connector.yaml'), text);
    const { stdout } = await run(folder, ['--mode', 'hosted']);
    expect(stdout).toContain(
      'Not listable, by the file: files.\nWith a further list that is not read: tags.\n',
    );
    const report = readFileSync(join(folder, 'defs', 'import', 'corner-shop.report.md'), 'utf8');
    expect(report).toContain(`## Not listable

- files: the file has no list of it, only download
- tags: not read: a further list, GET /all/tags
`);
    const only = await run(folder, ['--mode', 'hosted', '--only', 'files']);
    expect(only.code).toBe(1);
    expect(only.stdout).toContain('! files is refused: the file has no list of it, only download.');
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
