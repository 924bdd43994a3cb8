import { afterEach, describe, expect, it } from 'vitest';
import { openCliWorld, type CliWorld } from '../support/cli-world.ts';
import { jsonLines } from '../support/run-cli.ts';
import { isLong } from '../support/trials.ts';

let world: CliWorld;

afterEach(async () => {
  await world[Symbol.asyncDispose]();
});

/** Two syncs; the second one finds a list with all that is below it gone. Gives its run. */
async function syncWithDeletes(sink: 'sqlite' | 'jsonl'): Promise<string> {
  world = await openCliWorld({ sink });
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

const keyFields: Readonly<Record<string, readonly string[]>> = {
  list_members: ['list_id', 'id'],
  segment_members: ['segment_id', 'id'],
};
const entities = ['lists', 'list_members', 'segment_members', 'campaigns'];

describe('undelete', () => {
  it('takes back every delete of one run, as changes of a new run, and nothing else', async () => {
    const run = await syncWithDeletes('sqlite');
    const before = await Promise.all(entities.map(states));
    const [done] = await world.json('undelete', 'newsletter', '--run', run);
    const deleted = before.flatMap((rows) => [...rows.values()]).filter((op) => op === 'delete').length;
    expect(deleted).toBeGreaterThan(3);
    expect(done).toMatchObject({ of: run, entities: { lists: 1 } });
    expect(Number(done?.['rows'])).toBeGreaterThanOrEqual(deleted);
    const after = await Promise.all(entities.map(states));
    expect(after.map((rows) => new Set(rows.keys()))).toEqual(before.map((rows) => new Set(rows.keys())));
    expect(after.flatMap((rows) => [...rows.values()])).not.toContain('delete');
    const feed = jsonLines(await world.cli('export', 'newsletter/lists')).at(-1);
    expect(feed).toMatchObject({ _op: 'upsert', _run_id: done?.['run'] });
    expect(typeof feed?.['name']).toBe('string');

    const [again] = await world.json('undelete', 'newsletter', '--run', run);
    expect(again).toMatchObject({ rows: 0, entities: {} });
  });

  it('leaves it to the next full sync to find what is really gone', async () => {
    const run = await syncWithDeletes('sqlite');
    const before = await Promise.all(entities.map(states));
    await world.json('undelete', 'newsletter', '--run', run);
    await world.json('sync', 'newsletter', '--full', '--allow-deletes');
    expect(await Promise.all(entities.map(states))).toEqual(before);
  });

  it.runIf(isLong)('takes back deletes in a JSONL sink too, each as a line', async () => {
    const run = await syncWithDeletes('jsonl');
    const [done] = await world.json('undelete', 'newsletter', '--run', run);
    expect(Number(done?.['rows'])).toBeGreaterThan(3);
    const after = await Promise.all(entities.map(states));
    expect(after.flatMap((rows) => [...rows.values()])).not.toContain('delete');
    const feed = jsonLines(await world.cli('export', 'newsletter/lists')).at(-1);
    expect(feed).toMatchObject({ _op: 'upsert', _run_id: done?.['run'] });
  });

  it('is refused for an unknown run, and for one of another connector', async () => {
    world = await openCliWorld();
    const report = (await world.json('sync', 'newsletter', '--select', 'lists')).at(-1)?.['report'];
    const { run } = report as { readonly run: string };
    const unknown = await world.cli('undelete', 'newsletter', '--run', '20200101T000000000Z-00000000');
    expect(unknown).toMatchObject({ code: 2, stderr: expect.stringContaining('"') as string });
    await world.json('sync', 'wiki', '--select', 'users');
    const other = await world.cli('undelete', 'wiki', '--run', run);
    expect(other).toMatchObject({ code: 2, stderr: expect.stringContaining('one of newsletter') as string });
  });
});
