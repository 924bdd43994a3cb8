import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import pg from 'pg';
import { expect } from 'vitest';
import { startHostileServer } from '../support/hostile-server.ts';
import { success } from '../support/hostile/replies.ts';
import { it } from '../support/it.ts';
import { killedSync } from '../support/killed-sync.ts';
import { openMcpClient, type Answered, type McpClient } from '../support/mcp-client.ts';
import { sharedPostgres } from '../support/postgres.ts';
import { callCli } from '../support/run-cli.ts';
import { builtInDefinition } from '../support/sample-service.ts';
import { seededRandom } from '../support/seeded-random.ts';
import { testCredentials } from '../support/sync-once.ts';
import { repeats, startSeed } from '../support/trials.ts';

const kills = repeats('KILLS', { share: 2, full: 40 });
const seed = startSeed();
const entity = 'wiki/users';
const env = { TEST_SECRET: testCredentials.clientSecret };
const pages = 30 * (kills + 1);
const ofPage = 100;
/** One record of each page cannot be stored: the ledger says how many pages of rows there must be in the same state. */
const storedOfPage = ofPage - 1;
const idOf = (index: number): string => `m${String(index).padStart(8, '0')}`;

function pageAt(page: number) {
  const records = Array.from({ length: ofPage }, (_, place) => {
    const name = idOf(ofPage * page + place);
    return { ...(place === 0 ? {} : { id: name }), name, type: 'person' };
  });
  const isLast = page === pages - 1;
  return success(records, { has_more: !isLast, next_cursor: isLast ? null : String(page + 1) });
}

async function writeConfig(folder: string, baseUrl: string, sink: string): Promise<string> {
  const config = join(folder, 'config.yaml');
  writeFileSync(
    config,
    `api: { baseUrl: "${baseUrl}", clientId: ${testCredentials.clientId}, clientSecret: "\${TEST_SECRET}" }
sinks: { main: ${sink} }
connectors:
  wiki: { definition: workspace-notes, id: c1, sink: main, include: [users], rateLimit: { requestsPerSecond: 40 } }
mcp: { sql: true, sqlUser: killed_syncs_agents }
`,
  );
  return config;
}

/** How many pages are committed in the state of an answer; never fewer than in one before. */
function openCommitted() {
  let least = 0;
  let states = 1;
  return {
    of: (answer: unknown): number => {
      const [, text = '0'] = /(\d+) records? could not be stored/.exec(JSON.stringify(answer)) ?? [];
      expect(Number(text)).toBeGreaterThanOrEqual(least);
      if (Number(text) > least) states += 1;
      least = Number(text);
      return least;
    },
    least: () => least,
    states: () => states,
  };
}

/** Asks each quick tool again and again, until all pages are committed. */
async function askQuickly(mcp: McpClient): Promise<void> {
  const committed = openCommitted();
  let since = 0;
  const isThere = async (tool: string, random: () => number): Promise<void> => {
    // Of one of the pages that come next.
    const page = committed.least() + Math.floor(random() * 4);
    const answer = await mcp.call(tool, { entity, key: { id: idOf(ofPage * page + 1) } });
    expect(answer['found']).toBe(committed.of(answer) > page);
  };
  const random = seededRandom(seed);
  while (committed.least() < pages) {
    await isThere('get', random);
    await isThere('explain', random);
    const found = await mcp.call('search', { entity, sort: 'name:desc', limit: 1, fields: ['name'] });
    expect(found.records[0]?.['name']).toBe(idOf(ofPage * committed.of(found) - 1));
    const changed: Answered = await mcp.call('changes', { entity, since, limit: 200, fields: ['name'] });
    const rows = committed.of(changed) * storedOfPage;
    expect(changed.next['since']).toBe(Math.min(since + 200, rows));
    expect(changed['more']).toBe(since + 200 < rows);
    expect(changed.records).toHaveLength(Math.min(200, rows - since));
    since = Number(changed.next['since']);
    for (const name of [undefined, 'wiki', entity]) {
      const listed = await mcp.call('list_entities', name === undefined ? {} : { name });
      const [, counted] = /(?:"rows":|users )(\d+)/.exec(JSON.stringify(listed)) ?? [];
      expect(Number(counted)).toBe(committed.of(listed) * storedOfPage);
    }
    const { connectors } = await mcp.call('freshness', { connector: 'wiki' });
    const fresh = JSON.stringify(connectors);
    const isEnded = fresh.includes('"last_sync":{"state":"ok"');
    expect(/\d records? could not be stored/.test(fresh)).toBe(isEnded);
    if (isEnded) expect(fresh).not.toContain('"as_of":null');
  }
  expect(committed.states()).toBeGreaterThan(kills);
}

async function askBySql(mcp: McpClient): Promise<void> {
  const committed = openCommitted();
  const sql = 'SELECT count(*), max(name) FROM wiki__users_current';
  while (committed.least() < pages) {
    const answer = await mcp.call('sql', { sql });
    const count = committed.of(answer);
    expect(answer['rows']).toEqual([[count * storedOfPage, idOf(ofPage * count - 1)]]);
  }
}

// Proves promise 22.2
it.for(['sqlite', 'postgres'] as const)(
  `answers from one committed state of a %s sink while syncs are killed (${kills} kills, seed ${seed})`,
  { timeout: 300_000 },
  async (kind, { folder }) => {
    await using server = await startHostileServer({
      connectors: [{ id: 'c1', name: 'One', definitionId: builtInDefinition('workspace-notes').id }],
      respond: ({ params }) => pageAt(Number(params['start_cursor'] ?? 0)),
    });
    const url = kind === 'postgres' ? (await sharedPostgres()).url : '';
    const sink =
      kind === 'postgres'
        ? `{ type: postgres, url: "${url}", schema: killed_syncs }`
        : '{ type: sqlite, path: ./main.db, durability: normal }';
    const config = await writeConfig(folder, server.baseUrl, sink);
    const sync = async (afterMs: number | null) =>
      await killedSync(config, 'wiki', [], afterMs, 'page-committed');
    expect((await sync(0)).code).toBe(null);
    if (kind === 'postgres') {
      const admin = new pg.Client(url);
      await admin.connect();
      await admin.query((await callCli(['mcp', 'grant', '--config', config], { cwd: folder, env })).stdout);
      await admin.end();
    }
    await using mcp = await openMcpClient({ config, env });
    const killed = async (): Promise<void> => {
      const random = seededRandom(seed);
      for (let done = 1; done < kills; done += 1) {
        const { code, stderr } = await sync(random() * 600);
        expect({ code, stderr }).toEqual({ code: null, stderr: '' });
      }
      const { code, stderr } = await sync(null);
      // A slow machine gets lines of progress.
      expect({ code, stderr: stderr.replaceAll(/^wiki {2}\d.*\n/gm, '') }).toEqual({ code: 0, stderr: '' });
    };
    await Promise.all([killed(), askQuickly(mcp), askBySql(mcp)]);
  },
);
