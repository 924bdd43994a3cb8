import { createHash } from 'node:crypto';
import { readdir, readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { afterEach, describe, expect, vi } from 'vitest';
import { it } from '../support/it.ts';
import type { Service } from '../../src/service/start-service.ts';
import { cliSecret, startCliService, writeCliConfig } from '../support/cli-config.ts';
import { openCliWorld } from '../support/cli-world.ts';
import { callCli, jsonLines, startCli, type CliResult } from '../support/run-cli.ts';
import { triedSinks } from '../support/trials.ts';

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

it('is refused before the service is asked where there is no temporary folder', async () => {
  const config = await synced(kinds[0].sink);
  const before = service.requestCount();
  const none = join(folder, 'none');
  vi.stubEnv('TMPDIR', none);
  expect(await cli(['audit', 'newsletter/list_members', '--config', config])).toMatchObject({
    code: 1,
    stderr: expect.stringContaining(
      `Expected a temporary folder that this user can write to, found none (${none})`,
    ) as string,
  });
  expect(service.requestCount()).toBe(before);
});

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

  it('compares rows that are elements of another entity', async () => {
    const config = await synced(kind.sink);
    const result = await cli(['audit', 'newsletter/email_activity_events', '--config', config, '--json']);
    expect(jsonLines(result)).toMatchObject([{ kind: 'audit', isEqual: true, isProven: true }]);
    expect(result.code).toBe(0);
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

  it('names as many keys as it is asked to, and counts the rest', async () => {
    const config = await synced(kind.sink);
    const keys = campaignKeys(kind);
    tamper(kind, (db) => keys.forEach((key) => db.prepare(tampering.drop).run(idOf(key))));
    const result = await cli(['audit', 'newsletter/campaigns', '--config', config, '--limit', '2']);
    const [first, second] = keys.toSorted();
    expect(result.stdout).toContain(
      `: ${keys.length}\n    ${first}\n    ${second}\n    and ${keys.length - 2} more\n`,
    );
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
