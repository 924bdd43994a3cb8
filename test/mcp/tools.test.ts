import { readFileSync, writeFileSync } from 'node:fs';
import { describe, expect } from 'vitest';
import { jsonOf } from '../../src/mcp/answer.ts';
import { openCliWorld, type CliWorld } from '../support/cli-world.ts';
import { it } from '../support/it.ts';
import { openMcpClient, type McpClient } from '../support/mcp-client.ts';
import { callCli } from '../support/run-cli.ts';
import { isLong, triedSinks } from '../support/trials.ts';

let world: CliWorld;
let mcp: McpClient;

it.beforeAll(async () => {
  world = await openCliWorld();
  expect((await world.cli('sync')).code).toBe(0);
  mcp = await openMcpClient(world);
}, 60_000);
it.afterAll(async () => {
  await mcp[Symbol.asyncDispose]();
  await world[Symbol.asyncDispose]();
});

const id = async (): Promise<string> => {
  const { records } = await mcp.call('search', { entity: 'newsletter/campaigns', limit: 1 });
  return String(records[0]?.['id']);
};

describe('what agents read', () => {
  it('has numbers with all their digits', () => {
    expect(jsonOf({ a: [2 ** 60, 2n ** 64n, 0.1, null] })).toBe(
      '{"a":[1152921504606846976,18446744073709551616,0.1,null]}',
    );
  });

  it.each(['legacy', 'auto'] as const)('is the same for clients of the protocol "%s"', async (mode) => {
    await using newest = mode === 'auto' ? await openMcpClient(world, mode) : null;
    const other = newest ?? mcp;
    const { tools } = await other.client.listTools();
    expect(tools.map(({ name }) => name)).toEqual([
      'list_entities',
      'search',
      'get',
      'explain',
      'changes',
      'freshness',
    ]);
    expect(tools.every(({ annotations }) => annotations?.readOnlyHint === true)).toBe(true);
    // A model has all of it in its context, for as long as it works.
    expect(JSON.stringify(tools).length).toBeLessThan(8_000);
    // The newest protocol has no pings.
    if (mode === 'legacy') await other.client.ping();
    expect(await other.call('list_entities')).toEqual(await mcp.call('list_entities'));
    await expect(other.refusal('drop_table')).resolves.toMatch(/^There is no tool "drop_table"; there are/);
  });

  it('is what status, search, export and explain say, with as of when', async () => {
    const [{ connectors } = {}] = await world.json('status');
    const [newsletter] = connectors as {
      status: { entities: { entity: string; rows: number; lastCompleteReadAt: string }[] };
    }[];
    const whole = await mcp.call('list_entities');
    const [shown] = whole['connectors'] as { entities: string[]; as_of: string; complete: boolean }[];
    expect(shown).toMatchObject({ complete: true, as_of: expect.stringMatching(/^20.*Z$/) });
    expect(shown?.entities.toSorted()).toEqual(
      newsletter?.status.entities.map(({ entity, rows }) => `${entity} ${rows}`).toSorted(),
    );
    const entity = 'newsletter/campaigns';
    const key = { id: await id() };
    const [exported] = (await world.json('export', entity)).filter((record) => record['id'] === key.id);
    const got = await mcp.call('get', { entity, key });
    expect(got).toMatchObject({ entity, complete: true, as_of: shown?.as_of, found: true });
    expect(exported).toMatchObject(got.record);
    const asked = { entity, filter: { eq: { status: 'sent' } }, sort: 'send_time:desc', fields: ['id'] };
    const found = await mcp.call('search', asked);
    const flags = ['--filter', JSON.stringify(asked.filter), '--sort', asked.sort, '--fields', 'id'];
    const [searched] = await world.json('search', entity, ...flags, '--limit', '20');
    expect(found.records).toEqual(searched?.['data']);
    const [{ row } = {}] = await world.json('explain', entity, '--key', `id=${key.id}`);
    const { history } = await mcp.call('explain', { entity, key });
    expect(history).toContain(`first seen: ${(row as { firstSeenAt: string }).firstSeenAt}`);
    expect(await mcp.call('freshness', { connector: 'wiki' })).toMatchObject({
      connectors: [{ connector: 'wiki', state: 'ok' }],
    });
  });

  it('continues where a page ended', async () => {
    const entity = 'newsletter/list_members';
    const found: unknown[] = [];
    for (let cursor: unknown; ;) {
      const more = cursor === undefined ? {} : { cursor };
      const page = await mcp.call('search', { entity, limit: 10, fields: ['id', 'list_id'], ...more });
      found.push(...page.records);
      if (page['more'] !== true) break;
      cursor = page.next['cursor'];
    }
    const changed: unknown[] = [];
    for (let since: unknown = 0; ;) {
      const page = await mcp.call('changes', { entity, since, limit: 10, fields: ['id', 'list_id'] });
      changed.push(...page.records.map(({ record }) => record));
      since = page.next['since'];
      if (page['more'] !== true) break;
    }
    const texts = (all: readonly unknown[]) => all.map((one) => JSON.stringify(one)).toSorted();
    expect(found.length).toBeGreaterThan(10);
    expect(texts(changed.map((one) => sorted(one)))).toEqual(texts(found.map((one) => sorted(one))));
    // By a time before all of them, and by one behind them.
    const first = await mcp.call('changes', { entity, since: '2020-01-01', limit: 1 });
    expect(first.records).toHaveLength(1);
    expect(await mcp.call('changes', { entity, since: '2999-01-01T00:00:00Z' })).toMatchObject({
      records: [],
      more: false,
    });
  });

  it('takes a connector and an entity apart, and the value of a single key alone', async () => {
    const apart = { connector: 'newsletter', entity: 'campaigns' };
    const entity = 'newsletter/campaigns';
    const key = await id();
    const got = await mcp.call('get', { entity, key: { id: key } });
    expect(await mcp.call('get', { ...apart, key })).toEqual(got);
    expect(await mcp.call('get', { connector: 'newsletter', entity, key })).toEqual(got);
    expect(await mcp.call('list_entities', apart)).toEqual(await mcp.call('list_entities', { name: entity }));
    expect(await mcp.call('list_entities', { connector: 'newsletter' })).toMatchObject({
      connector: 'newsletter',
    });
    expect(await mcp.refusal('list_entities', { ...apart, names: 1 })).toContain(
      'names: unknown key; did you mean "name"?',
    );
  });

  it('has few changes in an answer, unless more are asked for, and says how to go on', async () => {
    const entity = 'newsletter/campaigns';
    const { records, next, note, more } = await mcp.call('changes', { entity, since: 0 });
    expect(more).toBe(true);
    expect(JSON.stringify(records).length).toBeLessThan(4_500);
    expect(note).toContain(`go on with "since": ${String(next['since'])}`);
    const asked = await mcp.call('changes', { entity, since: 0, limit: records.length + 1 });
    expect(asked.records).toHaveLength(records.length + 1);
    const following = await mcp.call('changes', { entity, since: next['since'] });
    expect(following.records[0]).toEqual(asked.records.at(-1));
  });

  it('has deletes among the changes', async () => {
    const entity = 'newsletter/list_members';
    const { next } = await mcp.call('changes', { entity, since: '2999-01-01' });
    world.moveTo(3);
    expect((await world.cli('sync', 'newsletter', '--full')).code).toBe(0);
    const { records } = await mcp.call('changes', { entity, since: next['since'], limit: 200 });
    const deleted = records.filter((one) => one['deleted'] === true);
    expect(deleted.length).toBeGreaterThan(0);
    expect(Object.keys(deleted[0]?.['record'] as object).toSorted()).toEqual(['id', 'list_id']);
    const got = await mcp.call('get', { entity, key: deleted[0]?.['record'] as object });
    expect(got).toMatchObject({ found: true, deleted: true });
  });

  it('is refused with what was expected, what came and what to do', async () => {
    const entity = 'newsletter/campaigns';
    const refused = [
      [{ entity: 'campaigns', key: {} }, 'got "campaigns". list_entities names them.'],
      [{ entity: 'newsletter/campaign', key: {} }, 'did you mean "campaigns"? list_entities with name'],
      [{ entity: 'other/campaigns', key: {} }, 'There is no connector "other". list_entities names them.'],
      [{ entity, key: { no: 'x' } }, 'key no: a record of campaigns is known by id'],
      [{ entity, key: { id: 2 ** 53 + 2 } }, 'key.id: expected so long a number as a text'],
      [{ entity, keys: { id: 'x' } }, 'keys: unknown key; did you mean "key"?'],
      [{ entity, key: [1] }, 'key: expected the fields of the key and their values, such as {"id": "c1"}'],
      [
        { entity: 'newsletter/list_members', key: 'x' },
        'key: expected an object with the values of list_id, id',
      ],
    ] as const;
    for (const [given, message] of refused) {
      expect(await mcp.refusal('get', given)).toContain(message);
    }
    expect(await mcp.refusal('get', { entity, key: { id: await id() }, fields: ['stats'] })).toContain(
      'did you mean "status"? list_entities names them.',
    );
    expect(await mcp.refusal('search', { entity, filter: { is: { status: 'sent' } } })).toContain(
      'query.filter',
    );
    expect(await mcp.refusal('changes', { entity, since: 'yesterday' })).toContain(
      'expected a number or a time',
    );
    expect(await mcp.refusal('changes', { entity, since: 999_999_999 })).toContain(
      'since 999999999: sink main',
    );
    expect(await mcp.call('get', { entity, key: { id: 'none' } })).toMatchObject({
      found: false,
      complete: true,
    });
  });

  it('is logged call by call, without values', async () => {
    const entity = 'newsletter/campaigns';
    await mcp.call('get', { entity, key: { id: 'a-secret-value' } });
    const line = mcp.logged().findLast(({ tool }) => tool === 'get');
    expect(line).toMatchObject({ level: 'info', result: 'ok', ms: expect.any(Number), rows: 0 });
    expect(JSON.stringify(mcp.logged())).not.toContain('a-secret-value');
  });
});

it.skipIf(!isLong).each(triedSinks)('is read from a %s sink alike', async (sink) => {
  await using other = await openCliWorld({ sink, settings: '    include: [lists]\n' });
  expect((await other.cli('sync', 'newsletter')).code).toBe(0);
  await using asked = await openMcpClient(other);
  const entity = 'newsletter/lists';
  const [{ rows }] = [await asked.call('list_entities', { name: entity })];
  const { records } = await asked.call('changes', { entity, since: '2020-01-01', fields: ['name'] });
  expect(records).toHaveLength(Number(rows));
  const [{ id: list, name } = {}] = records.map(({ record }) => record as Record<string, unknown>);
  const key = { id: list };
  expect(await asked.call('get', { entity, key })).toMatchObject({ complete: true, record: { name } });
  expect(await asked.call('explain', { entity, key })).toMatchObject({ found: true });
  expect(await asked.call('freshness')).toMatchObject({
    connectors: [{ state: 'ok' }, { state: 'new' }],
  });
  const searched = { entity, filter: { eq: key } };
  if (sink !== 'jsonl') expect((await asked.call('search', searched)).records).toMatchObject([{ name }]);
  else expect(await asked.refusal('search', searched)).toContain('get, explain and changes read it.');
});

describe('what agents do not see', () => {
  it('is in no answer and no message, and no search finds it', async ({ folder }) => {
    const config = `${folder}/sync.yaml`;
    const text = readFileSync(world.config, 'utf8').replace('./main.db', `${world.folder}/main.db`);
    const exclude = '[list_members.email_address, list_members.merge_fields, newsletter/lists]';
    writeFileSync(config, `${text}mcp: { connectors: [news*], exclude: ${exclude} }\n`);
    await using closed = await openMcpClient({ config, env: world.env });
    const { records } = await mcp.call('search', { entity: 'newsletter/list_members', limit: 1 });
    const [member] = records;
    const address = String(member?.['email_address']);
    expect(address).toContain('@');
    const entity = 'newsletter/list_members';
    const key = { list_id: member?.['list_id'], id: member?.['id'] };
    const answers = await Promise.all([
      closed.call('list_entities'),
      closed.call('list_entities', { name: 'newsletter' }),
      closed.call('list_entities', { name: entity }),
      closed.call('get', { entity, key }),
      closed.call('explain', { entity, key }),
      closed.call('search', { entity, limit: 1 }),
      closed.call('changes', { entity, since: 0, limit: 5 }),
      closed.call('freshness', { connector: 'newsletter' }),
    ]);
    for (const answer of answers) {
      expect(JSON.stringify(answer)).not.toMatch(/email_address|merge_fields|"lists|newsletter\/lists|wiki/);
      expect(JSON.stringify(answer)).not.toContain(address);
    }
    const found = closed.refusal('search', { entity, filter: { eq: { email_address: address } } });
    await expect(found).resolves.toContain('expected a searchable field, got "email_address"');
    await expect(closed.refusal('search', { entity, sort: 'email_address' })).resolves.toContain('expected');
    await expect(closed.refusal('get', { entity, key, fields: ['email_address'] })).resolves.toContain(
      'no field',
    );
    await expect(closed.refusal('list_entities', { name: 'wiki' })).resolves.toContain('no connector "wiki"');
    await expect(closed.refusal('changes', { entity: 'newsletter/lists', since: 0 })).resolves.toContain(
      'has no entity "lists"',
    );
  });

  it('must be in the config by names that exist', async ({ folder }) => {
    const config = `${folder}/sync.yaml`;
    const text = readFileSync(world.config, 'utf8');
    const exclude = '[list_members.emial_address, list_members.id, members, other/lists, "a.b/c"]';
    writeFileSync(config, `${text}mcp: { connectors: [other*], exclude: ${exclude}, sqlPassword: x }\n`);
    const { stderr, code } = await callCli(['status', '--config', config], { cwd: folder, env: world.env });
    expect(code).toBe(2);
    for (const message of [
      'mcp.connectors.0: no connector matches "other*"; the config has newsletter, wiki',
      'no such field in list_members: "emial_address"; did you mean "email_address"?',
      'id is a part of the key of list_members: mask it (mask of the connector), or exclude list_members',
      'no such entity in the definitions of the config: "members"',
      'no such connector in the config: "other"',
      'expected an entity or a field such as list_members.email_address',
      'mcp.sqlPassword: is the password of sqlUser, which is missing',
    ]) {
      expect(stderr.replaceAll(/\s+/g, ' ')).toContain(message);
    }
  });
});

/** Members by name: the tools show them in the order of the columns or of the search. */
function sorted(one: unknown): object {
  const members = Object.entries(one as object);
  return Object.fromEntries(members.toSorted(([left], [right]) => (left < right ? -1 : 1)));
}
