import { appendFileSync, copyFileSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import pg from 'pg';
import { afterEach, describe, expect, it, onTestFinished } from 'vitest';
import { systemClock } from '../../src/core/clock.ts';
import type { ConnectorName, EntityName } from '../../src/core/names.ts';
import { openDuckdbTarget } from '../../src/publish/duckdb-target.ts';
import { openSink } from '../../src/sinks/registry.ts';
import { openCliWorld, type CliWorld } from '../support/cli-world.ts';
import { filesWith } from '../support/files-with.ts';
import { killAtMessage, startPostgresProxy } from '../support/postgres-proxy.ts';
import { serveUi } from '../support/page/served-ui.ts';
import { sharedPostgres } from '../support/postgres.ts';
import { fakeKey, fakePlace, startFakeS3 } from '../support/publish/fake-s3.ts';
import { useOwnTemp, openStore } from '../support/publish/s3-place.ts';
import { askDuckdbFile } from '../support/publish/read-tables.ts';
import { jsonLines, startCli } from '../support/run-cli.ts';
import { isLong } from '../support/trials.ts';

describe('targets', () => {
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
      world = await openCliWorld({
        size: { members: 300 },
        settings: '    include: [lists, list_members]\n',
      });
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
    it('removes what killed publishers left of a bucket: objects, staged files', async () => {
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
      const killed = await openStore(fakePlace(fake.endpoint));
      writeFileSync(await killed.stage(next.slice(`${place.prefix}/`.length)), subject);
      await world.json('purge', 'newsletter/campaigns', '--key', key);
      expect(held()).toEqual([]);
      expect(filesWith(tmpdir(), subject)).toEqual([]);
    });

    // Proves promise 21.1
    it('removes the half-made copy of a DuckDB file that a killed publisher left', async () => {
      const { key } = await published('  desk: { type: duckdb, path: ./desk.duckdb, when: by-hand }\n');
      await world.json('publish', 'desk');
      const path = join(world.folder, 'desk.duckdb');
      const { signal } = new AbortController();
      await using target = openDuckdbTarget({ path }, { keepMs: null, clock: systemClock, signal });
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

    // Every command takes a second to open DuckDB.
    const unfinished: readonly (readonly [type: string, command: string, settings: string])[] = [
      ['files', 'publish lake', '{ type: files, directory: ./lake, format: jsonl, when: by-hand }'],
      ['postgres', 'publish prune lake', ''],
      ['duckdb', 'publish lake', '{ type: duckdb, path: ./lake.duckdb, when: by-hand }'],
    ];

    // Proves promise 21.4
    it.each(unfinished.filter(([type]) => isLong || type !== 'duckdb'))(
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
});

/** Tables, indexes and tables of long values of the schema whose files hold the text. */
const filesWithSql = `
  WITH own AS (SELECT oid, reltoastrelid FROM pg_class WHERE relnamespace = $1::regnamespace AND relkind IN ('r', 'i')),
    every AS (
      SELECT oid FROM own
      UNION SELECT reltoastrelid FROM own WHERE reltoastrelid <> 0
      UNION SELECT i.indexrelid FROM pg_index AS i JOIN own ON own.reltoastrelid = i.indrelid)
  SELECT oid::regclass::text AS name FROM every
  WHERE position(convert_to($2, 'UTF8') IN pg_read_binary_file(pg_relation_filepath(oid))) > 0`;

/** In `npm test` a kill in front of one message of so many. */
const killsAtEach = isLong ? 1 : 50;

/** A sink that is reached through a proxy, with list members in it. */
async function synced(schema: string) {
  const server = await sharedPostgres();
  const proxy = await startPostgresProxy(server.port);
  onTestFinished(() => proxy.close());
  const url = server.url.replace(`:${server.port}`, `:${proxy.port}`);
  const world = await openCliWorld({
    size: isLong ? { members: 200 } : 'tiny',
    sinkSettings: `{ type: postgres, url: "${url}", schema: ${schema}, durability: normal }`,
  });
  onTestFinished(() => world[Symbol.asyncDispose]());
  const client = new pg.Client({ connectionString: server.url });
  await client.connect();
  onTestFinished(() => client.end());
  await world.json('sync', 'newsletter', '--select', 'list_members');
  const filesHold = async (text: string): Promise<readonly unknown[]> => {
    await client.query('CHECKPOINT');
    return (await client.query<{ name: string }>(filesWithSql, [schema, text])).rows;
  };
  /** How many rows there are, as the ledger counts them and as they are read. */
  const rows = async (): Promise<readonly unknown[]> => {
    const counted = `SELECT rows FROM ${schema}._sync_tables WHERE entity = 'list_members'`;
    const read = `SELECT count(*) AS rows FROM ${schema}.newsletter__list_members`;
    return (await client.query<{ rows: string }>(`${counted} UNION ALL ${read}`)).rows.map((row) =>
      Number(row.rows),
    );
  };
  const members = jsonLines(await world.cli('export', 'newsletter/list_members')).map((row) => ({
    key: ['--key', `list_id=${String(row['list_id'])}`, '--key', `id=${String(row['id'])}`],
    email: String(row['email_address']),
  }));
  return { world, proxy, client, members, rows, filesHold };
}

describe('a purge in a PostgreSQL sink', () => {
  // Proves promise 21.2
  it('leaves no byte of a person in the files of its tables', async () => {
    const schema = 'purged_files';
    const { world, client, members, filesHold } = await synced(schema);
    const email = members[0]?.email ?? '';
    expect((await filesHold(email)).length).toBeGreaterThan(0);
    const where = JSON.stringify({ eq: { email_address: email } });
    const [done] = await world.json('purge', 'newsletter/list_members', '--where', where);
    expect(done).toMatchObject({ left: [] });
    expect(await filesHold(email)).toEqual([]);
    const end = (await world.json('sync', 'newsletter', '--select', 'list_members', '--full')).at(-1);
    expect(end).toMatchObject({ report: { outcome: 'ok' } });
    expect(await filesHold(email)).toEqual([]);

    // As after a purge that was killed, and a reset of its entity.
    await client.query(
      `INSERT INTO ${schema}._sync_purge_work (connector, step, entity, since) VALUES ('newsletter', 'space', 'reports', '')`,
    );
    expect(await world.json('prune', 'newsletter')).toMatchObject([{ left: [] }]);
    expect((await client.query(`SELECT * FROM ${schema}._sync_purge_work`)).rows).toEqual([]);
  });

  // Proves promise 21.4
  it(
    'is completed by the next one after a kill in front of any message to the server, and done once by two at once',
    { timeout: isLong ? 900_000 : 60_000 },
    async () => {
      const { world, proxy, members, rows, filesHold } = await synced('purged_kills');
      const purge = (key: readonly string[]): readonly string[] => [
        'purge',
        'newsletter/list_members',
        ...key,
      ];
      let kills = 0;
      for (const { key, email } of members) {
        const [before = 0] = await rows();
        const at = (kills + 1) * killsAtEach;
        const killed = startCli([...purge(key), '--config', world.config], {
          cwd: world.folder,
          env: world.env,
        });
        const { code, stderr } = await killAtMessage(proxy, killed, at);
        if (code !== null) {
          expect(code, stderr).toBe(0);
          break;
        }
        kills += 1;
        const [counted, read] = await rows();
        expect([before, Number(before) - 1], `kill at ${at}`).toContain(counted);
        expect(read, `kill at ${at}`).toBe(counted);
        expect(await world.json(...purge(key))).toMatchObject([{ left: [] }]);
        expect(await rows()).toEqual([Number(before) - 1, Number(before) - 1]);
        expect(await filesHold(email), `kill at ${at}`).toEqual([]);
      }
      expect(kills).toBeGreaterThan(isLong ? 20 : 0);
      expect(kills, 'enough members').toBeLessThan(members.length);
      const last = members.at(-1);
      const ends = await Promise.all([1, 2].map(() => world.cli(...purge(last?.key ?? []))));
      const codes = ends.map(({ code }) => code);
      expect(codes, 'one of two may be refused').toContain(0);
      expect([0, 5]).toEqual(expect.arrayContaining(codes));
      expect(await filesHold(last?.email ?? '')).toEqual([]);
    },
  );
});
