import { appendFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { openCliWorld, type CliWorld } from '../support/cli-world.ts';
import { filesWith } from '../support/files-with.ts';
import { jsonLines } from '../support/run-cli.ts';

let world: CliWorld;

afterEach(() => world[Symbol.asyncDispose]());

async function published(targets: string): Promise<{ readonly key: string; readonly subject: string }> {
  world = await openCliWorld({ settings: '    include: [lists, campaigns]\n' });
  appendFileSync(world.config, `publish:\n${targets}`);
  await world.json('sync', 'newsletter');
  world.moveTo(2);
  await world.json('sync', 'newsletter', '--full');
  const all = jsonLines(await world.cli('export', 'newsletter/campaigns'));
  const found = all.find((row) => row['_op'] === 'upsert' && typeof row['settings'] === 'object');
  const settings = found?.['settings'] as { readonly subject_line?: string } | undefined;
  return { key: `id=${String(found?.['id'])}`, subject: String(settings?.subject_line) };
}

describe('purge of what was published', () => {
  // Proves promise 21.1
  it('replaces every older publication of files by one without the record', async () => {
    const { key, subject } = await published('  lake: { type: files, directory: ./lake, format: jsonl }\n');
    const lake = join(world.folder, 'lake');
    expect(readdirSync(join(lake, '_publications')).length).toBeGreaterThan(1);
    const subjects = jsonLines(await world.cli('export', 'newsletter/campaigns')).filter((row) =>
      JSON.stringify(row).includes(subject),
    );
    expect(subjects).toHaveLength(1);
    expect(filesWith(lake, subject).length).toBeGreaterThan(0);
    const [done] = await world.json('purge', 'newsletter/campaigns', '--key', key);
    expect(done).toMatchObject({ report: { targets: [{ target: 'lake', problem: null }] } });
    expect(filesWith(world.folder, subject)).toEqual([]);
    expect(readdirSync(join(lake, '_publications'))).toHaveLength(1);
    expect(await world.json('publish', 'check', 'lake')).toMatchObject([{ problems: [] }]);
    const [next] = await world.json('publish', 'lake');
    expect(next).toMatchObject({ result: 'unchanged' });
  });

  it('names a target that it cannot clean, and ends with a code of its own', async () => {
    const { key } = await published(`  mart: { type: postgres, url: '\${MART_URL}', when: by-hand }\n`);
    const result = await world.cli('purge', 'newsletter/campaigns', '--key', key);
    expect(result).toMatchObject({
      code: 3,
      stdout: expect.stringContaining('Target mart may still hold them: ') as string,
    });
  });
});
