import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { afterEach, describe, expect, it } from 'vitest';
import { openCliWorld, type CliWorld } from '../support/cli-world.ts';

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
    const others = ', twin: { type: sqlite, path: ./twin.db }, lines: { type: jsonl, directory: ./lines } }';
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
