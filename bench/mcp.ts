import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { benchConnector, fillMemberSink } from './member-sink.ts';
import { loadDefinitions } from '../src/definitions/load-definitions.ts';
import { openMcpClient, type Answered } from '../test/support/mcp-client.ts';

/** How long an agent waits for each tool: `npm run bench:mcp -- [members] [rounds]`. Times of the client, medians. */
const members = Number(process.argv[2] ?? 1_000_000);
const rounds = Number(process.argv[3] ?? 15);
const definition = loadDefinitions(['config/definitions']).get('email-marketing');
if (definition === undefined) throw new Error('no definition email-marketing');

const folder = mkdtempSync(path.join(tmpdir(), 'bench-mcp-'));
try {
  const file = path.join(folder, 'bench.db');
  await fillMemberSink(file, definition, members);
  const config = path.join(folder, 'sync.yaml');
  writeFileSync(
    config,
    `api: { baseUrl: "http://127.0.0.1:1", clientId: bench, clientSecret: bench }
sinks: { main: { type: sqlite, path: ${file} } }
connectors: { ${benchConnector}: { definition: email-marketing, id: bench, sink: main } }
mcp: { sql: true }
`,
  );
  await using mcp = await openMcpClient({ config, env: {} });
  const entity = `${benchConnector}/list_members`;
  const measure = async (what: string, tool: string, given: Record<string, unknown>): Promise<Answered> => {
    let answer = await mcp.call(tool, given);
    const times: number[] = [];
    for (let round = 0; round < rounds; round += 1) {
      const start = performance.now();
      answer = await mcp.call(tool, given);
      times.push(performance.now() - start);
    }
    const [median = 0] = times.toSorted((one, other) => one - other).slice(Math.floor(rounds / 2));
    console.log(
      `${what.padEnd(36)} ${median.toFixed(1).padStart(8)} ms ${JSON.stringify(answer).length} characters`,
    );
    return answer;
  };
  await measure('list_entities', 'list_entities', {});
  await measure('list_entities of the entity', 'list_entities', { name: entity });
  const { records } = await measure('search, the first 20', 'search', { entity });
  const key = { list_id: records[0]?.['list_id'], id: records[0]?.['id'] };
  await measure('search by a part of the key', 'search', { entity, filter: { eq: { id: key.id } } });
  await measure('get', 'get', { entity, key });
  await measure('explain', 'explain', { entity, key });
  await measure('changes, the last ten', 'changes', { entity, since: members - 10 });
  await measure('changes since a time', 'changes', { entity, since: '2026-01-01' });
  await measure('freshness', 'freshness', {});
  const view = `${benchConnector}__list_members_current`;
  await measure('sql, a sum by groups', 'sql', { sql: `SELECT status, count(*) FROM ${view} GROUP BY 1` });
} finally {
  rmSync(folder, { recursive: true, force: true });
}
