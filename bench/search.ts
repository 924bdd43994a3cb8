import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync, statSync } from 'node:fs';
import { cpus, loadavg, tmpdir } from 'node:os';
import path from 'node:path';
import Database from 'better-sqlite3';
import pg from 'pg';
import { benchConnector, fillMembers } from './member-sink.ts';
import { startPostgres } from '../test/support/postgres.ts';
import { systemClock } from '../src/core/clock.ts';
import type { JsonObject } from '../src/core/json.ts';
import type { EntityName } from '../src/core/names.ts';
import { loadDefinitions } from '../src/definitions/load-definitions.ts';
import { openPostgresSearch } from '../src/search/postgres-search.ts';
import { openSink } from '../src/sinks/registry.ts';
import type { SinkOptions } from '../src/sinks/sink-access.ts';
import { indexEntity } from '../src/search/sqlite-index.ts';
import { openSearchProcesses } from '../src/search/process/open-search-processes.ts';
import type { SearchAnswer } from '../src/search/search-request.ts';

/**
 * Searches list members: in a SQLite sink in a search process, as the service does with an index and the command
 * without one; in a PostgreSQL sink, a server of the bench's own, without trigram indexes and with them.
 * `npm run bench:search -- [members] [rounds] [sqlite|postgres] [copies]`. Times are medians. `copies`: so many times
 * fewer members are synced, and SQL copies their rows with other keys, which takes less time.
 */
const members = Number(process.argv[2] ?? 1_000_000);
const rounds = Number(process.argv[3] ?? 5);
const kind = process.argv[4] ?? 'sqlite';
const copies = Number(process.argv[5] ?? 1);
const { signal } = new AbortController();
const definition = loadDefinitions(['config/definitions']).get('email-marketing');
const entity = definition?.entities.get('list_members' as EntityName);
if (definition === undefined || entity === undefined) throw new Error('no list members in email-marketing');
const searched = { connector: benchConnector, entity };

const table = 'bench__list_members';

type Ask = (params: JsonObject) => Promise<SearchAnswer>;

const folder = mkdtempSync(path.join(tmpdir(), 'connector-sync-bench-'));
const file = path.join(folder, 'bench.db');
const lines: (readonly string[])[] = [];
try {
  await (kind === 'postgres' ? searchPostgres() : searchSqlite());
} finally {
  rmSync(folder, { recursive: true, force: true });
}
print();

async function searchSqlite(): Promise<void> {
  await fill({ type: 'sqlite', name: 'bench', path: file, durability: 'normal' });
  const db = new Database(file);
  db.exec(copySql(db.prepare(`SELECT name FROM pragma_table_info('${table}')`).pluck().all() as string[]));
  db.close();
  const plainMiB = sizeMiB();
  await using processes = openSearchProcesses({
    processes: 1,
    deadlineMs: 120_000,
    maxWaiting: 1,
    cursorKey: randomBytes(32),
    clock: systemClock,
  });
  const ask: Ask = async (params) =>
    await processes.search({ ...searched, file, scope: 'bench/list_members', params }, signal);
  await searches(ask, 'no index');
  const indexed = await timed(async () => indexEntity(file, benchConnector, searched.entity));
  const grown = `file ${plainMiB} MiB, ${sizeMiB() - plainMiB} MiB more`;
  lines.push(['index, first time', shown(indexed.ms), `${members}`, grown]);
  const again = await timed(async () => indexEntity(file, benchConnector, searched.entity));
  lines.push(['index, nothing new', shown(again.ms), '', '']);
  await searches(ask, 'index');
}

async function searchPostgres(): Promise<void> {
  await using server = await startPostgres({ config: { max_wal_size: '4GB' } });
  const { connection } = server;
  const place = { type: 'postgres', connection, direct: null, schema: 'bench', connections: 4 } as const;
  await fill({ ...place, name: 'bench', durability: 'normal' });
  const client = new pg.Client(server.url);
  await client.connect();
  try {
    await client.query('SET search_path = bench');
    const columns = await client.query<{ name: string }>(
      `SELECT attname AS name FROM pg_attribute WHERE attrelid = '${table}'::regclass AND attnum > 0`,
    );
    await client.query(copySql(columns.rows.map(({ name }) => name)));
    await client.query('VACUUM ANALYZE');
    await using opened = await openPostgresSearch(place);
    const options = { cursorKey: randomBytes(32), scope: 'bench', clock: systemClock, deadlineMs: 120_000 };
    const ask: Ask = async (params) => await opened.search(searched, params, { ...options, signal });
    await searches(ask, 'no index');
    const made = await timed(async () => {
      for (const sql of await opened.indexSql(searched, signal)) {
        if (!sql.includes(' INDEX ') || /"full_name"|"email_address"|"unique_email_id"/.test(sql)) {
          await client.query(sql);
        }
      }
    });
    lines.push(['trigram indexes of three columns', shown(made.ms), '', '']);
    await client.query('VACUUM ANALYZE');
    await searches(ask, 'index');
  } finally {
    await client.end();
  }
}

/** Each row again, with other values where none may be there twice. */
function copySql(columns: readonly string[]): string {
  const step = Math.ceil(members / copies);
  const shifted = new Set(['_row', '_seq', 'web_id']);
  const unique = new Set(['id', 'email_address', 'unique_email_id', 'contact_id']);
  const cells = columns.map((name) => {
    if (shifted.has(name)) return `"${name}" + n * ${step}`;
    if (name === '_key') return 'sha256(_key || CAST(CAST(n AS text) AS bytea))';
    return unique.has(name) ? `"${name}" || n` : `"${name}"`;
  });
  const names = columns.map((name) => `"${name}"`).join(', ');
  return `WITH RECURSIVE g (n) AS (SELECT 1 WHERE 1 < ${copies} UNION ALL SELECT n + 1 FROM g WHERE n + 1 < ${copies})
    INSERT INTO ${table} (${names}) SELECT ${cells.join(', ')} FROM g, ${table}`;
}

async function fill(options: SinkOptions): Promise<void> {
  if (definition === undefined) throw new Error('no definition');
  const synced = await timed(async () => {
    await using sink = await openSink(options, { clock: systemClock });
    await fillMembers(sink, definition, Math.ceil(members / copies));
  });
  lines.push(['sync', shown(synced.ms), `${members}`, '']);
}

async function searches(search: Ask, how: string): Promise<void> {
  const ask: Ask = (params) => search({ limit: 100, ...params });
  lines.push([how, '', '', '']);
  const measure = async (name: string, params: JsonObject): Promise<SearchAnswer> => {
    const times: number[] = [];
    let answer = await ask(params);
    for (let round = 0; round < rounds; round += 1) {
      const { ms, result } = await timed(() => ask(params));
      times.push(ms);
      answer = result;
    }
    const more = answer.meta.has_more ? 'more' : '';
    lines.push([name, shown(median(times)), `${answer.data.length}`, more]);
    return answer;
  };
  const one = await middleRecord(ask);
  const [id, email] = [textOf(one, 'id'), textOf(one, 'email_address')];
  const [name = ''] = textOf(one, 'full_name').split(' ');
  await measure('everything, first 100', { query: {} });
  await measure('eq on the key', { query: { filter: { eq: { id } } } });
  await measure('eq on a text that many have', { query: { filter: { eq: { status: 'unsubscribed' } } } });
  await measure('keyword that one has', {
    query: { filter: { keyword: { unique_email_id: textOf(one, 'unique_email_id') } } },
  });
  await measure(`keyword that many have (${name})`, { query: { filter: { keyword: { full_name: name } } } });
  await measure('keyword that all have', { query: { filter: { keyword: { email_address: 'example' } } } });
  await measure('like, beginning of a text', {
    query: { filter: { like: { email_address: `${email.slice(0, 8)}%` } } },
  });
  await measure('like, anywhere in a text, none', {
    query: { filter: { like: { email_address: '%no such%' } } },
  });
  const sorted = { query: { sort: [{ last_changed: 'desc' }] } };
  const { meta } = await measure('sorted, first page', sorted);
  await measure('sorted, second page', { ...sorted, cursor: meta.cursor });
  const slip = name.slice(0, 2) + name.slice(3);
  await measure(`fuzzy, one word (${slip})`, { query: { filter: { fuzzy: { full_name: slip } } } });
  await measure('fuzzy, two words of an address', {
    query: { filter: { fuzzy: { email_address: `${slip} office` } } },
  });
  await measure('fuzzy without a match', { query: { filter: { fuzzy: { full_name: 'zyxwvutsr' } } } });
  await measure('eq and keyword, sorted', {
    query: {
      filter: { and: [{ eq: { status: 'subscribed' } }, { keyword: { full_name: name } }] },
      sort: [{ email_address: 'asc' }],
    },
  });
  await measure('inside an object', { query: { filter: { eq: { 'merge_fields.ADDRESS.zip': 'none' } } } });
}

async function middleRecord(ask: (params: JsonObject) => Promise<SearchAnswer>): Promise<JsonObject> {
  const after = 546_000_000 + Math.floor(members / 2);
  const { data } = await ask({ query: { filter: { gte: { web_id: after } } }, limit: 100 });
  const one = data.find((record) => /^[A-Z][a-z]{5,}/.test(textOf(record, 'full_name')));
  if (one === undefined) throw new Error('no member with a suitable name');
  return one;
}

function textOf(record: JsonObject, name: string): string {
  const value = record[name];
  return typeof value === 'string' ? value : '';
}

async function timed<Result>(
  work: () => Promise<Result>,
): Promise<{ readonly ms: number; readonly result: Result }> {
  const startedMs = performance.now();
  const result = await work();
  return { ms: performance.now() - startedMs, result };
}

function sizeMiB(): number {
  return Math.round(statSync(file).size / 1024 / 1024);
}

function shown(ms: number): string {
  return ms >= 10_000 ? `${(ms / 1000).toFixed(1)} s` : `${ms.toFixed(ms < 100 ? 1 : 0)} ms`;
}

function median(values: readonly number[]): number {
  return values.toSorted((left, right) => left - right)[Math.floor(values.length / 2)] ?? Number.NaN;
}

function print(): void {
  const load = loadavg()[0]?.toFixed(1) ?? '';
  process.stdout.write(
    `${members} members, ${rounds} rounds, ${cpus().length} cores (load ${load}), Node ${process.version}; medians\n\n`,
  );
  const head = ['', 'time', 'rows', ''];
  const all = [head, ...lines];
  const widths = head.map((_, column) => Math.max(...all.map((row) => row[column]?.length ?? 0)));
  for (const row of all) {
    const cells = row.map((cell, column) => {
      const width = widths[column] ?? 0;
      return column === 0 || column === 3 ? cell.padEnd(width) : cell.padStart(width);
    });
    process.stdout.write(`${cells.join('  ').trimEnd()}\n`);
  }
}
