import { appendFileSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect } from 'vitest';
import { displayWidth } from '../../src/cli/output/text-table.ts';
import type { JsonObject } from '../../src/core/json.ts';
import { textOf } from '../../src/sample/sample-values.ts';
import { openCliWorld } from '../support/cli-world.ts';
import { it } from '../support/it.ts';
import { callCli, type CliResult } from '../support/run-cli.ts';
import { openDirectWorld } from '../support/upstream/direct-world.ts';
import { bentBody, onPath } from '../support/upstream/faults.ts';
import { deskWorld, mailchimpWorld } from '../support/upstream/upstream-world.ts';

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
  metadata  has_more false
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
        'Try lists first: "npx --no-install connector-sync definitions try email-marketing lists --connector newsletter"; it shows values. ' +
        'Then add --param list_id=<id>.\n',
    );
    const parent = await world.cli(
      'definitions',
      'try',
      'email-marketing',
      'lists',
      '--connector',
      'newsletter',
    );
    const [, found] =
      /definitions try email-marketing list_members --param (\S+) --connector newsletter$/m.exec(
        parent.stdout,
      ) ?? [];
    const child = await world.cli(...asked, '--param', found ?? '');
    expect(child.code).toBe(0);
    expect(child.stdout).toMatch(/^ {2}id +list_id +email_address/m);
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

  it('is read by the API of the environment, without a config', async ({ folder }) => {
    await using world = await openCliWorld();
    const config = readFileSync(world.config, 'utf8');
    const [, url = ''] = /baseUrl: "([^"]+)"/.exec(config) ?? [];
    const env = {
      CONNECTOR_API_BASE_URL: url,
      CONNECTOR_API_CLIENT_ID: 'local',
      CONNECTOR_API_CLIENT_SECRET: '',
    };
    const run = (secret: string) =>
      callCli(['definitions', 'try', 'workspace-notes', 'users'], {
        cwd: folder,
        env: { ...env, CONNECTOR_API_CLIENT_SECRET: secret },
      });
    expect(await run(world.env['SECRET'] ?? '')).toMatchObject({
      code: 0,
      stdout: expect.stringContaining('✓ connector c-wiki answers') as string,
    });
    expect(await run('')).toMatchObject({
      code: 2,
      stderr: expect.stringContaining(
        'the environment variable CONNECTOR_API_CLIENT_SECRET is empty',
      ) as string,
    });
  });
});

interface Tried {
  readonly rows: readonly { readonly rows: readonly { readonly fields: JsonObject }[] }[];
  readonly children: readonly object[];
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
