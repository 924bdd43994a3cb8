import { readFileSync, writeFileSync } from 'node:fs';
import pg from 'pg';
import { expect } from 'vitest';
import { openCliWorld, type CliWorld } from '../support/cli-world.ts';
import { it } from '../support/it.ts';
import { openMcpClient, type McpClient } from '../support/mcp-client.ts';
import { startPostgres, type PrivatePostgres } from '../support/postgres.ts';
import { callCli } from '../support/run-cli.ts';
import { isLong } from '../support/trials.ts';

const member = 'newsletter__list_members_current';
const hidden = '[list_members.email_address, list_members.merge_fields, newsletter/lists]';
let server: PrivatePostgres;
let admin: pg.Client;
let world: CliWorld;
let config: string;
let mcp: McpClient;

it.beforeAll(async () => {
  server = await startPostgres();
  admin = new pg.Client(server.url);
  await admin.connect();
  const sinkSettings = `{ type: postgres, url: "${server.url}", schema: stored }`;
  world = await openCliWorld({ sinkSettings });
  expect((await world.cli('sync', 'newsletter')).code).toBe(0);
  config = `${world.folder}/agents.yaml`;
  const text = readFileSync(world.config, 'utf8');
  writeFileSync(
    config,
    `${text}mcp: { connectors: [news*], exclude: ${hidden}, sql: true, sqlUser: agents, sqlPassword: secret }\n`,
  );
  await grant();
  mcp = await openMcpClient({ config, env: world.env });
}, 60_000);
it.afterAll(async () => {
  await mcp[Symbol.asyncDispose]();
  await admin.end();
  await world[Symbol.asyncDispose]();
  await server[Symbol.asyncDispose]();
});

async function grant(): Promise<void> {
  const { stdout, code } = await callCli(['mcp', 'grant', '--config', config], {
    cwd: world.folder,
    env: world.env,
  });
  expect(code).toBe(0);
  await admin.query(stdout);
}

const ask = async (sql: string, more: object = {}) => await mcp.call('sql', { sql, ...more });

it('answers by a role that reads the shown views alone', async () => {
  const { rows } = await admin.query({
    text: `SELECT status, count(*)::int FROM stored.${member} GROUP BY status ORDER BY status`,
    rowMode: 'array',
  });
  expect(
    await ask(`SELECT status, count(*) AS n FROM ${member} GROUP BY status ORDER BY status;`),
  ).toMatchObject({
    complete: true,
    read: [{ view: member, entity: 'newsletter/list_members', complete: true }],
    columns: ['status', 'n'],
    rows,
  });
  expect(await ask("SELECT current_user::text, current_setting('transaction_read_only')")).toMatchObject({
    rows: [['agents', 'on']],
  });
  const found: unknown[] = [];
  for (let offset: unknown = 0; ;) {
    const page = await ask(`SELECT id, list_id FROM ${member} ORDER BY 1, 2`, { limit: 12, offset });
    found.push(...(page['rows'] as unknown[]));
    if (page['more'] !== true) break;
    offset = page.next['offset'];
  }
  expect(new Set(found.map((row) => JSON.stringify(row))).size).toBe(
    (await admin.query(`SELECT 1 FROM stored.${member}`)).rowCount,
  );
  const { rows: long } = await ask("SELECT repeat('x', 1000000), 1::bigint, true, NULL, 'NaN'::float8");
  expect(long).toEqual([[expect.stringMatching(/^x{500} \[cut/), 1, true, null, 'NaN']]);
});

// Proves promise 22.1
it.each([
  ['excluded columns', `SELECT email_address FROM ${member}`, 'permission denied'],
  ['all columns where some are excluded', `SELECT * FROM ${member}`, 'name the others instead of *'],
  ['excluded entities', 'SELECT id FROM newsletter__lists_current', 'permission denied'],
  ['tables below the views', 'SELECT id FROM newsletter__list_members', 'permission denied'],
  ['the ledger', 'SELECT * FROM _sync_runs', 'permission denied'],
  ['passwords', 'SELECT * FROM pg_authid', 'permission denied'],
  ['files', "SELECT pg_read_file('/etc/passwd')", 'permission denied'],
  ['folders', "SELECT pg_ls_dir('/')", 'permission denied'],
  ['large objects from files', "SELECT lo_import('/etc/passwd')", 'permission denied'],
  ['programs', "COPY (SELECT 1) TO PROGRAM 'id'", 'syntax error'],
  ['the network', "SELECT dblink('host=localhost', 'SELECT 1')", 'does not exist'],
  [
    'queries as text',
    "SELECT query_to_xml('SELECT * FROM stored.newsletter__lists', true, true, '')",
    'permission denied',
  ],
  ['other roles', "SELECT set_config('role', 'pg_read_all_data', false)", 'permission denied'],
  [
    'other sessions',
    "SELECT set_config('session_authorization', 'pg_read_all_data', false)",
    'permission denied',
  ],
  ['transactions that write', "SELECT set_config('transaction_read_only', 'off', false)", 'read-write mode'],
  [
    'writes by CTE',
    `WITH gone AS (DELETE FROM ${member} RETURNING id) SELECT * FROM gone`,
    'at the top level',
  ],
  [
    'stacked statements',
    'SELECT 1) AS a; COMMIT; DROP SCHEMA stored CASCADE; SELECT * FROM (SELECT 1',
    'multiple commands',
  ],
  ['the end of the transaction', 'COMMIT', 'syntax error'],
  ['locks', `SELECT id FROM ${member} FOR UPDATE`, 'permission denied'],
  ['new tables', 'SELECT 1 AS id INTO other', 'INTO'],
  ['sequences', "SELECT nextval('stored.any')", 'does not exist'],
])('has nothing of %s', async (_what, sql, message) => {
  expect(await mcp.refusal('sql', { sql })).toContain(message);
});

it('writes no large object, and notifies no session', async () => {
  const before = await admin.query('SELECT count(*) FROM pg_largeobject_metadata');
  const heard: unknown[] = [];
  admin.on('notification', (message) => heard.push(message));
  await admin.query('LISTEN news');
  await Promise.allSettled([ask("SELECT lo_from_bytea(0, 'abc')"), ask("SELECT pg_notify('news', 'x')")]);
  expect((await admin.query('SELECT count(*) FROM pg_largeobject_metadata')).rows).toEqual(before.rows);
  expect(heard).toEqual([]);
});

it('has the server end what is cancelled', async () => {
  const running = async (): Promise<number> =>
    (
      await admin.query(
        "SELECT 1 FROM pg_stat_activity WHERE usename = 'agents' AND state = 'active' AND query LIKE '%endless%'",
      )
    ).rowCount ?? 0;
  const cancelled = new AbortController();
  const sql =
    'WITH RECURSIVE endless(x) AS (SELECT 1 UNION ALL SELECT 1 FROM endless) SELECT count(*) FROM endless';
  const asked = mcp.client.callTool({ name: 'sql', arguments: { sql } }, { signal: cancelled.signal });
  const settled = asked.then(
    () => 'answered',
    () => 'rejected',
  );
  await expect.poll(running, { timeout: 20_000 }).toBe(1);
  cancelled.abort();
  expect(await settled).toBe('rejected');
  await expect.poll(running, { timeout: 20_000 }).toBe(0);
  expect(await ask('SELECT 1')).toMatchObject({ rows: [[1]] });
}, 60_000);

// Proves promise 22.1
it('is refused where the role can do more, with what that is', async () => {
  const more = [
    [
      'GRANT SELECT ON stored.newsletter__lists TO agents',
      'may read stored.newsletter__lists',
      'REVOKE SELECT ON stored.newsletter__lists FROM agents',
    ],
    [
      `GRANT SELECT ON stored.${member} TO agents`,
      'may read email_address of stored',
      `REVOKE SELECT ON stored.${member} FROM agents`,
    ],
    [
      `GRANT DELETE ON stored.${member} TO agents`,
      'may write stored.',
      `REVOKE DELETE ON stored.${member} FROM agents`,
    ],
    [
      'GRANT pg_read_server_files TO agents',
      'is a member of pg_read_server_files',
      'REVOKE pg_read_server_files FROM agents',
    ],
    [
      'GRANT EXECUTE ON FUNCTION pg_read_file(text) TO agents',
      'may call pg_catalog.pg_read_file',
      'REVOKE EXECUTE ON FUNCTION pg_read_file(text) FROM agents',
    ],
    [
      'GRANT CREATE ON SCHEMA stored TO agents',
      'may make tables in stored',
      'REVOKE CREATE ON SCHEMA stored FROM agents',
    ],
    [
      "CREATE FUNCTION public.peek() RETURNS text LANGUAGE sql SECURITY DEFINER AS 'SELECT 1::text'",
      'may call public.peek',
      'DROP FUNCTION public.peek()',
    ],
    ['ALTER ROLE agents SUPERUSER', 'is a superuser', 'ALTER ROLE agents NOSUPERUSER'],
  ] as const;
  for (const [give, message, take] of more) {
    await admin.query(give);
    const refused = await mcp.refusal('sql', { sql: 'SELECT 1' });
    await admin.query(take);
    expect(refused).toContain(`sql is refused: the role agents at`);
    expect(refused).toContain(message);
  }
  // What was taken away took the columns too.
  await grant();
  expect(await ask(`SELECT count(*) FROM ${member}`)).toMatchObject({ more: false });
}, 60_000);

it.skipIf(!isLong)(
  'has the server end what does not end by itself',
  async () => {
    const sql = `WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT 1 FROM n) SELECT count(*) FROM n`;
    expect(await mcp.refusal('sql', { sql })).toContain('The query took longer than 30 s and was ended.');
    const active = `SELECT 1 FROM pg_stat_activity WHERE usename = 'agents' AND state = 'active'`;
    await expect.poll(async () => (await admin.query(active)).rowCount, { timeout: 20_000 }).toBe(0);
  },
  120_000,
);

it('needs a role', async () => {
  await using without = await openMcpClient(world, 'legacy', ['--allow-sql']);
  expect(await without.refusal('sql', { sql: 'SELECT 1' })).toContain('"mcp grant" prints');
});

/** Constants, errors, notices, names and rows of any length, folded by the planner or not. */
const greedy: readonly string[] = [
  "SELECT repeat('a', 1000000000)",
  "SELECT repeat('a', 400000000)",
  "SELECT repeat('aaaaaaaaaaaaaaaaaaaa', 3000000)",
  "SELECT lpad('', 300000000, 'ab')",
  "SELECT rpad('x', 300000000)",
  "SELECT 1 WHERE repeat('a', 300000000) = 'b'",
  "SELECT repeat('a', 100000000)::int",
  "SELECT ('[' || repeat('1,', 100000000) || '1]')::json",
  "SELECT ('\"' || repeat('a', 100000000))::jsonb",
  "SELECT repeat('a', 100000000)::date",
  "SELECT to_json(repeat('a', 200000000))",
  "SELECT format('%s%s', repeat('a', 200000000), repeat('b', 200000000))",
  "SELECT format('%300000000s', 'a')",
  "SELECT regexp_replace(repeat('a', 10000000), 'a', 'bbbbbbbbbbbbbbbbbbbbbbbbbbbbbb', 'g')",
  "SELECT replace(repeat('a', 10000000), 'a', repeat('b', 30))",
  "SELECT translate(repeat('a', 200000000), 'a', 'b')",
  "SELECT overlay(repeat('a', 200000000) PLACING 'b' FROM 1)",
  "SELECT concat(repeat('a', 300000000), repeat('b', 300000000))",
  "SELECT string_agg(repeat('a', 1000000), ',') FROM generate_series(1, 300)",
  "SELECT array_agg(repeat('a', 100000)) FROM generate_series(1, 2000)",
  "SELECT array_fill('aaaaaaaaaaaaaaaa'::text, ARRAY[10000000])",
  "SELECT string_to_array(repeat('a,', 10000000), ',')",
  'SELECT json_agg(n) FROM generate_series(1, 5000000) AS n',
  "SELECT jsonb_object_agg(n, repeat('a', 100)) FROM generate_series(1, 300000) AS n",
  'SELECT xmlagg(xmlelement(name a, n)) FROM generate_series(1, 1000000) AS n',
  "SELECT decode(repeat('00', 200000000), 'hex')",
  "SELECT encode(repeat('a', 200000000)::bytea, 'base64')",
  "SELECT ROW(repeat('a', 200000000), repeat('b', 200000000))",
  "SELECT B'1'::bit(80000000)",
  'SELECT 10::numeric ^ 100000',
  "SELECT * FROM unnest(string_to_array(repeat('a,', 10000000), ','))",
  'SELECT a FROM generate_series(1, 100000) AS a, generate_series(1, 100000) AS b',
  "WITH RECURSIVE r AS (SELECT 'a'::text AS x UNION ALL SELECT x || x FROM r WHERE length(x) < 300000000) SELECT x FROM r",
  "SELECT repeat('x', 500) FROM generate_series(1, 1000000)",
  `SELECT ${Array.from({ length: 100 }, () => "repeat('€', 500)").join(', ')} FROM generate_series(1, 1000)`,
  `SELECT ${Array.from({ length: 1600 }, () => "repeat('a', 1000000)").join(', ')}`,
  "SELECT set_config('search_path', repeat('a', 100000000), true)",
  "SELECT set_config('a.b', repeat('a', 100000000), true)",
  "SELECT query_to_xml('SELECT repeat(''a'', 100000000)', true, true, '')",
  "VALUES (repeat('a', 300000000)), (repeat('b', 300000000))",
];
/** `npm test` has time for one of each kind: plan, error, value, row. */
const triedGreedy = isLong ? greedy : [1, 6, 18, 31, 34].map((index) => greedy[index] ?? '');

// Proves promise 22.3
it('brings no more than a few MiB of any answer, error or plan into its memory', async () => {
  await using own = await openMcpClient({ config, env: world.env });
  for (const sql of triedGreedy) {
    // An answer, or a refusal that says why: either way the server keeps answering.
    await own.client.callTool({ name: 'sql', arguments: { sql } });
    expect(await own.call('sql', { sql: 'SELECT 2 AS two' }), sql).toMatchObject({ rows: [[2]] });
    expect(own.peakMiB(), sql).toBeLessThan(300);
  }
}, 600_000);
