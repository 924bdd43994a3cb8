import { existsSync, readFileSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openCliWorld, type CliWorld } from '../support/cli-world.ts';
import { jsonLines, startCli } from '../support/run-cli.ts';
import { triedSinks } from '../support/trials.ts';

describe.each(triedSinks)('export from a %s sink', (sink) => {
  let world: CliWorld;

  beforeAll(async () => {
    world = await openCliWorld({ sink, isWhole: true });
    expect((await world.cli('sync')).code).toBe(0);
  });

  afterAll(async () => {
    await world[Symbol.asyncDispose]();
  });

  // Proves promise 14
  it('gives every record once, in the order of _seq, and says what to ask for the next time', async () => {
    const result = await world.cli('export', 'newsletter/list_members');
    expect(result.code).toBe(0);
    const rows = jsonLines(result);
    expect(rows.length).toBeGreaterThan(10);
    const seqs = rows.map((row) => Number(row['_seq']));
    expect(seqs).toEqual(seqs.toSorted((left, right) => left - right));
    expect(new Set(rows.map((row) => `${String(row['list_id'])} ${String(row['id'])}`)).size).toBe(
      rows.length,
    );
    expect(rows.every((row) => row['_op'] === 'upsert')).toBe(true);
    const next = nextOf(result.stderr);
    expect(next).toBeGreaterThanOrEqual(seqs.at(-1) ?? 0);
    expect(result.stderr).toMatch(/fresh up to \d{4}-.*last successful sync \d{8}T\d{9}Z-/);
    const again = await world.cli('export', 'newsletter/list_members', '--since-seq', String(next));
    expect(again).toMatchObject({ code: 0, stdout: '' });
    const half = seqs[Math.floor(seqs.length / 2)] ?? 0;
    const rest = await world.cli('export', 'newsletter/list_members', '--since-seq', String(half));
    expect(jsonLines(rest).map((row) => row['_seq'])).toEqual(seqs.filter((seq) => seq > half));
  });

  it('gives the elements of records as rows of their own', async () => {
    const rows = jsonLines(await world.cli('export', 'newsletter/email_activity_events'));
    expect(rows.length).toBeGreaterThan(10);
    expect(rows[0]).toHaveProperty('timestamp');
  });

  it('reports the same as JSON on standard error, and on standard output when the records go to a file', async () => {
    const result = await world.cli('export', 'newsletter/lists', '--json');
    const { version, ...end } = JSON.parse(result.stderr) as Record<string, unknown>;
    expect(version).toBe(1);
    expect(end).toMatchObject({ connector: 'newsletter', entity: 'lists', deletes: 0, sinceSeq: 0 });
    expect(jsonLines(result)).toHaveLength(Number(end['upserts']));
    const [toFile] = await world.json('export', 'newsletter/lists', '--output', 'lists.jsonl');
    expect(toFile).toEqual(end);
    expect(readFileSync(join(world.folder, 'lists.jsonl'), 'utf8')).toBe(result.stdout);
    expect(end['entities']).toContainEqual({ entity: 'lists', asOf: end['asOf'] });
  });

  it('writes a file for its owner alone, whole or not at all, and the next number after it', async () => {
    const args = ['export', 'newsletter/lists', '--output', 'out/l.csv', '--format', 'csv'] as const;
    const result = await world.cli(...args, '--next-file', 'out/next.json');
    expect(result).toMatchObject({ code: 0, stdout: '' });
    const folder = join(world.folder, 'out');
    expect(readdirSync(folder).toSorted()).toEqual(['l.csv', 'next.json']);
    expect(statSync(join(folder, 'l.csv')).mode & 0o777).toBe(0o600);
    const next = JSON.parse(readFileSync(join(folder, 'next.json'), 'utf8')) as Record<string, unknown>;
    expect(next['nextSeq']).toBe(nextOf(result.stderr));
    const refused = await world.cli('export', 'newsletter/lists', '--output', 'out');
    expect(refused).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('not a link, folder') as string,
    });
  });

  it('says when nothing is stored yet, and refuses a number that the sink never gave', async () => {
    const nothing = await openCliWorld({ sink });
    await using _closing = nothing;
    const empty = await nothing.cli('export', 'newsletter/lists', '--format', 'csv');
    expect(empty.code).toBe(0);
    expect(empty.stdout).toMatch(/^id,web_id,.*_run_id\r\n$/);
    expect(nextOf(empty.stderr)).toBe(0);
    expect(existsSync(join(nothing.folder, 'main.db')) || existsSync(join(nothing.folder, 'main'))).toBe(
      false,
    );
    const beyond = await world.cli('export', 'newsletter/lists', '--since-seq', '1000000');
    expect(beyond).toMatchObject({
      code: 2,
      stdout: '',
      stderr: expect.stringContaining('Reload') as string,
    });
  });

  it.each([
    [['newsletter'], 'Expected <connector>/<entity>'],
    [['newsletter/nothing'], 'newsletter has no entity "nothing"; it has lists, campaigns'],
    [['newsletter/lists', '--since-seq', '-1'], '--since-seq'],
    [['newsletter/lists', '--since-seq', '1e3'], '--since-seq'],
    [['newsletter/lists', '--format', 'xml'], 'jsonl or csv'],
    [['newsletter/lists', '--safe-for-spreadsheets'], '--format csv'],
  ])('refuses %j', async (args, message) => {
    const result = await world.cli('export', ...args);
    expect(result).toMatchObject({ code: 2, stdout: '', stderr: expect.stringContaining(message) as string });
  });
});

describe('export while others work', () => {
  it.each(triedSinks)('has what was deleted since, in a %s sink', async (sink) => {
    const gone = new Set<unknown>();
    await using world = await openCliWorld({
      sink,
      wrap: (account) => ({
        list: (entity, params) => account.list(entity, params),
        get: (entity, params) => (gone.has(params['list_id']) ? null : account.get(entity, params)),
      }),
    });
    await world.cli('sync', 'newsletter');
    const first = await world.cli('export', 'newsletter/lists');
    const [list] = jsonLines(first);
    gone.add(list?.['id']);
    const key = `id=${String(list?.['id'])}`;
    expect((await world.cli('refetch', 'newsletter/lists', '--key', key, '--allow-deletes')).code).toBe(0);
    const second = await world.cli('export', 'newsletter/lists', '--since-seq', String(nextOf(first.stderr)));
    const [deleted, ...others] = jsonLines(second);
    expect(others).toEqual([]);
    expect(deleted).toMatchObject({ _op: 'delete', id: list?.['id'] });
    expect(Object.keys(deleted ?? {})).toEqual(['id', '_op', '_seq', '_changed_at', '_run_id']);
    expect(second.stderr).toContain('0 rows, 1 delete;');
    expect(jsonLines(await world.cli('export', 'newsletter/lists')).at(-1)).toEqual(deleted);
  });

  it('ends quietly when its reader goes away, without a number to resume from', async () => {
    await using world = await openCliWorld();
    await world.cli('sync', 'newsletter');
    const args = ['export', 'newsletter/list_members', '--next-file', 'next.json', '--config', world.config];
    const running = startCli(args, { cwd: world.folder, env: world.env });
    running.child.stdout?.destroy();
    const result = await running.result;
    expect(result).toMatchObject({ code: 0, stderr: '' });
    expect(existsSync(join(world.folder, 'next.json'))).toBe(false);
  });

  it('copies records to the letter, also where they hold what is a secret elsewhere', async () => {
    await using world = await openCliWorld();
    await world.cli('sync', 'newsletter');
    const rows = jsonLines(await world.cli('export', 'newsletter/lists'));
    const db = new Database(join(world.folder, 'main.db'));
    const secret = world.env['SECRET'] ?? '';
    db.prepare('UPDATE newsletter__lists SET name = ? WHERE id = ?').run(secret, rows[0]?.['id']);
    db.close();
    const result = await world.cli('export', 'newsletter/lists');
    expect(jsonLines(result).map((row) => row['name'])).toContain(secret);
    expect(result.stderr).not.toContain(secret);
  });
});

/** The last number of the last line. */
function nextOf(stderr: string): number {
  return Number(/--since-seq (\d+)\n$/.exec(stderr)?.[1]);
}
