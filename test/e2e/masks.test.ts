import type { DuckDBValue } from '@duckdb/node-api';
import { randomBytes } from 'node:crypto';
import { appendFileSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { openCliWorld, type CliWorld } from '../support/cli-world.ts';
import {
  foundIn,
  markedAccount,
  marked,
  maskedMembers,
  maskWithout,
  openMarks,
  type Marks,
} from '../support/masks/marked-world.ts';
import { startReceiver } from '../support/notify/receiver.ts';
import { serveUi } from '../support/page/served-ui.ts';
import { duckdb, identifier, literal } from '../support/publish/duckdb.ts';
import { askDuckdbFile } from '../support/publish/read-duckdb-file.ts';
import { redisContents } from '../support/redis-contents.ts';
import { startRedis } from '../support/redis.ts';
import { startWorkerProcess } from '../support/worker-process.ts';
import { isLong, triedSinks } from '../support/trials.ts';

async function openMaskedWorld(
  sink: (typeof triedSinks)[number],
  marks: Marks,
  mask: string,
  { redisUrl, more = '' }: { readonly redisUrl?: string; readonly more?: string } = {},
): Promise<CliWorld> {
  const world = await openCliWorld({
    sink,
    ...(isLong ? { size: { members: marked } } : {}),
    ...(redisUrl === undefined ? {} : { redisUrl }),
    wrap: markedAccount(marks),
    settings: mask,
  });
  const other = ', other: { type: sqlite, path: ./other.db, durability: normal } }';
  writeFileSync(world.config, readFileSync(world.config, 'utf8').replace(/^(sinks: .*) \}$/m, `$1${other}`));
  appendFileSync(
    world.config,
    `mask: { key: "${randomBytes(32).toString('base64')}" }
${more}publish:
  lake: { type: files, directory: ./lake, format: jsonl, connectors: [newsletter] }
  sheets: { type: files, directory: ./sheets, format: csv, connectors: [newsletter], when: by-hand }
  columns: { type: files, directory: ./columns, format: parquet, connectors: [newsletter], when: by-hand }
  desk: { type: duckdb, path: ./desk.duckdb, connectors: [newsletter], when: by-hand }
`,
  );
  return world;
}

/** Runs everything that stores or shows records; gives all that was printed. */
async function useEverything(world: CliWorld): Promise<string> {
  const printed: string[] = [];
  const run = async (...args: readonly string[]): Promise<string> => {
    const { code, stdout, stderr } = await world.cli(...args);
    printed.push(`${args.join(' ')}: ${code}`, stdout, stderr);
    return stdout;
  };
  await run('sync', 'newsletter', '--max-calls', '4', '--verbose');
  await run('sync', 'newsletter', '--verbose');
  world.moveTo(3);
  await run('sync', 'newsletter', '--full', '--allow-deletes', '--json');
  const members = await run('export', 'newsletter/list_members');
  const key = /"list_id":"([^"]+)"/.exec(members)?.[1] ?? '';
  const id = /"id":"([^"]+)"/.exec(members)?.[1] ?? '';
  await run('explain', 'newsletter/list_members', '--key', `list_id=${key}`, '--key', `id=${id}`, '--json');
  await run('list', 'newsletter/list_members', '--param', `list_id=${key}`);
  await run(
    'get',
    'newsletter/list_members',
    '--param',
    `list_id=${key}`,
    '--param',
    `subscriber_hash=${id}`,
  );
  await run('search', 'newsletter/list_members', '--json');
  await run('audit', 'newsletter/list_members', '--json');
  await run(
    'definitions',
    'try',
    'email-marketing',
    'list_members',
    '--param',
    `list_id=${key}`,
    '--connector',
    'newsletter',
    '--json',
  );
  await run('status', '--json', '--verbose');
  await run('check', '--json');
  for (const target of ['lake', 'sheets', 'columns', 'desk']) await run('publish', target, '--json');
  await run('schema', 'diff', 'newsletter');
  printed.push(await compressedRows(world.folder));
  await run('refetch', 'newsletter/list_members', '--key', `list_id=${key}`, '--key', `id=${id}`);
  const [, deleting = ''] = /"run":"([^"]+)"[^\n]*"outcome"/.exec(printed.join('\n')) ?? [];
  await run('undelete', 'newsletter', '--run', deleting, '--json');
  await run('purge', 'newsletter', '--unmasked', '--dry-run');
  printed.push(await pagesOf(world, `${key}/${id}`));
  await run('copy', '--from', 'main', '--to', 'other', 'newsletter', '--json');
  return printed.join('\n');
}

/** What compressed files of targets hold: their bytes say nothing. */
async function compressedRows(folder: string): Promise<string> {
  const parquet = readdirSync(join(folder, 'columns'), { recursive: true, encoding: 'utf8' }).filter((name) =>
    name.endsWith('.parquet'),
  );
  expect(parquet.length).toBeGreaterThan(0);
  const found: (readonly Readonly<Record<string, DuckDBValue>>[])[] = [];
  for (const name of parquet) {
    found.push(await duckdb(`SELECT * FROM read_parquet(${literal(join(folder, 'columns', name))})`));
  }
  const desk = join(folder, 'desk.duckdb');
  const tables = await askDuckdbFile(
    desk,
    'SELECT table_schema AS s, table_name AS t FROM information_schema.tables',
  );
  expect(tables.length).toBeGreaterThan(0);
  for (const { s, t } of tables) {
    found.push(await askDuckdbFile(desk, `SELECT * FROM ${identifier(String(s))}.${identifier(String(t))}`));
  }
  return found.flatMap((rows) => rows.flatMap((row) => Object.values(row).map(String))).join('\n');
}

/** Answers of the pages about the connector, its runs and a record. */
async function pagesOf(world: CliWorld, key: string): Promise<string> {
  await using ui = await serveUi({ config: world.config, env: world.env });
  const [first, second] = key.split('/');
  const start = await ui.get('/');
  const links = new Set(['/connectors/newsletter', ...hrefsOf(start.body)]);
  const bodies = [start.body];
  for (const link of links) {
    const { body } = await ui.get(link);
    bodies.push(body);
    for (const inner of hrefsOf(body)) if (links.size < 40) links.add(inner);
  }
  expect(bodies.join('\n')).toContain('list_members');
  const record = await ui.get(
    `/record?in=newsletter/list_members&key.list_id=${String(first)}&key.id=${String(second)}`,
  );
  expect(record.body).toContain(String(second));
  return [...bodies, record.body].join('\n');
}

function hrefsOf(body: string): readonly string[] {
  return [...body.matchAll(/href="(\/[^"#]*)"/g)].flatMap(([, href = '']) =>
    href.includes('.css') || href.includes('.js') ? [] : [href.replaceAll('&amp;', '&')],
  );
}

// Proves promise 10.5
it.each(triedSinks)('stores and shows no masked value anywhere (%s)', { timeout: 300_000 }, async (sink) => {
  const marks = openMarks();
  await using world = await openMaskedWorld(sink, marks, maskWithout(null));
  const printed = await useEverything(world);
  expect(marks.values().length).toBeGreaterThan(200);
  expect([...(await foundIn(world, sink, printed, marks.values()))]).toEqual([]);
});

const places = [
  ...Object.keys(maskedMembers).filter((path) => !path.startsWith('merge_fields')),
  'activity.ip',
];

it.each(isLong ? places : ['contacts.email'])(
  'has values found by that search where the mask leaves out %s',
  { timeout: 300_000 },
  async (left) => {
    const marks = openMarks();
    await using world = await openMaskedWorld('sqlite', marks, maskWithout(left));
    const { stdout } = await world.cli('sync', 'newsletter');
    const found = await foundIn(world, 'sqlite', stdout, marks.values());
    expect([...found.keys()].toSorted()).toEqual(marks.at(left).toSorted());
  },
);

// Proves promise 10.5
it('lets no masked value into Redis, a log of a worker or a message', { timeout: 300_000 }, async () => {
  await using redis = await startRedis();
  await using receiver = await startReceiver();
  const marks = openMarks();
  const more = `allowNotifyHosts: ["${receiver.host}"]\nnotify:\n  ops: { type: webhook, url: "${receiver.url}" }\n`;
  await using world = await openMaskedWorld(
    'sqlite',
    marks,
    `${maskWithout(null)}    schedule: { every: 1h }\n`,
    {
      redisUrl: redis.url,
      more,
    },
  );
  const worker = startWorkerProcess(world);
  await worker.until(({ msg }) => msg === 'published');
  await receiver.arrived(1);
  const contents = await redisContents(redis.url);
  expect(contents).toContain('newsletter');
  worker.child.kill('SIGTERM');
  await worker.ended;
  const seen = [contents, JSON.stringify(worker.lines), ...worker.stray, JSON.stringify(receiver.received)];
  expect(receiver.bodies()).toMatchObject([{ kind: 'incomplete', connector: 'newsletter' }]);
  expect([...(await foundIn(world, 'sqlite', seen.join('\n'), marks.values()))]).toEqual([]);
});
