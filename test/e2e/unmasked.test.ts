import { randomBytes } from 'node:crypto';
import { appendFileSync, readFileSync, writeFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { openCliWorld, type CliWorld } from '../support/cli-world.ts';
import { openClearWorld } from '../support/masks/clear-world.ts';
import { contentsOf } from '../support/masks/find-values.ts';
import { foundIn } from '../support/masks/marked-world.ts';
import { jsonLines } from '../support/run-cli.ts';
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

// Proves promise 10.6
it('leaves no byte of what reads under a mask have written over, and names elements that none replaces', async () => {
  await using world = await openCliWorld();
  await world.json('sync', 'newsletter');
  const rows = jsonLines(await world.cli('export', 'newsletter/email_activity'));
  const addresses = [...new Set(rows.map((row) => String(row['email_address'])))];
  // Ids are hashes of addresses, which no mask covers here.
  const find = (): readonly string[] =>
    [...contentsOf(world.folder)].flatMap(({ bytes }) => addresses.filter((one) => bytes.includes(one)));
  const hashed = '{ fields: { email_address: hash } }';
  const mask = (entities: readonly string[]): void => {
    const config = readFileSync(world.config, 'utf8').replace(/ {4}mask:\n(?: {6}.*\n)+/, '');
    const lines = entities.map((entity) => `      ${entity}: ${hashed}\n`).join('');
    writeFileSync(world.config, config.replace('  wiki:\n', `    mask:\n${lines}  wiki:\n`));
  };
  appendFileSync(world.config, `mask: { key: "${randomBytes(32).toString('base64')}" }\n`);
  mask(['email_activity']);
  await world.json('sync', 'newsletter');
  expect(await maskLines(world)).toContain('rows of email_activity_events');
  await world.json('purge', 'newsletter', '--unmasked');
  expect(await maskLines(world)).toBe('');

  mask(['email_activity', 'list_members', 'segment_members', 'unsubscribes']);
  await world.json('sync', 'newsletter');
  expect(find()).not.toEqual([]);
  const [end] = await world.json('purge', 'newsletter', '--unmasked');
  expect(end).toMatchObject({ entities: [{ rows: 0 }, { rows: 0 }, { rows: 0 }], texts: 0, left: [] });
  expect(find()).toEqual([]);
});
