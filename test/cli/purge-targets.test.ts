import { appendFileSync, readdirSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import pg from 'pg';
import { afterEach, describe, expect, it, onTestFinished } from 'vitest';
import { openCliWorld, type CliWorld } from '../support/cli-world.ts';
import { filesWith } from '../support/files-with.ts';
import { searchable } from '../support/service/store-world.ts';
import { sharedPostgres } from '../support/postgres.ts';
import { askDuckdbFile } from '../support/publish/read-duckdb-file.ts';
import { jsonLines } from '../support/run-cli.ts';

let world: CliWorld;

afterEach(() => world[Symbol.asyncDispose]());

async function published(targets: string): Promise<{ readonly key: string; readonly subject: string }> {
  world = await openCliWorld({ settings: '    include: [lists, campaigns]\n' });
  appendFileSync(world.config, `publish:\n${targets}`);
  await world.json('sync', 'newsletter');
  world.moveTo(2);
  await world.json('sync', 'newsletter', '--full');
  const all = jsonLines(await world.cli('export', 'newsletter/campaigns'));
  const found = all.find((row) => row['_op'] === 'upsert' && typeof row['settings'] === 'object');
  const settings = found?.['settings'] as { readonly subject_line?: string } | undefined;
  return { key: `id=${String(found?.['id'])}`, subject: String(settings?.subject_line) };
}

describe('purge of what was published', () => {
  // Proves promise 21.1
  it('replaces every older publication of files by one without the record', async () => {
    const { key, subject } = await published('  lake: { type: files, directory: ./lake, format: jsonl }\n');
    const lake = join(world.folder, 'lake');
    expect(readdirSync(join(lake, '_publications')).length).toBeGreaterThan(1);
    const subjects = jsonLines(await world.cli('export', 'newsletter/campaigns')).filter((row) =>
      JSON.stringify(row).includes(subject),
    );
    expect(subjects).toHaveLength(1);
    expect(filesWith(lake, subject).length).toBeGreaterThan(0);
    const [done] = await world.json('purge', 'newsletter/campaigns', '--key', key);
    expect(done).toMatchObject({ report: { targets: [{ target: 'lake', problem: null }] } });
    expect(filesWith(world.folder, subject)).toEqual([]);
    expect(readdirSync(join(lake, '_publications'))).toHaveLength(1);
    expect(await world.json('publish', 'check', 'lake')).toMatchObject([{ problems: [] }]);
    const [next] = await world.json('publish', 'lake');
    expect(next).toMatchObject({ result: 'unchanged' });
  });

  // Proves promise 21.1
  it('leaves no byte in a file of DuckDB, free blocks included', async () => {
    world = await openCliWorld({ size: { members: 300 }, settings: '    include: [lists, list_members]\n' });
    appendFileSync(world.config, 'publish:\n  desk: { type: duckdb, path: ./desk.duckdb }\n');
    await world.json('sync', 'newsletter');
    const members = jsonLines(await world.cli('export', 'newsletter/list_members'));
    const emails = members.map((row) => String(row['email_address']));
    const desk = join(world.folder, 'desk.duckdb');
    const held = (): readonly string[] => {
      const bytes = readFileSync(desk);
      return emails.filter((email) => bytes.includes(email));
    };
    expect(held()).toHaveLength(emails.length);
    const where = '{"like": {"email_address": "%"}}';
    const [done] = await world.json('purge', 'newsletter', '--where', where);
    expect(done).toMatchObject({ report: { targets: [{ target: 'desk', problem: null }] } });
    expect(held()).toEqual([]);
    expect(await askDuckdbFile(desk, 'SELECT count(*)::INTEGER AS n FROM newsletter.lists')).not.toEqual([
      { n: 0 },
    ]);
    expect(await world.json('publish', 'check', 'desk')).toMatchObject([{ problems: [] }]);
  });

  it('leaves no row in tables of PostgreSQL', async () => {
    const { url } = await sharedPostgres();
    const { key, subject } = await published(
      `  mart: { type: postgres, url: "${url}", schema: purged_mart }\n`,
    );
    const client = new pg.Client({ connectionString: url });
    await client.connect();
    onTestFinished(() => client.end());
    const held = async (): Promise<number> => {
      const { rows } = await client.query<{ name: string }>(
        `SELECT oid::regclass::text AS name FROM pg_class
         WHERE relnamespace = 'purged_mart'::regnamespace AND relkind IN ('r', 'p', 'm')`,
      );
      let found = 0;
      for (const { name } of rows) {
        const sql = `SELECT count(*)::int AS n FROM ${name} AS t WHERE position($1 IN t::text) > 0`;
        found += (await client.query<{ n: number }>(sql, [subject])).rows[0]?.n ?? 0;
      }
      return found;
    };
    expect(await held()).toBeGreaterThan(0);
    const [done] = await world.json('purge', 'newsletter/campaigns', '--key', key);
    expect(done).toMatchObject({ report: { targets: [{ target: 'mart', problem: null }] } });
    expect(await held()).toBe(0);
  });

  it('names a target that it cannot clean, and ends with a code of its own', async () => {
    const { key } = await published(`  mart: { type: postgres, url: '\${MART_URL}', when: by-hand }\n`);
    const result = await world.cli('purge', 'newsletter/campaigns', '--key', key);
    expect(result).toMatchObject({
      code: 3,
      stdout: expect.stringContaining('Target mart may still hold them: ') as string,
    });
  });

  it('finds a person in the indexed store of serve also when the sink holds nothing of them', async () => {
    world = await openCliWorld({
      isIndexed: true,
      settings: '    include: [lists, campaigns, email_activity]\n',
    });
    await world.json('sync', 'newsletter');
    await searchable(world.service.stores, 'c-news');
    const [found] = jsonLines(await world.cli('export', 'newsletter/email_activity'));
    const email = String(found?.['email_address']);
    const purge = ['purge', 'newsletter', '--where', JSON.stringify({ eq: { email_address: email } })];
    const none = await world.cli(...purge, '--serve-data', 'nowhere');
    expect(none).toMatchObject({ code: 2, stderr: expect.stringContaining('Nothing was removed') as string });
    await world.json(...purge);
    const stores = join(world.folder, 'serve', 'stores');
    expect(filesWith(join(world.folder), email).map((path) => basename(path))).toContain('c-news.db');
    const [again] = await world.json(...purge, '--serve-data', 'serve');
    expect(again).toMatchObject({
      report: { records: [], store: { rows: expect.any(Number) as number, left: 0, problem: null } },
    });
    expect(filesWith(stores, email)).toEqual([]);
    const all = await world.cli('search', 'newsletter/email_activity', '--remote', '--all');
    expect(all.stdout).toContain('campaign_id');
    expect(all.stdout).not.toContain(email);
  });
});
