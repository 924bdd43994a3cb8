import { afterEach, describe, expect, onTestFinished, vi } from 'vitest';
import { createHash } from 'node:crypto';
import { readFile, readdir, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import pg from 'pg';
import type { JsonObject } from '../../src/core/json.ts';
import type { SampleAccount } from '../../src/sample/sample-account.ts';
import { ApiError } from '../../src/service/api-error.ts';
import {
  openCliWorld,
  type CliWorld,
  cliSecret,
  startCliService,
  writeCliConfig,
} from '../support/cli-world.ts';
import { jsonLines, callCli, startCli, type CliResult } from '../support/run-cli.ts';
import type { SampleSinkType } from '../support/sample-sinks.ts';
import { text } from '../support/service/served-api.ts';
import { triedSinks } from '../support/trials.ts';
import type { Service } from '../../src/service/start-service.ts';
import { it } from '../support/it.ts';
import { askPostgres, sharedPostgres } from '../support/postgres.ts';

describe('explain a record', () => {
  let world: CliWorld;
  const refused = new Set<unknown>();

  /** The service does not let these lists be seen. */
  const wrap = (account: SampleAccount): SampleAccount => ({
    get: (entity, params) => account.get(entity, params),
    list: (entity, params) => {
      if (entity === 'list_members' && refused.has(params['list_id'])) {
        throw new ApiError(403, 'You may not see this list.');
      }
      return account.list(entity, params);
    },
  });

  afterEach(async () => {
    refused.clear();
    await world[Symbol.asyncDispose]();
  });

  async function rows(target: string): Promise<readonly Record<string, unknown>[]> {
    return jsonLines(await world.cli('export', target));
  }

  interface Explained {
    readonly isStored: boolean;
    readonly row: Readonly<Record<string, unknown>> & {
      readonly partition: Readonly<Record<string, unknown>>;
    };
    readonly reason: { readonly kind: string; readonly isMet?: boolean | null };
    readonly changedBy: { readonly kind: string; readonly run: string } | null;
    readonly text: string;
  }

  async function explain(target: string, row: Record<string, unknown> | undefined): Promise<Explained> {
    const names = target.endsWith('list_members') ? ['list_id', 'id'] : ['id'];
    const key = names.map((name) => `${name}=${String(row?.[name])}`);
    const [explained] = await world.json('explain', target, '--key', ...key);
    const { stdout } = await world.cli('explain', target, '--key', ...key);
    return { ...(explained as unknown as Explained), text: stdout };
  }

  describe.each(triedSinks)('explain over a %s sink', (sink) => {
    it('says of a record when it was first seen and last written, and that a full walk met it', async () => {
      world = await openCliWorld({ sink, settings: '    include: [lists, list_members]\n' });
      await world.cli('sync', 'newsletter');
      const [member] = await rows('newsletter/list_members');
      const explained = await explain('newsletter/list_members', member);
      expect(explained.changedBy).not.toHaveProperty('report');
      expect(explained).toMatchObject({
        isStored: true,
        reason: { kind: 'full', isMet: true },
        changedBy: { kind: 'sync', run: member?.['_run_id'] },
        row: {
          firstSeenAt: member?.['_changed_at'],
          changedAt: member?.['_changed_at'],
          deletedAt: null,
          seq: member?.['_seq'],
          missing: null,
          partition: { entity: 'list_members', mode: 'full', failure: null },
        },
      });
      expect(explained.text).toContain(
        `last_changed ${new Date(String(member?.['last_changed'])).toISOString()}`,
      );
      expect(explained.text).toContain('read its listing in full and found it');
    });

    it('says which records an incremental read asked for, and until when an unchanged one waits', async () => {
      world = await openCliWorld({ sink, settings: '    include: [lists, list_members]\n' });
      await world.cli('sync', 'newsletter');
      const before = await rows('newsletter/list_members');
      world.moveTo(1);
      await world.cli('sync', 'newsletter');
      const after = await rows('newsletter/list_members');
      const changed = after.find(({ _seq }) => Number(_seq) > Number(before.at(-1)?.['_seq']));
      const oldest = after.toSorted((left, right) =>
        String(left['last_changed']) < String(right['last_changed']) ? -1 : 1,
      )[0];
      expect(await explain('newsletter/list_members', changed)).toMatchObject({
        reason: { kind: 'incremental', isMet: true },
      });
      const explained = await explain('newsletter/list_members', oldest);
      expect(explained).toMatchObject({ reason: { kind: 'incremental', isMet: false } });
      expect(explained.text).toMatch(/is older than the sync cursor .* a full read/);
    });

    it('says that a listing was set aside, why, and that it stays due', async () => {
      world = await openCliWorld({ sink, wrap, settings: '    include: [lists, list_members]\n' });
      await world.cli('sync', 'newsletter');
      const [member] = await rows('newsletter/list_members');
      refused.add(member?.['list_id']);
      await world.cli('sync', 'newsletter');
      const explained = await explain('newsletter/list_members', member);
      expect(explained).toMatchObject({ reason: { kind: 'set-aside' }, row: { partition: { failure: {} } } });
      expect(explained.text).toMatch(/reading its listing failed .*; the next sync tries again/);
    }, 60_000);

    it('says that a record is deleted, and that another run wrote it last', async () => {
      world = await openCliWorld({ sink, settings: '    include: [lists]\n' });
      await world.cli('sync', 'newsletter');
      world.moveTo(3);
      await world.cli('sync', 'newsletter', '--full', '--allow-deletes');
      const deleted = (await rows('newsletter/lists')).find(({ _op }) => _op === 'delete');
      const explained = await explain('newsletter/lists', deleted);
      expect(explained).toMatchObject({
        row: { deletedAt: deleted?.['_changed_at'] },
        reason: { isMet: false },
      });
      expect(explained.text).toMatch(/deleted: +yes/);
      const [other] = await rows('newsletter/lists');
      await world.cli('refetch', 'newsletter/lists', '--key', `id=${String(other?.['id'])}`);
      expect((await explain('newsletter/lists', other)).changedBy).toMatchObject({ kind: 'sync' });
    });
  });

  describe('explain', () => {
    it('ends with 3 for a key that is not stored, and with 2 for what is no key', async () => {
      world = await openCliWorld({ settings: '    include: [lists]\n' });
      const before = await world.cli('explain', 'newsletter/lists', '--key', 'id=x');
      expect(before).toMatchObject({ code: 3, stdout: expect.stringContaining('is not stored') as string });
      await world.cli('sync', 'newsletter');
      const unknown = await world.cli('explain', 'newsletter/lists', '--key', 'id=x', '--json');
      expect(unknown.code).toBe(3);
      expect(jsonLines(unknown)).toEqual([{ target: 'newsletter/lists', key: '["x"]', isStored: false }]);
      const wrong = await world.cli('explain', 'newsletter/lists', '--key', 'name=x');
      expect(wrong).toMatchObject({ code: 2, stderr: expect.stringContaining('known by id') as string });
    });
  });
});

describe('refetch a record', () => {
  let world: CliWorld;
  /** Stands between the service and the account; changed by the tests. */
  let change: (record: JsonObject) => JsonObject | null = (record) => record;

  const wrap = (account: SampleAccount): SampleAccount => ({
    list: (entity, params) => account.list(entity, params),
    get: (entity, params) => {
      const record = account.get(entity, params);
      return record === null ? null : change(record);
    },
  });

  async function open(sink: SampleSinkType, settings = '', isWhole = false): Promise<void> {
    change = (record) => record;
    world = await openCliWorld({ sink, wrap, settings, isWhole });
    expect((await world.cli('sync')).code).toBe(0);
  }

  afterEach(async () => {
    await world[Symbol.asyncDispose]();
  });

  async function rows(target: string): Promise<readonly Record<string, unknown>[]> {
    return jsonLines(await world.cli('export', target));
  }

  describe.each(triedSinks)('refetch into a %s sink', (sink) => {
    it('writes nothing for an unchanged record, also in a tree', async () => {
      await open(sink, '', true);
      const [member] = await rows('newsletter/list_members');
      const [report] = await rows('newsletter/reports');
      const blocks = await rows('wiki/blocks');
      const block = blocks.find(({ depth }) => Number(depth) > 0);
      const asked = [
        ['newsletter/list_members', `id=${String(member?.['id'])}`, `list_id=${String(member?.['list_id'])}`],
        ['newsletter/reports', `id=${String(report?.['id'])}`],
        ['wiki/blocks', `id=${String(block?.['id'])}`],
      ];
      for (const [target = '', ...key] of asked) {
        const [result] = await world.json('refetch', target, '--key', ...key);
        expect(result).toMatchObject({ target, result: 'unchanged' });
      }
      expect(await rows('wiki/blocks')).toEqual(blocks);
      const [history] = await world.json('runs', '--limit', '3');
      expect(history?.['runs']).toMatchObject([
        { kind: 'refetch' },
        { kind: 'refetch' },
        { kind: 'refetch' },
      ]);
    });

    it('stores what has changed, as a walk would have', async () => {
      await open(sink);
      const [list] = await rows('newsletter/lists');
      change = (record) => ({ ...record, name: 'Renamed', brand_new: 1 });
      const [result] = await world.json('refetch', 'newsletter/lists', '--key', `id=${String(list?.['id'])}`);
      expect(result).toMatchObject({ result: 'updated' });
      const after = (await rows('newsletter/lists')).at(-1);
      expect(after).toMatchObject({ id: list?.['id'], name: 'Renamed', _run_id: result?.['run'] });
      expect(after?.['_extra']).toMatchObject({ brand_new: 1 });
    });

    it('stores a record that no sync has met yet', async () => {
      await open(sink, '    include: [lists]\n');
      const lists = await rows('newsletter/lists');
      const known = new Set(lists.map(({ id }) => id));
      let added: JsonObject | undefined;
      for (let revision = 1; added === undefined && revision < 10; revision += 1) {
        world.moveTo(revision);
        added = world.newsletter
          .list('lists', {})
          .slice(0, 100)
          .find(({ id }) => !known.has(id));
      }
      const [result] = await world.json(
        'refetch',
        'newsletter/lists',
        '--key',
        `id=${text(added?.['id'] ?? null)}`,
      );
      expect(result).toMatchObject({ result: 'inserted' });
      expect((await rows('newsletter/lists')).map(({ id }) => id)).toContain(added?.['id']);
      // The next sync finds it as it is.
      const report = (await world.json('sync', 'newsletter')).at(-1);
      expect(report).toMatchObject({ report: { outcome: 'ok', entities: [{ counts: { inserted: 0 } }] } });
    });

    it('leaves the row of a deleted record unchanged, and ends with 3, unless deletes are allowed', async () => {
      await open(sink);
      const before = await rows('newsletter/lists');
      const key = `id=${String(before[0]?.['id'])}`;
      change = () => null;
      const kept = await world.cli('refetch', 'newsletter/lists', '--key', key);
      expect(kept).toMatchObject({
        code: 3,
        stdout: expect.stringContaining('nothing was changed') as string,
      });
      expect(await rows('newsletter/lists')).toEqual(before);
      const [deleted] = await world.json('refetch', 'newsletter/lists', '--key', key, '--allow-deletes');
      expect(deleted).toMatchObject({ result: 'deleted' });
      expect((await rows('newsletter/lists')).at(-1)).toMatchObject({ id: before[0]?.['id'], _op: 'delete' });
      const [again] = await world.json('refetch', 'newsletter/lists', '--key', key, '--allow-deletes');
      expect(again).toMatchObject({ result: 'not-stored' });
      change = (record) => record;
      const [back] = await world.json('refetch', 'newsletter/lists', '--key', key);
      expect(back).toMatchObject({ result: 'updated' });
    });

    it('stores nothing of a record that is not the one that was asked for', async () => {
      await open(sink);
      const before = await rows('newsletter/lists');
      change = (record) => ({ ...record, id: 'other' });
      const key = `id=${String(before[0]?.['id'])}`;
      const result = await world.cli('refetch', 'newsletter/lists', '--key', key);
      expect(result.code).toBe(1);
      expect(result.stderr).toContain('["other"]');
      expect(await rows('newsletter/lists')).toEqual(before);
    });
  });

  describe('refetch', () => {
    it.each([
      [['newsletter/list_members', '--key', 'id=x'], 'missing: list_id'],
      [['newsletter/lists', '--key', 'id=x', 'name=y'], 'a record of lists is known by id'],
      [['newsletter/lists', '--key', 'id=x', '--key', 'id=y'], 'is given twice'],
      [['newsletter/lists', '--key', 'x'], 'expected name=value'],
      [['newsletter/segments', '--key', 'list_id=a', 'id=one'], 'expected integer'],
      [['newsletter/tags', '--key', 'list_id=a', 'id=1'], 'has the actions list, not get'],
      [['newsletter/email_activity_events', '--key', 'id=1'], 'elements of email_activity'],
      [['wiki/blocks', '--key', 'id=nowhere'], 'does not say which listing it belongs to'],
    ])('refuses %j before any call', async (args, message) => {
      await open('sqlite', '    include: [lists]\n');
      const result = await world.cli('refetch', ...args);
      expect(result).toMatchObject({ code: 2, stderr: expect.stringContaining(message) as string });
    });
  });
});

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
    change: "UPDATE newsletter__campaigns SET _hash = 'x', type = 'x' WHERE id = ?",
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
    const config = await writeCliConfig(folder, service.url, { isWhole: more !== '' });
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
        const [now, before] = [to, from].map((name) => pg.escapeLiteral(name));
        const update = `UPDATE edited.newsletter__lists SET name = ${now} WHERE name = ${before}`;
        await askPostgres((await sharedPostgres()).url, update);
      },
    },
  } as const;

  async function open(type: keyof typeof kinds, isWhole = false): Promise<CliWorld> {
    const url = type === 'postgres' ? (await sharedPostgres()).url : '';
    if (url !== '') await askPostgres(url, 'DROP SCHEMA IF EXISTS edited CASCADE');
    const sinkSettings = kinds[type].settings.replace('URL', url);
    const world = await openCliWorld({ sinkSettings, isWhole });
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
      const world = await open(type, true);
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
