import { copyFileSync, rmSync, statSync, watch } from 'node:fs';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { afterEach, describe, expect, it } from 'vitest';
import { openCliWorld, type CliWorld } from '../support/cli-world.ts';
import { jsonLines, startCli } from '../support/run-cli.ts';
import { isLong } from '../support/trials.ts';

let world: CliWorld;

afterEach(async () => {
  await world[Symbol.asyncDispose]();
});

/** Two syncs; the second one finds a list with all that is below it gone. Gives its run. */
async function syncWithDeletes(sink: 'sqlite' | 'jsonl'): Promise<string> {
  world = await openCliWorld({ sink, settings: `    include: [${entities.join(', ')}, segments]\n` });
  await world.json('sync', 'newsletter');
  world.moveTo(3);
  const report = (await world.json('sync', 'newsletter', '--full', '--allow-deletes')).at(-1)?.['report'];
  return (report as { readonly run: string }).run;
}

async function states(entity: string): Promise<ReadonlyMap<string, string>> {
  const rows = jsonLines(await world.cli('export', `newsletter/${entity}`));
  // Of a deleted row only the key is there.
  const key = keyFields[entity] ?? ['id'];
  return new Map(rows.map((row) => [key.map((name) => row[name]).join(' '), String(row['_op'])]));
}

/** Rows, and which listings are due; without what names a run, a change or a time of it. */
function storedIn(file: string): Readonly<Record<'rows' | 'due', unknown>> {
  const db = new Database(file, { readonly: true });
  try {
    const tables = db
      .prepare(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name LIKE 'newsletter\\_\\_%' ESCAPE '\\' ORDER BY name",
      )
      .pluck()
      .all() as string[];
    const rows = tables
      .filter((name) => !name.endsWith('__versions'))
      .map((name) => {
        const all = db.prepare(`SELECT * FROM "${name}" ORDER BY _row`).all() as Record<string, unknown>[];
        return [
          name,
          all.map(({ _seq, _run_id, _changed_at, _valid_seq, _valid_from, _deleted_at, ...row }) => ({
            ...row,
            isDeleted: _deleted_at !== null,
          })),
        ];
      });
    const due = db
      .prepare(
        'SELECT entity, params, due_since IS NOT NULL AS is_due FROM _sync_partitions ORDER BY entity, params',
      )
      .all();
    return { rows, due };
  } finally {
    db.close();
  }
}

const keyFields: Readonly<Record<string, readonly string[]>> = {
  list_members: ['list_id', 'id'],
  segment_members: ['segment_id', 'id'],
};
/** Bytes of the log of writes. */
const longKills = Array.from({ length: 24 }, (_, index) => index * 150_000);
const entities = ['lists', 'list_members', 'segment_members', 'campaigns'];

describe('undo', () => {
  it('takes back every delete of one run, as changes of a new run', async () => {
    const run = await syncWithDeletes('sqlite');
    const before = await Promise.all(entities.map(states));
    const [done] = await world.json('undo', 'newsletter', '--run', run);
    const deleted = before.flatMap((rows) => [...rows.values()]).filter((op) => op === 'delete').length;
    expect(deleted).toBeGreaterThan(3);
    expect(done).toMatchObject({ of: run, entities: { lists: { revived: 1 } } });
    expect(Number(done?.['rows'])).toBeGreaterThanOrEqual(deleted);
    const after = await Promise.all(entities.map(states));
    expect(after.map((rows) => new Set(rows.keys()))).toEqual(before.map((rows) => new Set(rows.keys())));
    for (const [index, rows] of before.entries()) {
      for (const [key, op] of rows) if (op === 'delete') expect(after[index]?.get(key)).toBe('upsert');
    }
    const feed = jsonLines(await world.cli('export', 'newsletter/lists'));
    const back = feed.find(({ _op, _run_id }) => _op === 'upsert' && _run_id === done?.['run']);
    expect(typeof back?.['name']).toBe('string');

    const [again] = await world.json('undo', 'newsletter', '--run', run);
    expect(again).toMatchObject({ rows: 0, entities: {} });
  });

  it('is not refused for an undo that has marked no rows as deleted', async () => {
    const run = await syncWithDeletes('sqlite');
    const undo = async (of: string) => (await world.json('undo', 'newsletter', '--run', of))[0];
    const undone = String((await undo(run))?.['run']);
    const db = new Database(join(world.folder, 'main.db'));
    db.prepare(
      'UPDATE _sync_runs SET report = replace(report, \'"deleted":\', \'"deleted":0,"was":\') WHERE run = ?',
    ).run(undone);
    db.close();
    expect(await undo(undone)).toMatchObject({ of: undone, entities: { lists: {} } });
  });

  it('leaves it to the next full sync to find what is really gone', async () => {
    const run = await syncWithDeletes('sqlite');
    const before = await Promise.all(entities.map(states));
    await world.json('undo', 'newsletter', '--run', run);
    await world.json('sync', 'newsletter', '--full', '--allow-deletes');
    expect(await Promise.all(entities.map(states))).toEqual(before);
  });

  it('gives the same rows where it was killed on the way', { timeout: 60_000 }, async () => {
    world = await openCliWorld({ isWhole: true, settings: '    history: true\n' });
    await world.json('sync', 'newsletter');
    world.moveTo(3);
    const report = (await world.json('sync', 'newsletter', '--full', '--allow-deletes')).at(-1)?.['report'];
    const undo = ['undo', 'newsletter', '--run', (report as { readonly run: string }).run];
    const file = join(world.folder, 'main.db');
    copyFileSync(file, `${file}.kept`);
    const before = storedIn(file);
    await world.json(...undo);
    const expected = storedIn(file);
    const killed: unknown[] = [];
    for (const bytes of isLong ? longKills : [500_000, 1_000_000, 2_000_000]) {
      for (const end of ['', '-wal', '-shm']) rmSync(`${file}${end}`, { force: true });
      copyFileSync(`${file}.kept`, file);
      const running = startCli([...undo, '--config', world.config], { cwd: world.folder, env: world.env });
      const written = watch(world.folder, () => {
        const size = statSync(`${file}-wal`, { throwIfNoEntry: false })?.size ?? 0;
        if (size >= bytes) running.child.kill('SIGKILL');
      });
      const { code } = await running.result;
      written.close();
      if (code === null) killed.push(storedIn(file));
      await world.json(...undo);
      expect(storedIn(file)).toEqual(expected);
    }
    expect(killed).toContainEqual(expect.not.objectContaining(before));
    expect(killed).toContainEqual(expect.not.objectContaining(expected));
  });

  it('is refused for an unknown run, and for one of another connector', async () => {
    world = await openCliWorld();
    const report = (await world.json('sync', 'newsletter', '--select', 'lists')).at(-1)?.['report'];
    const { run } = report as { readonly run: string };
    const unknown = await world.cli('undo', 'newsletter', '--run', '20200101T000000000Z-00000000');
    expect(unknown).toMatchObject({ code: 2, stderr: expect.stringContaining('"') as string });
    await world.json('sync', 'wiki', '--select', 'users');
    const other = await world.cli('undo', 'wiki', '--run', run);
    expect(other).toMatchObject({ code: 2, stderr: expect.stringContaining('one of newsletter') as string });
  });
});
