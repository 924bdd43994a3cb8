import { createHash } from 'node:crypto';
import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import Database from 'better-sqlite3';
import { describe, expect } from 'vitest';
import type { OfferedTable } from '../../src/sinks/records/offered-views.ts';
import { ofQuery, queryViews } from '../../src/sinks/sqlite/sqlite-query.ts';
import { openCliWorld, type CliWorld } from '../support/cli-world.ts';
import { it } from '../support/it.ts';
import { openMcpClient, processesOf, type McpClient } from '../support/mcp-client.ts';
import { isLong } from '../support/trials.ts';

const hidden = '[list_members.email_address, list_members.merge_fields, newsletter/lists]';
const member = 'newsletter__list_members_current';
let world: CliWorld;
let config: string;
let mcp: McpClient;

it.beforeAll(async () => {
  world = await openCliWorld({ settings: '    include: [lists, list_members, campaigns, reports]\n' });
  expect((await world.cli('sync', 'newsletter')).code).toBe(0);
  config = `${world.folder}/agents.yaml`;
  const text = readFileSync(world.config, 'utf8');
  writeFileSync(config, `${text}mcp: { connectors: [news*], exclude: ${hidden}, sql: true }\n`);
  mcp = await openMcpClient({ config, env: world.env });
}, 60_000);
it.afterAll(async () => {
  await mcp[Symbol.asyncDispose]();
  await world[Symbol.asyncDispose]();
});

const ask = async (sql: string, more: object = {}) => await mcp.call('sql', { sql, ...more });

describe('sql', () => {
  it('is there only where it is allowed', async () => {
    const names = async (client: McpClient) =>
      (await client.client.listTools()).tools.map(({ name }) => name);
    await using closed = await openMcpClient(world);
    expect(await names(closed)).not.toContain('sql');
    expect(await closed.refusal('sql', { sql: 'SELECT 1' })).toContain('There is no tool "sql"');
    await using open = await openMcpClient(world, 'legacy', ['--allow-sql']);
    expect(await names(open)).toContain('sql');
    expect(await names(mcp)).toContain('sql');
    expect(JSON.stringify((await mcp.client.listTools()).tools).length).toBeLessThan(9_000);
  });

  it('counts and joins what is stored, as of when, and whether it is complete', async () => {
    const file = new Database(`${world.folder}/main.db`, { readonly: true });
    const expected = file
      .prepare(`SELECT status, count(*) FROM ${member} GROUP BY status ORDER BY status`)
      .raw()
      .all();
    file.close();
    const answer = await ask(`SELECT status, count(*) AS n FROM ${member} GROUP BY status ORDER BY status;`);
    const { as_of: asOf } = await mcp.call('list_entities', { name: 'newsletter/list_members' });
    expect(answer).toMatchObject({
      as_of: asOf,
      complete: true,
      read: [{ view: member, entity: 'newsletter/list_members', complete: true }],
      more: false,
      columns: ['status', 'n'],
      rows: expected,
    });
    const joined = await ask(
      `WITH sent AS (SELECT id FROM newsletter__campaigns_current WHERE status = 'sent')
       SELECT c.id, r.id FROM sent AS c JOIN newsletter__reports_current AS r ON r.id = c.id -- of each`,
    );
    expect(joined['read']).toHaveLength(2);
    expect((joined['rows'] as unknown[]).length).toBeGreaterThan(0);
    expect(await ask("VALUES (1, 2.5, NULL), (9223372036854775807, x'00ff', 9e999)")).toMatchObject({
      rows: [
        [1, 2.5, null],
        ['9223372036854775807', "x'00ff'", 'Infinity'],
      ],
    });
  });

  it('continues where a page ended, and cuts long values and answers', async () => {
    const all = (await ask(`SELECT id FROM ${member} ORDER BY id`, { limit: 200 }))['rows'] as unknown[][];
    const found: unknown[] = [];
    for (let offset: unknown = 0; ;) {
      const page = await ask(`SELECT id FROM ${member} ORDER BY id`, { limit: 12, offset });
      found.push(...(page['rows'] as unknown[]));
      if (page['more'] !== true) break;
      offset = page.next['offset'];
    }
    expect(all.length).toBeGreaterThan(10);
    expect(found).toEqual(all);
    const long = await ask(
      `SELECT printf('%.*c', 600, 'x') AS text, a.id FROM ${member} AS a, ${member} AS b`,
      {
        limit: 200,
      },
    );
    expect(long).toMatchObject({ more: true, next: { offset: expect.any(Number) } });
    expect(JSON.stringify(long)).toContain('[cut after 500 characters]');
    expect(JSON.stringify(long).length).toBeLessThan(45_000);
  });

  it('lists views and columns without a query', async () => {
    const { views } = (await mcp.call('sql')) as unknown as {
      readonly views: readonly { readonly view: string; readonly columns: readonly string[] }[];
    };
    const columns = views.find(({ view }) => view === member)?.columns;
    expect(columns).toContain('status');
    for (const { view, columns: names } of views) {
      expect(
        (await ask(`SELECT ${names.map((name) => `"${name}"`).join(', ')} FROM ${view} LIMIT 0`))['columns'],
      ).toEqual(names);
    }
  });
});

/** As the process of a query asks, whose memory and time are tried below. */
async function rowsOf(folder: string, sql: string, mostCopyBytes = 2 ** 26): Promise<readonly unknown[]> {
  const offered = ['list_members', 'campaigns'].map((entity) => {
    const only = entity === 'campaigns' ? null : ['id', 'status', 'list_id'];
    return {
      label: `newsletter/${entity}`,
      connector: 'newsletter',
      owner: entity,
      entity,
      only,
    } as OfferedTable;
  });
  const [file, copy] = [`${world.folder}/main.db`, `${folder}/copy.db`];
  const query = { file, offered, sql, offset: 0, copy, mostCopyBytes };
  const { found, views } = await queryViews(query, async () => null);
  return ofQuery(() => [...found.rows], views);
}

const [m, c] = [member, 'newsletter__campaigns_current'];

// Only the columns that a query reads are copied.
it.for([
  `SELECT * FROM ${c} ORDER BY id`,
  `SELECT count(*) FROM ${m}`,
  `SELECT count(status), min(id), max(list_id) FROM ${m}`,
  `SELECT (SELECT count(*) FROM ${c}), status FROM ${m} ORDER BY id, list_id`,
  `SELECT DISTINCT status FROM ${m} UNION SELECT status FROM ${c} ORDER BY 1`,
  `SELECT m.id, c.settings FROM ${m} AS m LEFT JOIN ${c} AS c ON c.status = m.status ORDER BY 1, 2`,
  `SELECT * FROM ${m} FULL JOIN (SELECT id, send_time FROM ${c}) USING (id) ORDER BY id, list_id`,
  `SELECT id FROM ${c} WHERE EXISTS (SELECT 1 FROM ${m} AS m WHERE m.list_id = json_extract(recipients, '$.list_id'))`,
  `SELECT id, row_number() OVER (PARTITION BY status ORDER BY send_time, id) FROM ${c} ORDER BY id`,
  `WITH a AS MATERIALIZED (SELECT * FROM ${c}) SELECT x.id, y.type FROM a AS x, a AS y ORDER BY x.id, y.id`,
  `SELECT c.id, e.value FROM ${c} AS c, json_each(c.settings) AS e ORDER BY c.id, e.id`,
  `SELECT typeof(send_time), length(settings) FROM ${c} WHERE rowid > 0 ORDER BY id`,
  `SELECT (id, status) IN (SELECT id, status FROM ${c} WHERE type <> '') FROM ${c} ORDER BY id`,
])('sql reads what the view has: %s', async (sql, { folder }) => {
  const file = new Database(`${world.folder}/main.db`, { readonly: true });
  const views = `WITH seen_m AS (SELECT id, status, list_id FROM ${m})`;
  const direct = sql
    .replaceAll(m, 'seen_m')
    .replace(/^WITH (?=a)/, ', ')
    .replace(' WHERE rowid > 0', '');
  const expected = file.prepare(`${views} ${direct}`).raw().safeIntegers().all();
  file.close();
  expect(expected.length).toBeGreaterThan(0);
  expect(await rowsOf(folder, sql)).toEqual(expected);
});

it('sql copies no more than it may, of what a query reads', async ({ folder }) => {
  const most = 2 ** 13;
  const all = `SELECT * FROM ${c}, ${m}`;
  await expect(rowsOf(folder, all, most)).rejects.toThrow(
    'what the query reads takes more than 0.0078125 MiB',
  );
  expect(readdirSync(folder)).toEqual([]);
  expect(await rowsOf(folder, `SELECT count(status) FROM ${m}`, most)).toHaveLength(1);
});

describe('sql has nothing', () => {
  // Proves promise 22, 22.1
  it.for([
    ['what is excluded', `SELECT email_address FROM ${member}`, 'no such column: email_address'],
    ['what is made of it', `SELECT merge_fields FROM ${member}`, 'no such column: merge_fields'],
    ['excluded entities', 'SELECT * FROM newsletter__lists_current', 'no such table'],
    ['other connectors', 'SELECT * FROM wiki__pages_current', 'no such table'],
    ['tables below the views', 'SELECT * FROM newsletter__list_members', 'no such table'],
    ['the ledger', 'SELECT * FROM _sync_runs', 'no such table'],
    ['the ledger of a schema', 'SELECT * FROM main._sync_runs', 'no such table'],
    ['pages of files', 'SELECT * FROM sqlite_dbpage', 'no such table'],
    ['files', "SELECT readfile('/etc/passwd')", 'no such function: readfile'],
    ['extensions', "SELECT load_extension('/tmp/x.so')", 'not authorized'],
    ['attached files', "ATTACH '/etc/passwd' AS other", 'syntax error'],
    [
      'attached files behind a query',
      "SELECT 1); ATTACH '/tmp/other.db' AS other; SELECT (1",
      'more than one statement',
    ],
    ['files that VACUUM writes', "VACUUM INTO '/tmp/copy.db'", 'syntax error'],
    ['pragmas', 'PRAGMA query_only = OFF', 'syntax error'],
    ['pragmas that act when they are prepared', "PRAGMA temp_store_directory = '/root'", 'syntax error'],
    ['stacked statements', 'SELECT 1; DELETE FROM newsletter__list_members_current', 'syntax error'],
    ['writes', `DELETE FROM ${member} RETURNING id`, 'syntax error'],
    ['writes by CTE', `WITH gone AS (DELETE FROM ${member} RETURNING id) SELECT * FROM gone`, 'syntax error'],
    [
      'writes behind a CTE',
      `WITH one AS (SELECT 1) INSERT INTO ${member} (id) SELECT * FROM one`,
      'syntax error',
    ],
    ['tables', 'CREATE TEMP TABLE other (id)', 'syntax error'],
    ['transactions', 'COMMIT', 'syntax error'],
    ['EXPLAIN', 'EXPLAIN SELECT 1', 'syntax error'],
    ['comments without an end', 'SELECT 1 /*', 'incomplete input'],
    ['parameters', 'SELECT ?', 'Too few parameter values'],
  ] as const)('of %s', async ([, sql, message], { folder }) => {
    await expect(rowsOf(folder, sql)).rejects.toThrow(message);
    expect(readdirSync(folder)).toEqual([]);
  });

  it('of these in what it can list', async () => {
    const answers = [
      await ask('SELECT name, sql FROM sqlite_schema', { limit: 200 }),
      await ask('SELECT * FROM pragma_database_list'),
      await ask('SELECT name FROM dbstat', { limit: 200 }),
      await mcp.call('sql'),
      await ask(`SELECT * FROM ${member}`, { limit: 200 }),
      await ask('SELECT * FROM pragma_optimize(65534)'),
    ];
    for (const answer of answers) {
      expect(JSON.stringify(answer)).not.toMatch(
        /newsletter__lists|wiki|_sync_|main\.db|list_members_current\([^)]*email_address/,
      );
    }
  });
});

const endless = 'WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n)';

it('ends what takes too much memory or is cancelled, leaves nothing behind, and answers on', async () => {
  const file = `${world.folder}/main.db`;
  const state = () => [createHash('sha256').update(readFileSync(file)).digest('hex'), statSync(file).mtimeMs];
  const left = () => readdirSync(tmpdir()).filter((name) => name.startsWith('connector-sync-sql-'));
  const before = state();
  const cancelled = new AbortController();
  const settled = Promise.allSettled(
    [0, 1].map(() =>
      mcp.client.callTool(
        { name: 'sql', arguments: { sql: `${endless} SELECT count(*) FROM n` } },
        { signal: cancelled.signal },
      ),
    ),
  );
  // Both places for slow calls are taken; others are free.
  expect(await mcp.call('freshness')).toMatchObject({ connectors: [{ connector: 'newsletter' }] });
  await expect.poll(() => processesOf(mcp).length, { timeout: 20_000 }).toBe(2);
  cancelled.abort();
  expect((await settled).map(({ status }) => status)).toEqual(['rejected', 'rejected']);
  await expect.poll(() => processesOf(mcp), { timeout: 20_000 }).toEqual([]);
  expect(await ask('SELECT 1')).toMatchObject({ rows: [[1]] });
  const tooMuch = [
    `${endless} SELECT x, randomblob(100000) FROM n ORDER BY 2`,
    'SELECT length(zeroblob(400000000) || zeroblob(400000000) || zeroblob(198000000))',
  ];
  for (const sql of tooMuch) {
    expect(await mcp.refusal('sql', { sql })).toMatch(/needed too much memory|too big/);
  }
  expect(await ask('SELECT 1')).toMatchObject({ rows: [[1]] });
  expect(state()).toEqual(before);
  expect(left()).toEqual([]);
}, 60_000);

it.skipIf(!isLong)(
  'ends what does not end by itself',
  async () => {
    const joined = Array.from({ length: 9 }, (_, index) => `${member} AS m${index}`).join(', ');
    for (const sql of [`${endless} SELECT count(*) FROM n`, `SELECT count(*) FROM ${joined}`]) {
      expect(await mcp.refusal('sql', { sql })).toContain('The query took longer than 30 s and was ended.');
    }
    await expect.poll(() => processesOf(mcp), { timeout: 20_000 }).toEqual([]);
  },
  120_000,
);
