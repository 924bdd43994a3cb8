import {
  appendFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path, { join } from 'node:path';
import Database from 'better-sqlite3';
import { afterEach, beforeEach, describe, expect } from 'vitest';
import { writeGenerated, type WrittenFile } from '../../src/cli/commands/publish/write-generated.ts';
import { openCliWorld, type CliWorld } from '../support/cli-world.ts';
import { it } from '../support/it.ts';
import { fakeBucket, fakeKey, startFakeS3 } from '../support/publish/fake-s3.ts';
import { callCli, jsonLines, startCli, type CliResult } from '../support/run-cli.ts';

describe('publish', () => {
  let world: CliWorld;

  beforeEach(async () => {
    world = await openCliWorld({ settings: '    include: [lists, campaigns]\n' });
    appendFileSync(
      world.config,
      `publish:
  lake: { type: files, directory: ./lake, format: jsonl, keep: 30d }
  hand: { type: files, directory: ./hand, format: csv, connectors: [newsletter], when: by-hand }
  mart: { type: postgres, url: '\${MART_URL}', when: by-hand }
`,
    );
  });

  afterEach(() => world[Symbol.asyncDispose]());

  const filesIn = (target: string): readonly string[] =>
    readdirSync(path.join(world.folder, target), { recursive: true, encoding: 'utf8' });

  describe('connector-sync publish', () => {
    it('publishes what is stored, and then says that nothing is new', async () => {
      expect(await world.cli('publish', 'hand')).toMatchObject({
        code: 0,
        stdout: 'hand: nothing is stored yet; run "npx --no-install connector-sync sync" first\n',
      });
      await world.json('sync', 'newsletter');
      const [first, ...none] = await world.json('publish', 'hand');
      expect(none).toEqual([]);
      expect(first).toMatchObject({
        kind: 'publication',
        target: 'hand',
        result: 'published',
        publication: 1,
      });
      expect(first?.['entities']).toContainEqual(
        expect.objectContaining({ connector: 'newsletter', generation: 1, deletes: 0, snapshotRows: null }),
      );
      expect(await world.json('publish', 'hand')).toMatchObject([{ result: 'unchanged', publication: 1 }]);
      expect((await world.cli('publish', 'hand')).stdout).toMatch(
        /^hand: nothing new since publication 1 of 2/,
      );

      world.moveTo(1);
      await world.json('sync', 'newsletter');
      expect((await world.cli('publish', 'status', 'hand')).stdout).toContain('something newer is stored');
      const shown = await world.cli('publish', 'hand');
      expect(shown.stdout).toMatch(
        /^hand: publication 2: \d+ rows?, \d+ deletes?, \d+ files?, [\d.]+ [KM]?B, in /,
      );
      expect(shown.stdout).toMatch(/\n {2}entity +rows +(deletes +)?complete as of\n {2}newsletter\//);
      expect((await world.cli('publish', 'status', 'hand')).stdout).toMatch(
        /^hand \(files, by-hand\): publication 2 of .*, up to date\n {2}\d+ entities, complete as of .* or later\n {2}entity +generation/,
      );
      // No row has changed, but all are known to be complete at a later time.
      const asOf = async () => {
        const [{ publication, entities } = {}] = await world.json('publish', 'status', 'hand');
        return [publication, (entities as { asOf: string }[])[0]?.asOf] as const;
      };
      const [, before] = await asOf();
      await world.json('sync', 'newsletter');
      expect((await world.cli('publish', 'status', 'hand')).stdout).toContain('up to date');
      expect(await world.json('publish', 'hand')).toMatchObject([{ result: 'unchanged', publication: 2 }]);
      const [publication, after = ''] = await asOf();
      expect([publication, after > String(before)]).toEqual([2, true]);
    });

    // Proves promise 20.5
    it('starts a new generation where the format of its files has changed, so that no earlier file counts', async () => {
      await world.json('sync', 'newsletter');
      const config = readFileSync(world.config, 'utf8');
      writeFileSync(world.config, config.replace('./lake, format: jsonl', './lake, format: csv'));
      expect((await world.cli('publish', 'status', 'lake')).stdout).toMatch(
        /^lake .*publication 1 of [^,]*\n {2}! The next publication has all rows again, because its files were \.jsonl and are now \.csv\n/,
      );
      const [anew] = await world.json('publish', 'lake');
      expect(anew).toMatchObject({ result: 'published', publication: 2 });
      const entities = anew?.['entities'] as readonly { readonly generation: number }[];
      expect(entities.filter(({ generation }) => generation !== 2)).toEqual([]);
      const kinds = filesIn('lake').flatMap((name) => /\/g2\/.*\.(\w+)$/.exec(name)?.[1] ?? []);
      expect(new Set(kinds)).toEqual(new Set(['csv']));
      expect(await world.json('publish', 'check', 'lake')).toMatchObject([{ problems: [] }]);
      expect(await world.json('publish', 'lake')).toMatchObject([{ result: 'unchanged' }]);
    });

    it('asks for freshness only of what the config still has, and says what it no longer has', async () => {
      await world.json('sync', 'newsletter');
      await world.json('publish', 'hand');
      const config = readFileSync(world.config, 'utf8');
      writeFileSync(world.config, config.replace('[lists, campaigns]', '[lists]'));
      const database = new Database(path.join(world.folder, 'main.db'));
      database.exec(`UPDATE _sync_tables SET as_of = '2020-01-01T00:00:00.000Z' WHERE entity = 'campaigns'`);
      database.close();
      await world.json('sync', 'newsletter');
      const fresh = await world.cli('publish', 'hand', '--require-fresh', '1d');
      expect({ code: fresh.code, stderr: fresh.stderr }).toEqual({ code: 0, stderr: '' });
      const { stdout } = await world.cli('publish', 'status', 'hand');
      expect(stdout).toMatch(/, 1 no longer in the config\n/);
      expect(stdout).toMatch(/newsletter\/campaigns .* no longer in the config\n/);
    });

    // Proves promise 20.5
    it('does not take a sink that is away for an empty one', async () => {
      await world.json('sync', 'newsletter');
      const [database, away] = [path.join(world.folder, 'main.db'), path.join(world.folder, 'away.db')];
      renameSync(database, away);
      const refused = await world.cli('publish', 'lake');
      expect(refused.code).toBe(1);
      expect(refused.stderr).toMatch(
        /^lake: The sink main is not there, and target lake holds publication 1\./,
      );
      const status = await world.cli('publish', 'status', 'lake');
      expect(status.code).toBe(1);
      expect(status.stdout).toMatch(/^lake .*publication 1 of [^,]*\n {2}! The sink main is not there/);
      expect(existsSync(database)).toBe(false);
      renameSync(away, database);
      expect(await world.json('publish', 'lake')).toMatchObject([{ result: 'unchanged' }]);
    });

    it('reads targets back, starts a new generation, adds snapshots and removes what is not kept', async () => {
      await world.json('sync', 'newsletter');
      expect((await world.cli('publish', 'check', 'lake')).stdout).toMatch(
        /^lake: 1 publication, \d+ files, .* rows: all as published\n$/,
      );
      const [anew] = await world.json('publish', 'lake', '--new-generation');
      expect(anew).toMatchObject({ publication: 2 });
      expect(anew?.['newGenerations']).toContainEqual({
        connector: 'newsletter',
        entity: 'lists',
        reason: 'it was asked for',
      });
      const [withSnapshot] = await world.json('publish', 'snapshot', 'lake');
      const entities = withSnapshot?.['entities'] as readonly { readonly snapshotRows: number }[];
      expect(entities.every(({ snapshotRows }) => snapshotRows > 0)).toBe(true);
      expect(await world.json('publish', 'prune', 'lake', '--dry-run')).toMatchObject([
        { kind: 'target-pruned', target: 'lake', isDryRun: true, publications: 0, files: 0 },
      ]);
      expect((await world.cli('publish', 'prune', 'lake')).stdout).toBe('lake: nothing to remove\n');

      const damaged = filesIn('lake').find((name) => name.endsWith('.jsonl')) ?? '';
      writeFileSync(path.join(world.folder, 'lake', damaged), 'not what was published');
      const check = await world.cli('publish', 'check', 'lake');
      expect(check).toMatchObject({ code: 1 });
      expect(check.stdout).toContain(`: 1 problem\n  ! `);
      expect(check.stdout).toContain(damaged);
    });

    it('makes no target where its path leads nowhere', async () => {
      appendFileSync(
        world.config,
        `  slip: { type: files, directory: ./nowhere/lake, format: csv, when: by-hand }
  desk: { type: duckdb, path: ./nowhere/deeper/desk.duckdb, when: by-hand }
`,
      );
      await world.json('sync', 'wiki', '--select', 'users');
      for (const target of ['slip', 'desk']) {
        const { code, stderr } = await world.cli('publish', target);
        expect([code, stderr]).toEqual([2, expect.stringContaining(`mkdir -p '${world.folder}/nowhere'`)]);
      }
      expect(existsSync(path.join(world.folder, 'nowhere'))).toBe(false);
    });

    it('ends on Ctrl-C with nothing published, and publishes when it is asked again', async () => {
      await using s3 = await startFakeS3();
      const { accessKeyId, secretAccessKey } = fakeKey;
      appendFileSync(
        world.config,
        `  bucket: { type: s3, bucket: ${fakeBucket}, endpoint: "${s3.endpoint}", accessKeyId: ${accessKeyId}, secretAccessKey: "${secretAccessKey}", format: jsonl, when: by-hand }\n`,
      );
      await world.json('sync', 'newsletter');
      const asked = new Promise<void>((resolve) => {
        s3.fault = ({ operation, key }) => {
          if (operation !== 'put' || !key.endsWith('.jsonl')) return null;
          resolve();
          return 'silence';
        };
      });
      const running = startCli(['publish', 'bucket', '--config', world.config], {
        cwd: world.folder,
        env: world.env,
      });
      await Promise.race([asked, running.result]);
      running.child.kill('SIGINT');
      const { code, stdout, stderr } = await running.result;
      expect({ code, stdout }).toEqual({ code: 130, stdout: '' });
      expect(stderr).toContain('Stopping: what is not published yet stays out');
      s3.fault = () => null;
      expect(await world.json('publish', 'status', 'bucket')).toMatchObject([{ publication: null }]);
      expect(await world.json('publish', 'bucket')).toMatchObject([{ result: 'published', publication: 1 }]);
      expect(await world.json('publish', 'check', 'bucket')).toMatchObject([{ problems: [] }]);
    });

    it('ends with code 3 where an entity is not as fresh as it must be', async () => {
      expect((await world.cli('publish', 'hand', '--require-fresh', '1d')).code).toBe(3);
      await world.json('sync', 'newsletter', '--max-calls', '1');
      const early = await world.cli('publish', 'hand', '--require-fresh', '1d', '--json');
      expect(early.code).toBe(3);
      const events = jsonLines(early);
      expect(events).toMatchObject([{ result: 'published' }, { kind: 'not-fresh', target: 'hand' }]);
      expect(events[1]?.['entities']).toContainEqual(expect.objectContaining({ asOf: null }));
      await world.json('sync', 'newsletter');
      expect((await world.cli('publish', 'hand', '--require-fresh', '1d')).code).toBe(0);
      expect((await world.cli('publish', 'hand', '--require-fresh', 'soon')).code).toBe(2);
    });

    it('gives every target its turn, and needs what is missing only for the target that lacks it', async () => {
      await world.json('sync', 'newsletter');
      const result = await world.cli('publish');
      expect(result.code).toBe(2);
      expect(result.stdout).toContain('lake: nothing new since publication 1');
      expect(result.stdout).toContain('hand: publication 1: ');
      expect(result.stderr).toContain('publish.mart.url: the environment variable MART_URL is not set');
      expect(await world.cli('publish', 'lakes')).toMatchObject({
        code: 2,
        stderr: 'Error: Unknown target "lakes"; did you mean "lake"?\n',
      });
    });
  });

  describe('a target of which something is missing here', () => {
    it('costs no sync, and keeps a worker that would publish into it from starting', async () => {
      writeFileSync(
        world.config,
        readFileSync(world.config, 'utf8').replace("url: '${MART_URL}', when: by-hand", "url: '${MART_URL}'"),
      );
      const synced = await world.cli('sync', 'newsletter');
      expect(synced.code).toBe(0);
      expect(synced.stdout).toContain('\nlake: publication 1: ');
      expect(synced.stderr).toMatch(/^Warning: target mart was not published to, .*MART_URL is not set/m);
      const worker = await world.cli('worker', '--connectors', 'newsletter');
      expect(worker).toMatchObject({ code: 2 });
      expect(worker.stderr).toContain('publish.mart.url: the environment variable MART_URL is not set');
    });
  });

  describe('connector-sync check', () => {
    it('says of each target whether it could be published to, and leaves nothing there', async () => {
      writeFileSync(path.join(world.folder, 'hand'), 'a file in the place of the folder');
      const result = await world.cli('check');
      expect(result.code).toBe(2);
      expect(result.stdout).toContain('✓ target lake: files can be written; nothing was published yet\n');
      expect(result.stdout).toMatch(/✗ target hand: .*hand is a file, expected a folder/);
      expect(result.stdout).toMatch(/✗ target mart: .*MART_URL is not set/);
      expect(filesIn('lake').filter((name) => name !== '_publications')).toEqual([]);
    });
  });

  describe('connector-sync sync', () => {
    it('publishes at its end, once into each target that follows what it read', async () => {
      const events = await world.json('sync');
      expect(events.slice(-1)).toMatchObject([
        { kind: 'publication', target: 'lake', result: 'published', publication: 1 },
      ]);
      expect(events.filter(({ kind }) => kind === 'publication')).toHaveLength(1);
      expect(filesIn('lake').filter((name) => name.endsWith('.jsonl')).length).toBeGreaterThan(2);
      expect(readdirSync(world.folder)).not.toContain('hand');
      const again = await world.cli('sync', 'wiki');
      expect(again.stdout).toMatch(/\nlake: nothing new since publication 1 of /);
    });

    // Proves promise 20.9
    it('keeps its exit code when a publication fails, and says how to repeat it', async () => {
      writeFileSync(path.join(world.folder, 'lake'), 'a file in the place of the folder');
      const result = await world.cli('sync', 'newsletter');
      expect(result.code).toBe(0);
      expect(result.stderr).toContain(
        'Warning: target lake was not published to, what was synced is stored: ',
      );
      expect(result.stderr).toContain('To publish: npx --no-install connector-sync publish lake\n');
      expect(readFileSync(path.join(world.folder, 'lake'), 'utf8')).toBe('a file in the place of the folder');
      expect((await world.cli('publish', 'lake')).code).not.toBe(0);
    });
  });
});

it('replaces rows of another sink only with --new-generation', async () => {
  await using world = await openCliWorld({ settings: '    include: [lists, campaigns]\n' });
  appendFileSync(world.config, 'publish:\n  lake: { type: files, directory: ./lake, format: jsonl }\n');
  await world.json('sync', 'newsletter');
  for (const name of readdirSync(world.folder).filter((one) => one.startsWith('main.db'))) {
    rmSync(path.join(world.folder, name));
  }
  // A sync that ends well: what it could not publish is no fault of its own.
  const synced = await world.cli('sync', 'newsletter');
  expect([synced.code, synced.stderr]).toEqual([
    0,
    expect.stringMatching(/^Warning: target lake was not published to.*holds publication 1 of another sink/m),
  ]);
  const refused = await world.cli('publish', 'lake');
  expect(refused.code).toBe(2);
  expect(refused.stderr).toContain('replace all published rows: publish lake --new-generation.');
  expect((await world.cli('publish', 'status')).stdout).toContain(
    '! Target lake holds publication 1 of another sink',
  );
  const checked = await world.cli('check');
  expect([checked.code, checked.stdout]).toEqual([
    2,
    expect.stringMatching(/^✗ target lake: Target lake holds/m),
  ]);

  expect((await world.cli('publish', 'lake', '--new-generation')).stdout).toMatch(/^lake: publication 2: /);
  await expect(world.json('publish', 'lake')).resolves.toMatchObject([{ result: 'unchanged' }]);
});

describe('publish schema', () => {
  let folder: string;

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'publish-schema-'));
  });

  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  describe('generated files', () => {
    const name = 'models/connector_sync/shop/stg_shop__orders.sql';
    const write = (body: string): WrittenFile['outcome'] | undefined =>
      writeGenerated(folder, [{ path: name, from: 'shop/orders, schema 3', body }])[0]?.outcome;
    const read = (): string => readFileSync(join(folder, name), 'utf8');

    it('say on their first line what they were made from, and the same again changes nothing', () => {
      expect(write('select 1\n')).toBe('written');
      expect(read()).toMatch(
        /^-- generated by connector-sync from shop\/orders, schema 3, sha256 [0-9a-f]{64} of the lines below; if you edit it, it is never overwritten\nselect 1\n$/,
      );
      // Meant to be committed and read by others: no more is taken away than the umask does.
      expect(statSync(join(folder, name)).mode & 0o777).toBe(0o666 & ~process.umask());
      const { mtimeMs } = statSync(join(folder, name));
      expect(write('select 1\n')).toBe('unchanged');
      expect(statSync(join(folder, name)).mtimeMs).toBe(mtimeMs);
      expect(write('select 2\n')).toBe('written');
      expect(readdirSync(join(folder, name, '..'))).toEqual(['stg_shop__orders.sql']);
    });

    // Proves promise 20.8
    it('are left alone once they were edited', () => {
      write('select 1\n');
      const edited = `${read()}-- mine\n`;
      writeFileSync(join(folder, name), edited);
      expect(write('select 1\n')).toBe('edited');
      expect(write('select 2\n')).toBe('edited');
      expect(read()).toBe(edited);
      // A person removed the first line.
      writeFileSync(join(folder, name), 'select 1\n');
      expect(write('select 1\n')).toBe('edited');
      expect(read()).toBe('select 1\n');
    });

    it('count as not edited whatever line ends version control gave them', () => {
      write('select 1\nfrom a\n');
      writeFileSync(join(folder, name), read().replaceAll('\n', '\r\n'));
      expect(write('select 2\n')).toBe('written');
    });

    it('are refused in words where they cannot be written, and leave nothing behind', () => {
      mkdirSync(join(folder, name), { recursive: true });
      expect(() => write('select 1\n')).toThrow(
        /stg_shop__orders\.sql cannot be written: it is no file\. Name another folder/,
      );
      rmSync(join(folder, 'models'), { recursive: true });
      writeFileSync(join(folder, 'models'), 'a file');
      expect(() => write('select 1\n')).toThrow(/cannot be written/);
    });
  });

  describe('publish schema', () => {
    it('writes from the definitions where nothing is published, or says what is wrong with the question', async () => {
      const config = join(folder, 'sync.yaml');
      writeFileSync(
        config,
        `api: { baseUrl: 'http://127.0.0.1:1', clientId: local, clientSecret: not-asked-for-anything }
sinks: { main: { type: sqlite, path: ./main.db } }
connectors:
  newsletter: { definition: email-marketing, id: c-news, sink: main }
  my-wiki: { definition: workspace-notes, id: c-wiki, sink: main }
`,
      );
      const schema = async (...args: readonly string[]): Promise<CliResult> =>
        await callCli(['publish', 'schema', ...args, '--config', config], { cwd: folder });
      const dbt = await schema('--dialect', 'dbt', '--output', 'analytics', '--json');
      expect(dbt).toMatchObject({ code: 0, stderr: '' });
      expect(JSON.parse(dbt.stdout)).toMatchObject({ dialect: 'dbt', target: null, publication: null });
      expect(
        readFileSync(join(folder, 'analytics/models/connector_sync/my_wiki/_sources.yml'), 'utf8'),
      ).toContain('identifier: my_wiki__pages');
      const { stdout } = await schema('--dialect', 'postgres');
      expect(stdout).toContain('create table if not exists connector_sync.newsletter__list_members (');
      expect(await schema('--dialect', 'dbt')).toMatchObject({
        code: 2,
        stderr: expect.stringContaining('--output') as string,
      });
      expect(await schema('--dialect', 'oracle')).toMatchObject({
        code: 2,
        stderr: expect.stringContaining('dbt, duckdb, postgres') as string,
      });
      expect(await schema('lake', '--dialect', 'duckdb')).toMatchObject({
        code: 2,
        stderr: expect.stringContaining('Unknown target "lake"') as string,
      });
    });
  });
});

describe('pruning', () => {
  let world: CliWorld;

  afterEach(() => world[Symbol.asyncDispose]());

  /** A year has passed since everything was deleted or refused. */
  function ageBy(sql: readonly string[]): void {
    const db = new Database(join(world.folder, 'main.db'));
    for (const one of sql) db.exec(one);
    db.close();
  }

  /** How many versions of lists have ended. */
  function closed(): unknown {
    const db = new Database(join(world.folder, 'main.db'), { readonly: true });
    try {
      return db.prepare('SELECT count(*) FROM newsletter__lists__versions').pluck().get();
    } finally {
      db.close();
    }
  }

  const deletes = async (): Promise<number> =>
    jsonLines(await world.cli('export', 'newsletter/lists')).filter((row) => row['_op'] === 'delete').length;

  describe('prune', () => {
    // Proves promise 21.5
    it('removes deleted rows when every target has published their delete, and begins no generation', async () => {
      world = await openCliWorld({
        settings: '    include: [lists, campaigns]\n    retention: { deletedRows: 90d, quarantine: 30d }\n',
      });
      appendFileSync(
        world.config,
        'publish:\n  lake: { type: files, directory: ./lake, format: jsonl, when: by-hand }\n  second: { type: files, directory: ./second, format: csv, when: by-hand }\n',
      );
      await world.json('sync', 'newsletter');
      world.moveTo(3);
      await world.json('sync', 'newsletter', '--full', '--allow-deletes');
      const gone = await deletes();
      expect(gone).toBeGreaterThan(0);
      ageBy([
        `UPDATE newsletter__lists SET _deleted_at = '2020-01-01T00:00:00.000Z' WHERE _deleted_at IS NOT NULL`,
        `INSERT INTO _sync_quarantine (connector, entity, content_hash, reason, detail, record, first_seen_at, last_seen_at, last_run)
       VALUES ('newsletter', 'lists', 'x', 'key-missing', 'no id', '{}', '2020-01-01T00:00:00.000Z', '2020-01-01T00:00:00.000Z', 'r')`,
      ]);
      const lists = ([first]: readonly Record<string, unknown>[]): unknown => {
        const entities = (first?.['entities'] ?? []) as readonly { readonly entity: string }[];
        return entities.find(({ entity }) => entity === 'lists');
      };
      expect(lists(await world.json('prune', 'newsletter', '--dry-run'))).toMatchObject({
        rows: 0,
        quarantined: 1,
      });
      const [first] = await world.json('publish', 'lake');
      expect(
        lists(await world.json('prune', 'newsletter', '--dry-run')),
        'one target lacks them',
      ).toMatchObject({
        rows: 0,
      });
      await world.json('publish', 'second');
      expect(lists(await world.json('prune', 'newsletter', '--dry-run'))).toMatchObject({ rows: gone });
      expect(await deletes()).toBe(gone);
      expect(lists(await world.json('prune', 'newsletter', '--allow-deletes'))).toMatchObject({
        rows: gone,
        quarantined: 1,
      });
      expect(await deletes()).toBe(0);
      await world.cli('export', 'newsletter/lists', '--next-file', 'next.json');
      const next = JSON.parse(readFileSync(join(world.folder, 'next.json'), 'utf8')) as Record<
        string,
        number
      >;
      expect(next['completeAfter']).toBeGreaterThan(1);
      expect(next['completeAfter']).toBeLessThanOrEqual(next['nextSeq'] ?? 0);
      const stale = await world.cli('export', 'newsletter/lists', '--since-seq', '1');
      expect(stale).toMatchObject({ code: 2, stderr: expect.stringContaining('retention') as string });
      const end = (await world.json('sync', 'newsletter', '--full')).at(-1);
      expect(end).toMatchObject({ report: { outcome: 'ok' } });
      expect(first).toMatchObject({ result: 'published' });
      expect(await world.json('publish', 'check', 'lake')).toMatchObject([{ problems: [] }]);
      const [status] = await world.json('publish', 'status', 'lake');
      expect(status).toMatchObject({ newGeneration: null, error: null });
    });

    it('is what a sync does by itself, once a day, but for what its guards keep', async () => {
      world = await openCliWorld({
        settings:
          '    include: [lists]\n    entities: { lists: { history: { keep: 30d }, retention: { deletedRows: 90d } } }\n',
      });
      appendFileSync(world.config, 'guards: { maxDeleteShare: 0.01, minDeleteRows: 0 }\n');
      await world.json('sync', 'newsletter');
      world.moveTo(3);
      await world.json('sync', 'newsletter', '--full', '--allow-deletes');
      ageBy([
        `UPDATE newsletter__lists SET _deleted_at = '2020-01-01T00:00:00.000Z' WHERE _deleted_at IS NOT NULL`,
      ]);
      await world.json('sync', 'newsletter');
      expect(await deletes()).toBeGreaterThan(0);
      const old = [
        'UPDATE _sync_retained SET checked_at',
        'UPDATE newsletter__lists__versions SET _valid_to',
      ];
      ageBy(old.map((update) => `${update} = '2020-01-01T00:00:00.000Z'`));
      const kept = await world.cli('sync', 'newsletter');
      const allow = 'prune newsletter --allow-deletes';
      expect(kept).toMatchObject({ code: 0, stdout: expect.stringContaining(allow) as string });
      expect((await world.cli('status', 'newsletter')).stdout).toContain(allow);
      expect(await world.cli('prune')).toMatchObject({
        code: 6,
        stdout: expect.stringMatching(
          /deleted rows are older .*\n.* versions are older than the config keeps/,
        ) as string,
      });
      expect(await deletes()).toBeGreaterThan(0);
      expect(closed()).toBeGreaterThan(0);
      writeFileSync(world.config, readFileSync(world.config, 'utf8').replace('0.01', '1'));
      ageBy([`UPDATE _sync_retained SET checked_at = '2020-01-01T00:00:00.000Z'`]);
      await world.json('sync', 'newsletter');
      expect([await deletes(), closed()]).toEqual([0, 0]);
      expect((await world.cli('status', 'newsletter')).stdout).not.toContain('prune');
    });
  });
});

describe('versions', () => {
  let world: CliWorld;

  afterEach(() => world[Symbol.asyncDispose]());

  function ask(sql: string): readonly Record<string, unknown>[] {
    const db = new Database(join(world.folder, 'main.db'), { readonly: true });
    try {
      return db.prepare<[], Record<string, unknown>>(sql).all();
    } finally {
      db.close();
    }
  }

  /** How many versions of campaigns have ended. */
  const ended = (): unknown => ask('SELECT count(*) AS n FROM newsletter__campaigns__versions')[0]?.['n'];

  async function changed(revision: number): Promise<void> {
    world.moveTo(revision);
    await world.json('sync', 'newsletter', '--full', '--allow-deletes');
  }

  describe('history', () => {
    it('is kept while the config says so, and not a sync longer', async () => {
      world = await openCliWorld({ settings: '    include: [campaigns]\n    history: { keep: 400d }\n' });
      const text = readFileSync(world.config, 'utf8');
      await world.json('sync', 'newsletter');
      await world.json('sync', 'newsletter', '--full');
      expect(ended(), 'nothing has changed').toBe(0);
      await changed(1);
      const after = ended();
      expect(after).toBeGreaterThan(0);
      writeFileSync(world.config, text.replace('    history: { keep: 400d }\n', ''));
      await changed(2);
      expect(ended()).toBe(after);
      // Without `keep` nothing is too old, whatever an earlier config had.
      writeFileSync(world.config, text.replace('{ keep: 400d }', 'true'));
      await world.json('sync', 'newsletter');
      expect(ask('SELECT ended_at FROM _sync_versions')).toEqual([{ ended_at: null }]);
      const db = new Database(join(world.folder, 'main.db'));
      db.exec(`UPDATE newsletter__campaigns__versions SET _valid_to = '2020-01-01T00:00:00.000Z'`);
      db.close();
      await world.json('prune', 'newsletter', '--allow-deletes');
      expect(ended()).toBe(after);
    });

    it('is copied into a sink that keeps versions; of another one the copy says what it does not have', async () => {
      world = await openCliWorld({ settings: '    include: [campaigns]\n    history: true\n' });
      const others =
        ', twin: { type: sqlite, path: ./twin.db }, lines: { type: jsonl, directory: ./lines } }';
      writeFileSync(
        world.config,
        readFileSync(world.config, 'utf8').replace(/^(sinks: .*) \}$/m, `$1${others}`),
      );
      await world.json('sync', 'newsletter');
      await changed(1);
      const lines = await world.cli('copy', '--from', 'main', '--to', 'lines', 'newsletter');
      expect(lines).toMatchObject({
        code: 0,
        stdout: expect.stringMatching(
          /Earlier versions of rows \(history\) of campaigns(, campaigns__\w+)* are not in lines/,
        ) as string,
      });
      await world.json('copy', '--from', 'main', '--reopen', 'newsletter');
      const twin = await world.cli('copy', '--from', 'main', '--to', 'twin', 'newsletter');
      expect(twin.code, twin.stderr).toBe(0);
      expect(twin.stdout).not.toContain('Earlier versions');
    });
  });
});
