import Database from 'better-sqlite3';
import { randomBytes, randomUUID } from 'node:crypto';
import { appendFileSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'vitest';
import type { DuckDBValue } from '@duckdb/node-api';
import type { SampleSize } from '../../../src/sample/sample-account.ts';
import { openCliWorld, type CliWorld } from '../cli-world.ts';
import { openMcpClient } from '../mcp-client.ts';
import { serveUi } from '../page/served-ui.ts';
import { askPostgres, sharedPostgres } from '../postgres.ts';
import { duckdb, identifier, literal, askDuckdbFile } from '../publish/read-tables.ts';
import { fakeBucket, fakeKey, startFakeS3 } from '../publish/fake-s3.ts';
import type { triedSinks } from '../trials.ts';
import { markedAccount, type Marks } from './marked-world.ts';

type SinkKind = (typeof triedSinks)[number];

/** Something that was stored or shown. */
export interface Seen {
  readonly place: string;
  readonly text: string;
}

interface MaskedWorldOptions {
  readonly redisUrl?: string;
  /** More of the config. */
  readonly more?: string;
  readonly size?: SampleSize;
  /** Published into a bucket and a PostgreSQL, too. */
  readonly hasServers?: boolean;
}

type MaskedWorld = Awaited<ReturnType<typeof openMaskedWorld>>;

/** The marked account below a mask (YAML of the connector), and a target of each kind. */
export async function openMaskedWorld(
  sink: SinkKind,
  marks: Marks,
  mask: string,
  { redisUrl, more = '', size = 'tiny', hasServers = false }: MaskedWorldOptions = {},
) {
  const world = await openCliWorld({
    sink,
    size,
    ...(redisUrl === undefined ? {} : { redisUrl }),
    wrap: markedAccount(marks),
    settings: `${sink === 'jsonl' ? '' : '    history: true\n'}${mask}`,
  });
  const bucket = hasServers ? await startFakeS3() : null;
  const schema = `mart_${randomUUID().replaceAll('-', '')}`;
  const martUrl = hasServers ? (await sharedPostgres()).url : null;
  const { accessKeyId, secretAccessKey } = fakeKey;
  const s3 = { type: 's3', bucket: fakeBucket, endpoint: bucket?.endpoint, accessKeyId, secretAccessKey };
  const byHand = 'connectors: [newsletter], when: by-hand }';
  const servers = `  bucket: ${JSON.stringify({ ...s3, format: 'jsonl', connectors: ['newsletter'], when: 'by-hand' })}
  mart: { type: postgres, url: "${martUrl}", schema: ${schema}, ${byHand}
`;
  const other = ', other: { type: sqlite, path: ./other.db, durability: normal } }';
  writeFileSync(world.config, readFileSync(world.config, 'utf8').replace(/^(sinks: .*) \}$/m, `$1${other}`));
  appendFileSync(
    world.config,
    `mask: { key: "${randomBytes(32).toString('base64')}" }
${more}publish:
  lake: { type: files, directory: ./lake, format: jsonl, connectors: [newsletter] }
  sheets: { type: files, directory: ./sheets, format: csv, ${byHand}
  columns: { type: files, directory: ./columns, format: parquet, ${byHand}
  desk: { type: duckdb, path: ./desk.duckdb, ${byHand}
${hasServers ? servers : ''}`,
  );
  return {
    ...world,
    sink,
    targets: ['lake', 'sheets', 'columns', 'desk', ...(hasServers ? ['bucket', 'mart'] : [])],
    bucket,
    mart: martUrl === null ? null : { url: martUrl, schema },
    [Symbol.asyncDispose]: async () => {
      await bucket?.[Symbol.asyncDispose]();
      await world[Symbol.asyncDispose]();
    },
  };
}

/** Runs everything that stores or shows records; gives all that was shown, and what compressed places hold. */
export async function useEverything(world: MaskedWorld): Promise<readonly Seen[]> {
  const seen: Seen[] = [];
  const run = async (...args: readonly string[]): Promise<string> => {
    const { code, stdout, stderr } = await world.cli(...args);
    const place = args[0] === 'definitions' ? 'definitions try' : String(args[0]);
    seen.push({ place, text: `${args.join(' ')}: ${code}\n${stdout}\n${stderr}` });
    return stdout;
  };
  await run('sync', 'newsletter', '--max-calls', '4', '--verbose');
  await run('sync', 'newsletter', '--verbose');
  world.moveTo(3);
  const deleting = await run('sync', 'newsletter', '--full', '--allow-deletes', '--json');
  const entity = 'newsletter/list_members';
  const members = await run('export', entity);
  const list = /"list_id":"([^"]+)"/.exec(members)?.[1] ?? '';
  const id = /"id":"([^"]+)"/.exec(members)?.[1] ?? '';
  const key = ['--key', `list_id=${list}`, '--key', `id=${id}`];
  const ofList = ['--param', `list_id=${list}`];
  await run('explain', entity, ...key, '--json');
  await run('list', entity, ...ofList);
  await run('get', entity, ...ofList, '--param', `subscriber_hash=${id}`);
  await run('search', entity, '--json');
  await run('search', entity, '--filter', '{"like": {"email_address": "%a%"}}', '--json');
  await run('audit', entity, '--json');
  const tried = ['try', 'email-marketing', 'list_members', ...ofList, '--connector', 'newsletter', '--json'];
  await run('definitions', ...tried);
  await run('status', '--json', '--verbose');
  await run('runs', '--json');
  await run('check', '--json');
  for (const target of world.targets) await run('publish', target, '--json');
  await run('schema', 'diff', 'newsletter');
  await run('refetch', entity, ...key);
  const [, deletingRun = ''] = /"run":"([^"]+)"[^\n]*"outcome"/.exec(deleting) ?? [];
  await run('undo', 'newsletter', '--run', deletingRun, '--json');
  await run('purge', 'newsletter', '--unmasked', '--dry-run');
  seen.push({ place: 'pages', text: await pagesOf(world, { list_id: list, id }) });
  seen.push({ place: 'mcp', text: await agentAnswers(world, { list_id: list, id }) });
  await run('copy', '--from', 'main', '--to', 'other', 'newsletter', '--json');
  return [...seen, ...(await compressedRows(world.folder)), ...(await rowsOfServers(world))];
}

/** What compressed files of targets hold: their bytes say nothing. */
async function compressedRows(folder: string): Promise<readonly Seen[]> {
  const parquet = readdirSync(join(folder, 'columns'), { recursive: true, encoding: 'utf8' }).filter((name) =>
    name.endsWith('.parquet'),
  );
  expect(parquet.length).toBeGreaterThan(0);
  const seen: Seen[] = [];
  const add = (place: string, rows: readonly Readonly<Record<string, DuckDBValue>>[]): void =>
    void seen.push({ place, text: rows.flatMap((row) => Object.values(row).map(String)).join('\n') });
  for (const name of parquet) {
    const file = literal(join(folder, 'columns', name));
    add('rows of columns', await duckdb(`SELECT * FROM read_parquet(${file})`));
  }
  const desk = join(folder, 'desk.duckdb');
  const tablesSql = 'SELECT table_schema AS s, table_name AS t FROM information_schema.tables';
  const tables = await askDuckdbFile(desk, tablesSql);
  expect(tables.length).toBeGreaterThan(0);
  for (const { s, t } of tables) {
    const table = `${identifier(String(s))}.${identifier(String(t))}`;
    add('rows of desk', await askDuckdbFile(desk, `SELECT * FROM ${table}`));
  }
  return seen;
}

/** What a bucket and a PostgreSQL target have got. */
async function rowsOfServers({ bucket, mart }: MaskedWorld): Promise<readonly Seen[]> {
  if (bucket === null || mart === null) return [];
  expect(bucket.objects.size).toBeGreaterThan(0);
  const objects = [...bucket.objects].map(([key, { body }]) => `${key} ${body.toString('latin1')}`);
  const requests = bucket.requests.map((request) => JSON.stringify([request.key, request.headers]));
  const tables = await askPostgres(
    mart.url,
    `SELECT oid::regclass::text AS name FROM pg_class WHERE relkind = 'r' AND relnamespace = '${mart.schema}'::regnamespace`,
  );
  expect(tables.length).toBeGreaterThan(0);
  const rows: string[] = [];
  for (const { name } of tables) {
    const found = await askPostgres(mart.url, `SELECT to_json(t)::text AS row FROM ${String(name)} AS t`);
    rows.push(...found.map(({ row }) => String(row)));
  }
  return [
    { place: 'bucket', text: Buffer.from([...objects, ...requests].join('\n'), 'latin1').toString('utf8') },
    { place: 'rows of mart', text: rows.join('\n') },
  ];
}

/** Answers of the pages about the connector, its runs and a record. */
async function pagesOf(world: CliWorld, key: Readonly<Record<string, string>>): Promise<string> {
  await using ui = await serveUi({ config: world.config, env: world.env });
  const start = await ui.get('/');
  const links = new Set(['/connectors/newsletter', ...hrefsOf(start.body)]);
  const bodies = [start.body];
  for (const link of links) {
    const { body } = await ui.get(link);
    bodies.push(body);
    for (const inner of hrefsOf(body)) if (links.size < 40) links.add(inner);
  }
  expect(bodies.join('\n')).toContain('list_members');
  const query = Object.entries(key).map(([name, value]) => `key.${name}=${value}`);
  const record = await ui.get(`/record?in=newsletter/list_members&${query.join('&')}`);
  expect(record.body).toContain(key['id'] ?? '-');
  return [...bodies, record.body].join('\n');
}

function hrefsOf(body: string): readonly string[] {
  return [...body.matchAll(/href="(\/[^"#]*)"/g)].flatMap(([, href = '']) =>
    href.includes('.css') || href.includes('.js') ? [] : [href.replaceAll('&amp;', '&')],
  );
}

/** What agents are answered, and what their server logs. */
async function agentAnswers(world: MaskedWorld, key: Readonly<Record<string, string>>): Promise<string> {
  await using mcp = await openMcpClient(world);
  const entity = 'newsletter/list_members';
  // Lines cannot be searched.
  const search = async (asked: Record<string, unknown>): Promise<unknown> =>
    await (world.sink === 'jsonl' ? mcp.refusal('search', asked) : mcp.call('search', asked));
  const answers = [
    await mcp.call('list_entities'),
    await mcp.call('list_entities', { name: entity }),
    await search({ entity, limit: 20 }),
    await search({ entity: 'newsletter/email_activity', limit: 20 }),
    await mcp.call('get', { entity, key }),
    await mcp.call('explain', { entity, key }),
    await mcp.call('changes', { entity, since: 0, limit: 20 }),
    await mcp.call('freshness', { connector: 'newsletter' }),
    await mcp.refusal('get', { entity, key: { id: 'none' } }),
  ];
  return JSON.stringify([answers, mcp.logged()]);
}

/** The tables of a SQLite sink one by one. */
export function tablesOf(file: string): readonly Seen[] {
  const db = new Database(file, { readonly: true });
  try {
    const names = db
      .prepare(`SELECT name FROM sqlite_schema WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%'`)
      .all() as readonly { readonly name: string }[];
    return names.map(({ name }) => ({
      place: `table ${name}`,
      text: db
        .prepare(`SELECT * FROM ${identifier(name)}`)
        .raw()
        .all()
        .flatMap((row) =>
          (row as readonly unknown[]).map((value) =>
            value instanceof Buffer ? value.toString('latin1') : String(value),
          ),
        )
        .join('\n'),
    }));
  } finally {
    db.close();
  }
}
