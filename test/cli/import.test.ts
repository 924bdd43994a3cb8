import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect } from 'vitest';
import { it } from '../support/it.ts';
import { bearer, serviceText } from '../support/import/miniature.ts';
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
async function run(cwd: string, args: readonly string[] = [], stdin?: string) {
  const screen = stdin === undefined ? {} : { stdin, columns: 100, isTyped: true };
  return await callCli(['definitions', 'import', 'connector.yaml', '-o', 'defs', ...args], {
    cwd,
    ...screen,
  });
}

describe('definitions import', () => {
  it('writes a definition for each mode, a report of every entity and the questions', async ({ folder }) => {
    writeFileSync(join(folder, 'connector.yaml'), serviceText(shop));
    const { code, stdout } = await run(folder);
    expect(code).toBe(0);
    expect(stdout).toContain('No definition was written: no entity is converted yet.');
    expect(readdirSync(join(folder, 'defs', 'import'))).toEqual([
      'corner-shop.answers.yaml',
      'corner-shop.report.md',
    ]);
    const answers = join(folder, 'defs', 'import', 'corner-shop.answers.yaml');
    const asked = readFileSync(answers, 'utf8');
    expect(asked).toContain('# values:\n#   # nothing in the file fills it\n#   account: ""\n');
    writeFileSync(
      answers,
      asked
        .replace('# values', 'values')
        .replace('#   account: ""', '  account: main')
        .replace(/^# {3}# .*\n/m, ''),
    );
    const again = await run(folder);
    expect(again.stdout).toContain(
      'Corner Shop (hosted): 3 entities, 2 converted, 1 asked about, 0 refused.',
    );
    expect(again.stdout).toContain(`defs/corner-shop.yaml: written
defs/corner-shop-direct.yaml: written
1 question is open: answer in defs/import/corner-shop.answers.yaml and import again.
Next, for connectors behind an API:
`);
    const check = await callCli(
      ['definitions', 'check', 'defs/corner-shop.yaml', 'defs/corner-shop-direct.yaml'],
      { cwd: folder },
    );
    expect(check.code).toBe(0);
    const text = readFileSync(join(folder, 'defs', 'import', 'corner-shop.report.md'), 'utf8');
    for (const entity of Object.keys(shop.listings)) expect(text.split(`\n| ${entity} |`)).toHaveLength(3);
  });

  it('asks on a screen, keeps the answers and ends with the next commands', async ({ folder }) => {
    writeFileSync(join(folder, 'connector.yaml'), serviceText(shop));
    const { stdout } = await run(folder, ['--mode', 'hosted'], 'main\n\n');
    expect(stdout).toContain(
      'Question 1 of 2: nothing in the file fills it\n  account? Enter leaves it open.\n',
    );
    expect(stdout).toContain('Question 2 of 2, clicks: no field of its records is known to identify them\n');
    expect(stdout).toMatch(
      /Next, for connectors behind an API:\n {2}.* definitions show defs\/corner-shop\.yaml\n {2}.* definitions check /,
    );
    const answers = readFileSync(join(folder, 'defs', 'import', 'corner-shop.answers.yaml'), 'utf8');
    expect(answers).toContain('\nvalues:\n  account: "main"\n');
    // Again without a screen: the same result from the answers.
    const again = await run(folder, ['--mode', 'hosted']);
    expect(again.stdout).toContain('defs/corner-shop.yaml: unchanged\n');
  });

  it('asks again on a screen where an answer cannot be right', async ({ folder }) => {
    const status = { status: { required: true, schema: { type: 'string', enum: ['all', 'ended'] } } };
    const listings = { clicks: { record: report, more: onePage }, orders: { more: onePage, params: status } };
    writeFileSync(join(folder, 'connector.yaml'), serviceText({ listings }));
    const { stdout } = await run(folder, ['--mode', 'hosted'], 'nonsense\nday\neverything\nall\n');
    expect(stdout).toContain('Not "nonsense": no such field: "nonsense": a key has some of day, clicks.');
    expect(stdout).toContain('Not "everything": orders: expected one of all, ended, got everything.');
    expect(stdout).toContain('2 entities, 2 converted');
    const answers = readFileSync(join(folder, 'defs', 'import', 'corner-shop.answers.yaml'), 'utf8');
    expect(answers).toContain('key: ["day"]');
    expect(answers).toContain('status: "all"');
  });

  it('refuses answers that match nothing or cannot be right, with the line and what was meant', async ({
    folder,
  }) => {
    const status = { status: { required: true, schema: { type: 'string', enum: ['all', 'ended'] } } };
    const listings = { clicks: { record: report, more: onePage }, orders: { more: onePage, params: status } };
    writeFileSync(join(folder, 'connector.yaml'), serviceText({ listings }));
    const refused = async (answers: string): Promise<string> => {
      writeFileSync(join(folder, 'mine.yaml'), answers);
      const { code, stderr } = await run(folder, ['--answers', 'mine.yaml']);
      expect(code).toBe(2);
      return stderr;
    };
    const typos = await refused(`server: { x: y }
values: { statuss: all }
entities:
  click: { key: day }
  orders: { values: { stattus: all }, records: items }
`);
    expect(typos).toContain('The answers cannot be used (5 errors):');
    expect(typos).toContain('mine.yaml:1: server.x: no such part of the address: "x"');
    expect(typos).toContain(
      'mine.yaml:2: values.statuss: no such parameter of a listing: "statuss"; did you mean "status"?',
    );
    expect(typos).toContain('mine.yaml:4: entities.click: no such entity: "click"; did you mean "clicks"?');
    expect(typos).toContain('did you mean "status"?');
    expect(typos).toContain('the file says where its records are');
    const wrong = await refused(`values: { status: everything }
entities:
  clicks:
    key: nonsense
`);
    expect(wrong).toContain(
      'mine.yaml:4: entities.clicks.key: no such field: "nonsense": a key has some of day',
    );
    expect(wrong).toContain('mine.yaml:1: values.status: orders: expected one of all, ended, got everything');
    expect(await refused('entities: { clicks: { key: [] } }')).toContain(
      'expected a field, [fields], or none',
    );
    expect(readdirSync(folder).toSorted()).toEqual(['connector.yaml', 'mine.yaml']);
  });

  it('says what an update changes, against the file before and against the definition', async ({
    folder,
  }) => {
    mkdirSync(join(folder, 'old'));
    const before = {
      listings: { things: { more: onePage, record: { id: { type: 'string' }, name: { type: 'string' } } } },
    };
    const after = {
      listings: {
        things: { more: onePage, record: { id: { type: 'string' }, title: { type: 'string' } } },
        others: { more: onePage },
      },
    };
    writeFileSync(join(folder, 'old', 'connector.yaml'), serviceText(before));
    writeFileSync(join(folder, 'connector.yaml'), serviceText(before));
    await run(folder, ['--mode', 'hosted']);
    writeFileSync(
      join(folder, 'old', 'definition.yaml'),
      readFileSync(join(folder, 'defs', 'corner-shop.yaml')),
    );
    writeFileSync(join(folder, 'connector.yaml'), serviceText(after));
    const changes = [
      'corner-shop: things: column title comes (string)',
      'corner-shop: things: column name goes; new values stay in _extra',
      'corner-shop: others: comes',
      'corner-shop: the next sync reads every entity again in full',
    ];
    for (const old of ['old/connector.yaml', 'old/definition.yaml']) {
      const [told] = jsonLines(await run(folder, ['--mode', 'hosted', '--diff', old, '--json']));
      expect(told).toMatchObject({ changes });
    }
    writeFileSync(join(folder, 'connector.yaml'), serviceText(before));
    const same = jsonLines(await run(folder, ['--mode', 'hosted', '--diff', 'old/connector.yaml', '--json']));
    expect(same).toMatchObject([{ changes: ['corner-shop: nothing is read again'] }]);
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
      '3 entities, 1 converted, 0 asked about, 0 refused, 2 not chosen (--only).',
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

  it('says what an update changes for credentials and requests, and sends them to no new host by itself', async ({
    folder,
  }) => {
    const paged = (param: string) => ({
      params: { [param]: 'string' },
      meta: { next: '$.next_cursor' },
      answer: { next_cursor: { type: ['string', 'null'] } },
    });
    const config = { ...bearer['x-airbyte-auth-config'], auth_mapping: { api_key: '${api_key}' } };
    const mapped = { 'x-airbyte-auth-config': config };
    const before = serviceText({ listings: { things: paged('cursor') } });
    const after = serviceText({
      listings: { things: { ...paged('after'), path: '/v2/things' } },
      servers: [{ url: 'https://collector.example/v1' }],
      schemes: { key: { ...bearer, type: 'apiKey', name: 'X-Key', in: 'header', ...mapped } },
    });
    writeFileSync(join(folder, 'old.yaml'), before);
    writeFileSync(join(folder, 'connector.yaml'), before);
    await run(folder, ['--mode', 'direct']);
    const file = join(folder, 'defs', 'corner-shop-direct.yaml');
    const kept = readFileSync(file, 'utf8');
    writeFileSync(join(folder, 'connector.yaml'), after);
    const { stdout } = await run(folder, ['--mode', 'direct', '--diff', 'old.yaml']);
    for (const change of [
      'address changes from https://api.corner-shop.example/v1 to https://collector.example/v1',
      'way to sign in changes: Key',
      'things: paging changes (tokenParam cursor to after), read again in full',
      'things: path changes from /things to /v2/things',
    ]) {
      expect(stdout).toContain(`  corner-shop-direct: ${change}\n`);
    }
    expect(stdout.replaceAll(/\s+/g, ' ')).toContain('credentials would be sent there');
    expect(readFileSync(file, 'utf8')).toBe(kept);
    expect(readFileSync(`${file}.new`, 'utf8')).toContain('baseUrl: https://collector.example/v1');
  });

  it('takes keys and cursor fields from a low-code manifest', async ({ folder }) => {
    writeFileSync(
      join(folder, 'connector.yaml'),
      serviceText({ listings: { clicks: { record: report, more: onePage } } }),
    );
    writeFileSync(
      join(folder, 'manifest.yaml'),
      `type: DeclarativeSource
definitions:
  base: { type: DeclarativeStream, incremental_sync: { cursor_field: day } }
streams:
  - { $ref: '#/definitions/base', name: clicks, primary_key: [[day]] }
`,
    );
    const { stdout } = await run(folder, ['--mode', 'hosted', '--with', 'manifest.yaml']);
    expect(stdout).toContain('key day');
    const text = readFileSync(join(folder, 'defs', 'corner-shop.yaml'), 'utf8');
    expect(text).toContain('# key: primary key in the manifest\n');
    expect(text).toContain('# suggestion: incremental by day, the cursor field in the manifest\n');
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
    const away = await run(folder, ['--diff', 'away.yaml']);
    expect(away.stderr).toContain('connector.yaml');
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
