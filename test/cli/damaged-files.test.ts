import { cpSync, readdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { openCliWorld, type CliWorld } from '../support/cli-world.ts';
import { jsonLines } from '../support/run-cli.ts';

let world: CliWorld;
let lake: string;
let sound: string;

beforeAll(async () => {
  world = await openCliWorld({ sink: 'jsonl', isWhole: true });
  await world.json('sync');
  lake = join(world.folder, 'main');
  sound = join(world.folder, 'sound');
  cpSync(lake, sound, { recursive: true });
});

afterAll(() => world[Symbol.asyncDispose]());

beforeEach(() => {
  rmSync(lake, { recursive: true });
  cpSync(sound, lake, { recursive: true });
});

function fileOf(entity: string): string {
  const folder = join(lake, 'newsletter', entity);
  return join(folder, String(readdirSync(folder)[0]));
}

const advice =
  /Restore it from a backup and sync again\. Without a backup: `(npx --no-install )?connector-sync reset newsletter --yes`/;
const flip = (file: string): void => {
  const bytes = readFileSync(file);
  writeFileSync(file, bytes.fill('x', 20, 21));
};

describe('a closed JSONL file', () => {
  // Proves promise 1.4
  it.each([
    ['is gone', (file: string) => rmSync(file), 'it is not there'],
    ['is too short', (file: string) => truncateSync(file, 10), 'it holds 10'],
  ])('that %s is reported by status, check and sync, which end with 1', async (_how, damage, found) => {
    const [file, other] = [fileOf('lists'), fileOf('campaigns')];
    const bytes = readFileSync(file).length;
    damage(file);
    rmSync(other);
    const text = `${file} should hold ${bytes} bytes of stored changes, but ${found}`;

    const status = await world.cli('status');
    expect(status.stdout).toContain(`  ! ${text}\n`);
    expect(status.stdout).toContain(`  ! ${other} should hold`);
    expect(status.stdout).toMatch(advice);
    expect(status.stdout.match(/Restore/g)).toHaveLength(1);
    expect(status.code).toBe(1);
    expect((await world.cli('status', 'wiki')).code).toBe(0);
    const [document] = jsonLines(await world.cli('status', 'newsletter', '--json'));
    expect(document).toMatchObject({
      connectors: [
        {
          damagedFiles: [
            { path: other, found: null },
            { path: file, length: bytes },
          ],
        },
      ],
    });

    const check = await world.cli('check');
    expect(check.stdout).toContain(`✗ files of newsletter: ${text}\n`);
    expect(check.stdout).toMatch(/✗ files of newsletter: 2 of \d+ closed files damaged\. Restore it/);
    expect(check.stdout).toMatch(/✓ files of wiki: \d+ closed files, length as stored\n/);
    expect(check.code).toBe(1);

    const sync = await world.cli('sync', 'newsletter');
    expect(sync.stderr + sync.stdout).toMatch(advice);
    expect(sync.code).toBe(1);
  });

  // Proves promise 1.4
  it('with other content of the same length is found by check --deep, and what it advises brings the lines back', async () => {
    const file = fileOf('lists');
    const [text, { length }] = [readFileSync(file, 'utf8'), readFileSync(file)];
    flip(file);
    const shallow = await world.cli('check');
    expect([shallow.code, shallow.stdout]).toEqual([0, expect.stringContaining('length as stored')]);
    const deep = await world.cli('check', '--deep');
    expect(deep.stdout).toContain(
      `✗ files of newsletter: ${file} should hold ${length} bytes of stored changes, but its content has changed\n`,
    );
    expect(deep.stdout).toMatch(advice);
    expect(deep.stdout).toMatch(/✓ files of wiki: \d+ closed files, content as stored\n/);
    expect(deep.code).toBe(1);

    expect((await world.cli('reset', 'newsletter', '--yes')).code).toBe(0);
    expect((await world.cli('sync', 'newsletter')).code).toBe(0);
    expect((await world.cli('check', '--deep')).code).toBe(0);
    const ids = (lines: string): readonly unknown[] =>
      lines.split('\n').flatMap((line) => (line === '' ? [] : [(JSON.parse(line) as { id: unknown }).id]));
    const folder = join(lake, 'newsletter', 'lists');
    const after = readdirSync(folder).filter((name) => name.endsWith('.jsonl'));
    const stored = after.flatMap((name) => ids(readFileSync(join(folder, name), 'utf8')));
    expect([stored.length, new Set(stored)]).toEqual([ids(text).length, new Set(ids(text))]);
  });
});
