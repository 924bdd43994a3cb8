import Database from 'better-sqlite3';
import { loadDefinitions } from '../src/definitions/load-definitions.ts';
import type { EntityName } from '../src/core/names.ts';

/**
 * The baseline, as written in an hour: fetch, parse, upsert a page in one transaction, WAL; no retries, no checkpoints, no
 * reports. `node bare-script.js <base url> <database> <synchronous>`; prints its result as JSON.
 */
const [baseUrl = '', path = '', synchronous = 'NORMAL'] = process.argv.slice(2);
const members = loadDefinitions(['config/definitions'])
  .get('email-marketing')
  ?.entities.get('list_members' as EntityName);
if (members === undefined) throw new Error('no definition of list_members');
const { columns } = members.table;

const startedMs = performance.now();
const db = new Database(path);
db.pragma('journal_mode = WAL');
db.pragma(`synchronous = ${synchronous}`);
db.exec(
  `CREATE TABLE IF NOT EXISTS members (${columns.map(({ name, type }) => `"${name}" ${type === 'integer' || type === 'boolean' ? 'INTEGER' : type === 'number' ? 'REAL' : 'TEXT'}`).join(', ')}, PRIMARY KEY (list_id, id))`,
);
const upsert = db.prepare(
  `INSERT INTO members (${columns.map(({ name }) => `"${name}"`).join(', ')}) VALUES (${columns.map(() => '?').join(', ')})
   ON CONFLICT (list_id, id) DO UPDATE SET ${columns.map(({ name }) => `"${name}" = excluded."${name}"`).join(', ')}`,
);
const store = db.transaction((records: readonly Record<string, unknown>[]) => {
  for (const record of records) {
    upsert.run(
      columns.map(({ name }) => {
        const value = record[name] ?? null;
        if (typeof value === 'boolean') return Number(value);
        return typeof value === 'object' && value !== null ? JSON.stringify(value) : value;
      }),
    );
  }
});

const credentials = { client_id: 'bench', client_secret: 'bench' };
const token = String((await post('/api/v1/account/applications/token', credentials, ''))['access_token']);
let rows = 0;
for (let offset = 0; ; offset += 1000) {
  const page = await post(
    '/api/v1/integrations/connectors/bench/execute',
    {
      entity: 'list_members',
      action: 'list',
      params: { list_id: 'bench', count: 1000, offset },
    },
    token,
  );
  const records = page['result'] as readonly Record<string, unknown>[];
  store(records);
  rows += records.length;
  if (records.length < 1000) break;
}
db.close();
const { userCPUTime, systemCPUTime, maxRSS } = process.resourceUsage();
const result = {
  rows,
  written: rows,
  ms: performance.now() - startedMs,
  cpuMs: (userCPUTime + systemCPUTime) / 1000,
  rssMiB: maxRSS / 1024,
};
process.stdout.write(`${JSON.stringify(result)}\n`);

async function post(route: string, body: object, bearer: string): Promise<Record<string, unknown>> {
  const response = await fetch(baseUrl + route, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${bearer}` },
    body: JSON.stringify(body),
  });
  return (await response.json()) as Record<string, unknown>;
}
