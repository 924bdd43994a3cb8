import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect } from 'vitest';
import type { JsonObject } from '../../src/core/json.ts';
import { it } from '../support/it.ts';
import type { McpClient } from '../support/mcp-client.ts';
import {
  areComplete,
  everyAnswer,
  listed,
  listedWhen,
  openServeClient,
  startServe,
  storedAddresses,
  type ServeProcess,
} from '../support/mcp-serve.ts';
import { callCli } from '../support/run-cli.ts';
import { textIn } from '../support/service/api-client.ts';

let data: string;
let serve: ServeProcess;
let mcp: McpClient;
let ours: string;
let theirs: string;

it.beforeAll(async ({ fileFolder }) => {
  data = join(fileFolder, 'data', 'service');
  serve = await startServe(fileFolder);
  mcp = await openServeClient(data, '--allow-sql');
  // Two workspaces with equal names.
  ours = await serve.create('default', 'My library');
  theirs = await serve.create('acme', 'My library');
  await listedWhen(mcp, (connectors) => connectors.length === 5 && areComplete(connectors));
}, 120_000);
it.afterAll(async () => {
  await mcp[Symbol.asyncDispose]();
  await serve.kill();
});

const entity = 'sample-newsletter/campaigns';

async function executed(body: JsonObject): Promise<readonly JsonObject[]> {
  const answer = await serve.api.post('/api/v1/integrations/connectors/sample-newsletter/execute', body);
  expect(answer.status).toBe(200);
  return answer.body['result'] as readonly JsonObject[];
}

describe('mcp --serve', () => {
  it(
    'has every tool over what the service hosts, with what its API answers',
    { timeout: 120_000 },
    async () => {
      const { tools } = await mcp.client.listTools();
      expect(tools).toHaveLength(7);
      const [first] = await executed({ entity: 'campaigns', action: 'list', params: {} });
      const key = { id: textIn(first ?? {}, 'id') };
      const got = await mcp.call('get', { entity, key });
      expect(got).toMatchObject({ entity, complete: true, found: true });
      expect(got.record).toMatchObject({ ...key, status: first?.['status'], settings: first?.['settings'] });
      const query = { filter: { eq: { status: 'sent' } }, sort: [{ send_time: 'desc' }] };
      const params = { query, fields: ['id'], limit: 50 };
      const { data: wanted } = (await executed({
        entity: 'campaigns',
        action: 'context_store_search',
        params,
      })) as unknown as { data: unknown };
      const asked = { entity, filter: query.filter, sort: 'send_time:desc', fields: ['id'] };
      const found = await mcp.call('search', asked);
      expect(found.records.length).toBeGreaterThan(1);
      expect(found.records).toEqual(wanted);
      const part = await mcp.call('search', { ...asked, limit: 1 });
      const rest = await mcp.call('search', { ...asked, cursor: part.next['cursor'] });
      expect([...part.records, ...rest.records]).toEqual(found.records);
      const { history } = await mcp.call('explain', { entity, key });
      expect(history).toContainEqual(expect.stringMatching(/^first seen: 20/));
      const changes = await mcp.call('changes', { entity, since: 0, limit: 200 });
      expect(await mcp.call('changes', { entity, ...changes.next })).toMatchObject({ records: [] });
      const { rows } = await mcp.call('sql', {
        connector: 'sample-newsletter',
        sql: 'SELECT count(*) FROM store__campaigns_current',
      });
      expect(rows).toEqual([[changes.records.length]]);
      expect(await mcp.refusal('sql', { sql: 'SELECT 1' })).toMatch(/^connector: is missing/);
      expect(await mcp.call('freshness', { connector: 'sample-wiki' })).toMatchObject({
        connectors: [{ connector: 'sample-wiki', state: 'ok', as_of: expect.stringMatching(/^20/) }],
      });
      const uri = 'connector-sync://dictionary/sample-wiki';
      expect((await mcp.client.listResources()).resources.map((one) => one.uri)).toContain(uri);
      const { contents } = await mcp.client.readResource({ uri });
      expect(contents).toMatchObject([
        { text: expect.stringMatching(/^# sample-wiki: [^]*## sample-wiki\/pages\n/) },
      ]);
      // What the ledger of a store calls its connector is of no use to an agent.
      const answers = JSON.stringify([await everyAnswer(mcp, 'sample-newsletter'), contents, changes]);
      expect(answers.match(/"store[/"]|store\/\w+/g) ?? []).toEqual([]);
    },
  );

  it('tells connectors with equal names apart', async () => {
    const named = (await listed(mcp)).filter(({ name }) => name === 'My library');
    expect(new Map(named.map(({ connector, workspace }) => [connector, workspace]))).toEqual(
      new Map([
        [ours, 'default'],
        [theirs, 'acme'],
      ]),
    );
    const refusal = await mcp.refusal('search', { entity: 'My library/documents' });
    expect(refusal).toContain('There is no connector "My library"; these have that name: ');
    expect(refusal).toContain(ours);
    expect(refusal).toContain(theirs);
    for (const connector of [ours, theirs]) {
      const { records } = await mcp.call('search', { entity: `${connector}/documents` });
      expect(records.length).toBeGreaterThan(0);
    }
  });

  it('follows connectors and workspaces as they come, change and go', async () => {
    const { body } = await serve.api.get(`/api/v1/integrations/connectors/${theirs}/inspect`);
    const workspace = `/api/v1/workspaces/${textIn(body, 'workspace_id')}`;
    const made = await serve.create('acme', 'Another');
    const renamed = `/api/v1/integrations/connectors/${made}`;
    await serve.api.put(renamed, { name: 'Renamed' });
    expect((await listed(mcp)).find(({ connector }) => connector === made)).toMatchObject({
      name: 'Renamed',
    });
    for (const [change, why] of [
      [{ cache_enabled: false }, 'cache_enabled is false in its workspace'],
      [{ cache_enabled: true, status: 'inactive' }, 'its workspace is inactive'],
    ] as const) {
      await serve.api.put(workspace, change);
      const problem = `There is no local copy of ${theirs}: ${why}.`;
      expect((await listed(mcp)).find(({ connector }) => connector === theirs)).toMatchObject({ problem });
      expect(await mcp.refusal('search', { entity: `${theirs}/documents` })).toBe(problem);
      expect(await mcp.refusal('sql', { connector: theirs })).toBe(problem);
      expect(await mcp.call('freshness', { connector: theirs })).toMatchObject({
        connectors: [{ connector: theirs, state: problem }],
      });
    }
    await serve.api.put(workspace, { status: 'active' });
    await serve.api.delete(renamed);
    expect(await mcp.refusal('list_entities', { name: made })).toContain(`There is no connector "${made}"`);
    await listedWhen(mcp, (connectors) => connectors.length === 5 && areComplete(connectors));
  });

  // Proves promise 22.1
  it('shows no excluded value, and only the connectors that are named', { timeout: 120_000 }, async () => {
    const addresses = await storedAddresses(mcp);
    expect(addressesIn(JSON.stringify(await everyAnswer(mcp, 'sample-newsletter')), addresses)).toEqual(
      addresses,
    );
    const exclude = ['--exclude', 'email-marketing/email_activity.email_address', 'lists'];
    await using less = await openServeClient(
      data,
      '--allow-sql',
      '--connectors',
      'sample-news*',
      'acme/*',
      ...exclude,
    );
    expect((await listed(less)).map(({ connector }) => connector).toSorted()).toEqual(
      [theirs, 'sample-newsletter'].toSorted(),
    );
    expect(await less.refusal('get', { entity: 'sample-wiki/pages', key: { id: '1' } })).toContain(
      'no connector',
    );
    expect(await less.refusal('changes', { entity: 'sample-newsletter/lists', since: 0 })).toContain(
      'no entity',
    );
    const answers = JSON.stringify(await everyAnswer(less, 'sample-newsletter'));
    expect(addressesIn(answers, addresses)).toEqual([]);
    const filter = { eq: { email_address: addresses[0] } };
    expect(await less.refusal('search', { entity: 'sample-newsletter/email_activity', filter })).toContain(
      'email_address',
    );
  });

  it('reads on when the service was killed, and one damaged store hides no other', async ({ fileFolder }) => {
    const before = await mcp.call('search', { entity });
    await serve.kill();
    expect(await mcp.call('search', { entity })).toEqual(before);
    await using after = await openServeClient(data);
    expect(areComplete(await listed(after))).toBe(true);
    writeFileSync(join(data, 'stores', 'sample-wiki.db'), 'no database');
    const connectors = await listed(after);
    expect(connectors.filter(({ problem }) => problem !== undefined)).toEqual([
      expect.objectContaining({
        connector: 'sample-wiki',
        problem: expect.stringContaining('sample-wiki.db could not be read') as string,
      }),
    ]);
    expect(connectors).toHaveLength(5);
    const { connectors: ages } = await after.call('freshness');
    expect(ages).toContainEqual({ connector: 'sample-wiki', state: 'cannot be read' });
    // One that keeps no stores.
    serve = await startServe(fileFolder, '--no-index');
    expect(await after.refusal('search', { entity })).toBe(
      'There is no local copy of sample-newsletter: serve was started with --no-index.',
    );
  });
});

function addressesIn(text: string, addresses: readonly string[]): readonly string[] {
  return addresses.filter((address) => text.includes(address));
}

it.for([
  [['--connectors', 'x'], '--connectors belongs to --serve'],
  [['--serve', '.', '--config', 'x.yaml'], 'Expected either --serve or --config, got both'],
  [['--serve', '.'], 'Expected the data folder of'],
] as const)('refuses %j: %s', async ([flags, text], { folder }) => {
  const { code, stderr } = await callCli(['mcp', ...flags], { cwd: folder });
  expect([code, stderr]).toEqual([2, expect.stringContaining(text)]);
});

it('refuses what names nothing, and to serve over HTTP without a token', async () => {
  const refused = async (flags: readonly string[], env = {}) => {
    const { code, stderr } = await callCli(['mcp', '--serve', data, ...flags], { cwd: data, env });
    expect(code).toBe(2);
    return stderr;
  };
  expect(await refused(['--exclude', 'campaign'])).toContain('did you mean "campaigns"');
  expect(await refused(['--exclude', 'mailing/campaigns'])).toContain('no such connector type: "mailing"');
  expect(await refused(['--http', '0'])).toContain('set CONNECTOR_SYNC_MCP_TOKEN');
  const token = { CONNECTOR_SYNC_MCP_TOKEN: 'short' };
  expect(await refused(['--http', '0'], token)).toContain('CONNECTOR_SYNC_MCP_TOKEN: expected 16');
});
