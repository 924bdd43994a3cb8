import { createHash } from 'node:crypto';
import { readFile, readdir, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import pg from 'pg';
import { afterEach, describe, expect, onTestFinished, vi } from 'vitest';
import type { Service } from '../../src/service/start-service.ts';
import { cliSecret, startCliService, writeCliConfig } from '../support/cli-config.ts';
import { openCliWorld, type CliWorld } from '../support/cli-world.ts';
import { it } from '../support/it.ts';
import { sharedPostgres } from '../support/postgres.ts';
import { callCli, jsonLines, startCli, type CliResult } from '../support/run-cli.ts';
import { triedSinks } from '../support/trials.ts';

describe('audit', () => {
  let folder: string;
  let service: Service;

  it.beforeEach(async ({ folder: made }) => {
    folder = made;
    vi.stubEnv('TMPDIR', folder);
    service = await startCliService();
  });
  afterEach(async () => {
    vi.unstubAllEnvs();
    await service.close();
  });

  const kinds = [
    {
      type: 'sqlite',
      file: 'main.db',
      sink: '{ type: sqlite, path: ./main.db, durability: normal }',
    },
    {
      type: 'jsonl',
      file: 'lake/_ledger.db',
      sink: '{ type: jsonl, directory: ./lake, durability: normal }',
    },
  ] as const;

  /** How the keys of one entity can be tampered with. */
  const tampering = {
    drop: 'DELETE FROM newsletter__campaigns WHERE id = ?',
    change: "UPDATE newsletter__campaigns SET _hash = 'x' WHERE id = ?",
    add: "INSERT INTO newsletter__campaigns (id, _first_seen_at, _changed_at, _run_id, _seq, _hash) VALUES (?, '', '', '', 1, 'x')",
    mark: "UPDATE newsletter__campaigns SET _deleted_at = 'then' WHERE id = ?",
  };

  function idOf(key: string): string {
    return String((JSON.parse(key) as unknown[])[0]);
  }

  describe.each(kinds.filter(({ type }) => triedSinks.includes(type)))('audit of a $type sink', (kind) => {
    // Proves promise 13
    it('finds stored rows equal to what the service has, and changes nothing', async () => {
      const config = await synced(kind.sink);
      const before = await filesBelow(folder);
      const result = await cli(['audit', 'newsletter/list_members', '--config', config]);
      expect(result.stdout).toMatch(
        /^newsletter\/list_members: (\S+) rows at the API, \1 stored, \1 the same \(\d+ calls\)\n {2}no differences\n$/,
      );
      expect(result.code).toBe(0);
      expect(await filesBelow(folder)).toEqual(before);
      expect(await leftFolders()).toEqual([]);
    });

    it('names rows that are missing, extra or other, and ends with 3', async () => {
      const config = await synced(kind.sink);
      const all = jsonLines(
        await cli(['audit', 'newsletter/campaigns', '--config', config, '--json', '--limit', '0']),
      );
      expect(all).toMatchObject([{ isEqual: true, differences: { missing: { count: 0, first: [] } } }]);
      const [lost = '', other = '', gone = ''] = campaignKeys(kind);
      tamper(kind, (db) => {
        db.prepare(tampering.drop).run(idOf(lost));
        db.prepare(tampering.change).run(idOf(other));
        db.prepare(tampering.mark).run(idOf(gone));
        db.prepare(tampering.add).run(idOf('["zz-new\u202e"]'));
      });
      const before = await filesBelow(folder);
      const result = await cli(['audit', 'newsletter/campaigns', '--config', config]);
      expect(result.code).toBe(3);
      expect(result.stdout).toContain('missing: at the API, not stored: 2\n');
      for (const key of [lost, gone]) expect(result.stdout).toContain(`    ${key}\n`);
      expect(result.stdout).toContain(`changed: stored with different content: 1\n    ${other}\n`);
      expect(result.stdout).toContain('extra: stored, not at the API: 1\n    ["zz-new\ufffd"]\n');
      expect(result.stdout).toContain('connector-sync explain newsletter/campaigns --key');
      expect(await filesBelow(folder)).toEqual(before);
    });

    function campaignKeys({ file }: { readonly file: string }): readonly string[] {
      const db = new Database(join(folder, file));
      const rows = db
        .prepare<[], string>('SELECT json_array(id) FROM newsletter__campaigns ORDER BY id')
        .pluck()
        .all();
      db.close();
      return rows;
    }
  });

  describe('audit', () => {
    it('ends with 2 for an unknown or excluded entity, and for a limit that is no number', async () => {
      const config = await synced(kinds[0].sink, '    exclude: [automations]\n');
      const codes = [
        await cli(['audit', 'newsletter/nothing', '--config', config]),
        await cli(['audit', 'newsletter', '--config', config]),
        await cli(['audit', 'newsletter/automations', '--config', config]),
        await cli(['audit', 'newsletter/lists', '--config', config, '--limit', 'all']),
      ];
      expect(codes.map(({ code }) => code)).toEqual([2, 2, 2, 2]);
      expect(codes[2]?.stderr).toContain('the config leaves automations out');
    });

    it('asks the service for nothing where nothing is stored', async () => {
      const config = await configured(kinds[0].sink);
      const result = await cli(['audit', 'newsletter/lists', '--config', config]);
      expect(result.code).toBe(1);
      expect(result.stderr).toContain('There is no sink');
      expect(await leftFolders()).toEqual([]);
    });

    it('ends with 3 where nothing differs and the reading is not proven to be complete', async () => {
      await using world = await openCliWorld({
        wrap: (account) => ({
          ...account,
          list: (entity, params) => ({ ...account.list(entity, params), metadata: { total_items: 1_000 } }),
        }),
      });
      await world.cli('sync', 'newsletter', '--select', 'lists');
      const result = await world.cli('audit', 'newsletter/lists', '--json');
      expect(jsonLines(result)).toMatchObject([{ kind: 'audit', isEqual: true, isProven: false }]);
      expect(result.code).toBe(3);
    });

    it('leaves no copy behind when it is interrupted, once or twice', async () => {
      await service.close();
      service = await startCliService({ latencyMs: 40 });
      const config = await synced(kinds[0].sink, '    include: [lists]\n');
      const whole = (await readFile(config, 'utf8')).replace('    include: [lists]\n', '');
      await writeFile(config, whole);
      for (const presses of [1, 2]) {
        const running = startCli(['audit', 'newsletter/list_members', '--config', config], {
          cwd: folder,
          env: { SECRET: cliSecret, LOG_LEVEL: 'debug', TMPDIR: folder },
        });
        await running.until('page committed');
        const made = (await readdir(folder)).find((name) => name.startsWith('connector-sync-audit-'));
        expect((await stat(join(folder, made ?? ''))).mode & 0o777).toBe(0o700);
        for (let press = 0; press < presses; press += 1) running.child.kill('SIGINT');
        expect((await running.result).code).toBe(130);
        expect((await readdir(folder)).filter((name) => name.includes('audit'))).toEqual([]);
      }
    });
  });

  async function configured(sink: string, more = ''): Promise<string> {
    const config = await writeCliConfig(folder, service.url);
    const text = await readFile(config, 'utf8');
    await writeFile(
      config,
      text.replace(/main: \{[^}]*\}/, `main: ${sink}`).replace('    id: c-news\n', `    id: c-news\n${more}`),
    );
    return config;
  }

  async function synced(sink: string, more = ''): Promise<string> {
    const config = await configured(sink, more);
    const result = await cli(['sync', 'newsletter', '--config', config]);
    expect(result.code).toBe(0);
    return config;
  }

  function cli(args: readonly string[]): Promise<CliResult> {
    return callCli(args, { cwd: folder, env: { SECRET: cliSecret } });
  }

  function tamper({ file }: { readonly file: string }, work: (db: Database.Database) => void): void {
    const db = new Database(join(folder, file));
    work(db);
    db.close();
  }

  /** Each file with what is in it. What SQLite itself puts beside a file that is being read is none of the sink's. */
  async function filesBelow(path: string): Promise<ReadonlyMap<string, string>> {
    const entries = await readdir(path, { recursive: true, withFileTypes: true });
    const files = entries.filter((entry) => entry.isFile() && !/-(wal|shm)$/.test(entry.name));
    return new Map(
      await Promise.all(
        files.map(async ({ parentPath, name }) => {
          const content = await readFile(join(parentPath, name));
          return [join(parentPath, name), createHash('sha256').update(content).digest('hex')] as const;
        }),
      ),
    );
  }

  async function leftFolders(): Promise<readonly string[]> {
    return (await readdir(folder)).filter((name) => name.startsWith('connector-sync-audit-'));
  }
});

describe('edited rows', () => {
  /* A value in a table or a file is changed, and the hash beside it is not. */

  /** What each sink is, and how the name of a list is changed in it. */
  const editIn =
    (file: string) =>
    async (folder: string, from: string, to: string): Promise<void> => {
      const db = new Database(join(folder, file));
      db.prepare('UPDATE newsletter__lists SET name = ? WHERE name = ?').run(to, from);
      db.close();
      await Promise.resolve();
    };

  const kinds = {
    sqlite: { settings: '{ type: sqlite, path: ./main.db }', edit: editIn('main.db') },
    jsonl: { settings: '{ type: jsonl, directory: ./main }', edit: editIn('main/_ledger.db') },
    postgres: {
      settings: '{ type: postgres, url: "URL", schema: edited }',
      edit: async (_: string, from: string, to: string) => {
        const client = new pg.Client({ connectionString: (await sharedPostgres()).url });
        await client.connect();
        await client.query('UPDATE edited.newsletter__lists SET name = $1 WHERE name = $2', [to, from]);
        await client.end();
      },
    },
  } as const;

  async function open(type: keyof typeof kinds): Promise<CliWorld> {
    const { url } = await sharedPostgres();
    const client = new pg.Client({ connectionString: url });
    await client.connect();
    await client.query('DROP SCHEMA IF EXISTS edited CASCADE');
    await client.end();
    const sinkSettings = kinds[type].settings.replace('URL', url);
    const world = await openCliWorld({ sinkSettings });
    onTestFinished(async () => await world[Symbol.asyncDispose]());
    expect((await world.cli('sync')).code).toBe(0);
    return world;
  }

  describe.each(triedSinks)('a value that was edited in a %s sink', (type) => {
    // Proves promise 13
    it('is found by audit, and stored again by refetch', async () => {
      const world = await open(type);
      const [list] = jsonLines(await world.cli('export', 'newsletter/lists'));
      const { id, name } = list as { readonly id: string; readonly name: string };
      await kinds[type].edit(world.folder, name, name.replace(/./, '#'));
      const audit = await world.cli('audit', 'newsletter/lists');
      expect(audit).toMatchObject({ code: 3 });
      expect(audit.stdout).toContain(`edited: stored values that no sync has written: 1\n    ["${id}"]\n`);
      expect(audit.stdout).toContain('connector-sync refetch newsletter/lists --key ...');
      expect(audit.stdout).not.toContain('changed:');

      const lines = await world.json('sync', 'newsletter', '--full', '--select', 'lists');
      expect(JSON.stringify(lines), 'a sync compares hashes').not.toMatch(/"updated":[1-9]/);
      const [again] = await world.json('refetch', 'newsletter/lists', '--key', `id=${id}`);
      expect(again).toMatchObject({ result: 'updated' });
      expect(await world.json('audit', 'newsletter/lists')).toMatchObject([{ isEqual: true }]);
      expect(jsonLines(await world.cli('export', 'newsletter/lists')).at(-1)).toMatchObject({ id, name });
    });

    it('is not seen where none was edited, also in rows that were read a day ago', async () => {
      const world = await open(type);
      world.moveTo(1);
      expect((await world.cli('sync', '--allow-deletes')).code).toBe(0);
      for (const target of [
        'newsletter/lists',
        'newsletter/list_members',
        'newsletter/reports',
        'newsletter/email_activity_events',
        'wiki/users',
        'wiki/pages',
        'wiki/blocks',
      ]) {
        const [audit] = jsonLines(await world.cli('audit', target, '--json'));
        expect(audit, target).toMatchObject({ differences: { edited: { count: 0 } } });
      }
    });
  });
});
