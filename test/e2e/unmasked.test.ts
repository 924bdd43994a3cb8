import { expect, it } from 'vitest';
import type { CliWorld } from '../support/cli-world.ts';
import { openClearWorld } from '../support/masks/clear-world.ts';
import { foundIn } from '../support/masks/marked-world.ts';
import { triedSinks } from '../support/trials.ts';

const targets = `publish:\n  lake: { type: files, directory: ./lake, format: jsonl, connectors: [newsletter] }\n`;

async function maskLines(world: CliWorld): Promise<string> {
  const { stdout } = await world.cli('status', 'newsletter');
  return stdout
    .replaceAll(/\n {4,}/g, ' ')
    .split('\n')
    .filter((line) => line.includes('mask of'))
    .join('\n');
}

// Proves promise 10.6
it.each(triedSinks)(
  'rewrites all that a %s sink holds from before a mask, where no read reaches it',
  { timeout: 300_000 },
  async (sink) => {
    await using clear = await openClearWorld(sink, { more: targets });
    const { world, marks } = clear;
    const find = async (): Promise<readonly string[]> => {
      const found = await foundIn(world, sink, '', marks.values(), { isPurged: true });
      return [...found].map(([value, place]) => `${value} in ${place}`);
    };
    expect((await find()).length).toBeGreaterThan(200);

    clear.mask();
    await world.cli('purge', 'newsletter', '--unmasked', '--yes');
    const early = await world.cli('purge', 'newsletter', '--unmasked');
    expect(early).toMatchObject({ code: 2, stderr: expect.stringContaining('not in use yet') as string });
    expect((await world.cli('sync', 'newsletter', '--allow-deletes')).code).toBe(3);
    expect(await maskLines(world)).toContain('are as before');
    expect((await find()).length).toBeGreaterThan(0);

    const [look] = await world.json('purge', 'newsletter', '--unmasked', '--dry-run');
    const entities = look?.['entities'] as readonly Record<string, unknown>[];
    const members = entities.find(({ entity }) => entity === 'list_members') ?? {};
    for (const count of ['rows', 'quarantined', sink === 'jsonl' ? 'lines' : 'versions']) {
      expect(members[count], count).toBeGreaterThan(0);
    }
    expect((await find()).length).toBeGreaterThan(0);
    const [done] = await world.json('purge', 'newsletter', '--unmasked');
    expect(done).toMatchObject({ entities, left: [], targets: [{ target: 'lake', problem: null }] });
    expect(await find()).toEqual([]);
    expect(await maskLines(world)).toBe('');

    // What was rewritten is as a read would have stored it.
    const { stdout } = await world.cli('sync', 'newsletter', '--full', '--allow-deletes', '--json');
    const counts = stdout
      .trim()
      .split('\n')
      .flatMap((line) => /"entity":"list_members","counts":({[^}]*})/.exec(line)?.[1] ?? []);
    expect(counts.at(-1)).toContain('"updated":0');
    expect(await find()).toEqual([]);
    expect(await world.json('publish', 'check', 'lake')).toMatchObject([{ problems: [] }]);
  },
);
