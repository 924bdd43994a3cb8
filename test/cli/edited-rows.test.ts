import { join } from 'node:path';
import Database from 'better-sqlite3';
import pg from 'pg';
import { describe, expect, onTestFinished } from 'vitest';
import { it } from '../support/it.ts';
import { openCliWorld, type CliWorld } from '../support/cli-world.ts';
import { sharedPostgres } from '../support/postgres.ts';
import { jsonLines } from '../support/run-cli.ts';
import { triedSinks } from '../support/trials.ts';

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
