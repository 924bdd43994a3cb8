import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect } from 'vitest';
import { displayWidth } from '../../src/cli/output/text-table.ts';
import { callCli, jsonLines } from '../support/run-cli.ts';
import { it } from '../support/it.ts';

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
