import { appendFileSync, copyFileSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import pg from 'pg';
import { afterEach, describe, expect, it, onTestFinished } from 'vitest';
import { systemClock } from '../../src/core/clock.ts';
import type { ConnectorName, EntityName } from '../../src/core/names.ts';
import { openDuckdbTarget } from '../../src/publish/duckdb/duckdb-target.ts';
import { openSink } from '../../src/sinks/registry.ts';
import { openCliWorld, type CliWorld } from '../support/cli-world.ts';
import { filesWith } from '../support/files-with.ts';
import { serveUi } from '../support/page/served-ui.ts';
import { sharedPostgres } from '../support/postgres.ts';
import { fakeKey, fakePlace, startFakeS3 } from '../support/publish/fake-s3.ts';
import { useOwnTemp } from '../support/publish/own-temp.ts';
import { askDuckdbFile } from '../support/publish/read-duckdb-file.ts';
import { openStore } from '../support/publish/s3-place.ts';
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
    expect(done).toMatchObject({ targets: [{ target: 'lake', problem: null }] });
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
    expect(done).toMatchObject({ targets: [{ target: 'desk', problem: null }] });
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
    expect(done).toMatchObject({ targets: [{ target: 'mart', problem: null }] });
    expect(await held()).toBe(0);
  });

  // Proves promise 21.1
  it('removes what killed publishers left in a folder, however young', async () => {
    const { key, subject } = await published('  lake: { type: files, directory: ./lake, format: jsonl }\n');
    const lake = join(world.folder, 'lake');
    // As of a publisher that was killed: staged, and with its name, of the next publication.
    const [path = ''] = filesWith(lake, subject);
    const next = basename(path).replace(/^\d{8}(.*)-[0-9a-f]{8}/, '00000003$1-0a1b2c3d');
    copyFileSync(path, join(dirname(path), next));
    copyFileSync(path, join(dirname(path), `.${next}.staged.partial`));
    await world.json('purge', 'newsletter/campaigns', '--key', key);
    expect(filesWith(world.folder, subject)).toEqual([]);
    expect(readdirSync(dirname(path)).filter((name) => name.includes('0a1b2c3d'))).toEqual([]);
  });

  // Proves promise 21.1
  it('removes what killed publishers left of a bucket: parts, objects, staged files', async () => {
    useOwnTemp();
    await using fake = await startFakeS3();
    const { endpoint, ...place } = fakePlace(fake.endpoint);
    const settings = { type: 's3', endpoint, bucket: place.bucket, prefix: place.prefix, format: 'jsonl' };
    const { key, subject } = await published(`  lake: ${JSON.stringify({ ...settings, ...fakeKey })}\n`);
    const held = (): readonly string[] =>
      [...fake.objects].flatMap(([name, { body }]) => (body.includes(subject) ? [name] : []));
    const [name = ''] = held();
    const next = name.replace(/\d{8}([^/]*)-[0-9a-f]{8}/, '00000003$1-0a1b2c3d');
    fake.objects.set(next, { body: Buffer.from(subject), modifiedAtMs: Date.now() });
    fake.uploads.set('killed', { key: next, startedMs: Date.now(), parts: new Map() });
    const killed = await openStore(fakePlace(fake.endpoint));
    writeFileSync(await killed.stage(next.slice(`${place.prefix}/`.length)), subject);
    await world.json('purge', 'newsletter/campaigns', '--key', key);
    expect(held()).toEqual([]);
    expect(fake.uploads.size).toBe(0);
    expect(filesWith(tmpdir(), subject)).toEqual([]);
  });

  // Proves promise 21.1
  it('removes the half-made copy of a DuckDB file that a killed publisher left', async () => {
    const { key } = await published('  desk: { type: duckdb, path: ./desk.duckdb }\n');
    const path = join(world.folder, 'desk.duckdb');
    const { signal } = new AbortController();
    await using target = openDuckdbTarget({ path, keepMs: null, clock: systemClock, signal });
    const copies = (): readonly string[] =>
      readdirSync(world.folder).filter((name) => name.includes('.new-'));
    {
      await using _begun = await target.begin(3);
      const [copy = ''] = copies();
      copyFileSync(path, join(world.folder, copy.replace(/.{8}$/, '0a1b2c3d')));
    }
    expect(copies()).toHaveLength(1);
    await world.json('publish', 'prune', 'desk');
    // It may be one that is under way.
    expect(copies()).toHaveLength(1);
    await world.json('purge', 'newsletter/campaigns', '--key', key);
    expect(copies()).toEqual([]);
  });

  it('names a target that it cannot clean, and ends with a code of its own', async () => {
    const { key } = await published(`  mart: { type: postgres, url: '\${MART_URL}', when: by-hand }\n`);
    const result = await world.cli('purge', 'newsletter/campaigns', '--key', key);
    expect(result).toMatchObject({
      code: 3,
      stdout: expect.stringContaining('Target mart may still hold what was purged: ') as string,
    });
  });

  // Proves promise 21.4
  it.each([
    ['files', 'prune newsletter', '{ type: files, directory: ./lake, format: jsonl, when: by-hand }'],
    ['duckdb', 'publish lake', '{ type: duckdb, path: ./lake.duckdb, when: by-hand }'],
    ['postgres', 'publish prune lake', ''],
  ])(
    'killed in front of a target of type %s is unfinished in every report, and "%s" finishes it',
    async (...of) => {
      const [type, command, settings] = of;
      const { url } = await sharedPostgres();
      const mart = `{ type: postgres, url: "${url}", schema: half_purged, when: by-hand }`;
      const { key } = await published(`  lake: ${type === 'postgres' ? mart : settings}\n`);
      await world.json('publish', 'lake');
      expect(JSON.stringify(await world.json('status', 'newsletter'))).not.toContain('target:lake');
      await purgeSinkAlone(key);
      const told = 'target lake may still hold what was purged';
      for (const asked of [['status', 'newsletter'], ['publish', 'status', 'lake'], ['check']]) {
        expect((await world.cli(...asked)).stdout.replaceAll(/\s+/g, ' ')).toContain(told);
      }
      await using ui = await serveUi(world);
      expect((await ui.get('/')).body).toContain('A purge is not finished');
      expect(await world.cli(...command.split(' '))).toMatchObject({
        code: 0,
        stdout: expect.stringContaining('is without what was purged') as string,
      });
      expect((await world.cli('status', 'newsletter')).stdout).not.toContain('purged');
      expect(await world.json('publish', 'status', 'lake')).toMatchObject([
        { publication: 2, unfinishedPurges: [] },
      ]);
    },
  );

  /** As if the process was killed behind the sink. */
  async function purgeSinkAlone(key: string): Promise<void> {
    const path = join(world.folder, 'main.db');
    const options = { name: 'main', type: 'sqlite', path, durability: 'normal' } as const;
    await using sink = await openSink(options, { clock: systemClock });
    const keyTexts = [JSON.stringify([key.slice('id='.length)])];
    await sink.purges.purge('newsletter' as ConnectorName, {
      of: [{ entity: 'campaigns' as EntityName, keyTexts }],
      canReturn: false,
      targets: ['lake'],
      removeFile: () => Promise.resolve(),
      signal: new AbortController().signal,
    });
  }

  it('stays unfinished while the target is not in the config, and says so', async () => {
    const { key } = await published('  lake: { type: files, directory: ./lake, when: by-hand }\n');
    await purgeSinkAlone(key);
    const config = readFileSync(world.config, 'utf8');
    writeFileSync(world.config, config.slice(0, config.indexOf('publish:')));
    const without = await world.cli('prune', 'newsletter');
    expect(without).toMatchObject({
      code: 3,
      stdout: expect.stringContaining('Name it in the config again') as string,
    });
    writeFileSync(world.config, config);
    expect(await world.cli('prune', 'newsletter')).toMatchObject({ code: 0 });
    expect((await world.cli('status', 'newsletter')).stdout).not.toContain('purged');
  });
});
