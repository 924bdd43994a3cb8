import { randomBytes } from 'node:crypto';
import { appendFileSync, readFileSync, writeFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { openCliWorld, type CliWorld } from '../support/cli-world.ts';
import { contentsOf } from '../support/masks/find-values.ts';
import { openClearWorld } from '../support/masks/clear-world.ts';
import { jsonLines } from '../support/run-cli.ts';
import { triedSinks } from '../support/trials.ts';

const keyed = { segment_members: 'id', email_activity: 'email_id', unsubscribes: 'email_id' } as const;
/** How many live and deleted records there are of each entity with a hashed key, and how many keys are hashes. */
async function recordsOf(world: CliWorld) {
  const found = Object.entries(keyed).map(async ([entity, field]) => {
    const lines = jsonLines(await world.cli('export', `newsletter/${entity}`));
    const deleted = lines.filter((line) => line['_op'] === 'delete').length;
    const hashed = lines.filter((line) => String(line[field]).startsWith('hmac-')).length;
    return [entity, { live: lines.length - deleted, deleted, hashed }] as const;
  });
  return Object.fromEntries(await Promise.all(found));
}

// Proves promise 10.8
it.each(triedSinks)(
  'a sync into a %s sink refuses a mask of a key until what is stored in clear was counted, and removed',
  { timeout: 300_000 },
  async (sink) => {
    const more = `publish:\n  lake: { type: files, directory: ./lake, format: jsonl, connectors: [newsletter] }\n`;
    await using clear = await openClearWorld(sink, { more, size: 'tiny' });
    const { world } = clear;
    await world.cli('sync', 'newsletter', '--full', '--allow-deletes');
    const before = await recordsOf(world);
    expect(before['segment_members']?.deleted).toBeGreaterThan(0);

    clear.mask();
    const advice = expect.stringContaining('purge newsletter --unmasked') as string;
    expect(await world.cli('sync', 'newsletter')).toMatchObject({ code: 2, stderr: advice });
    const unsure = await world.cli('purge', 'newsletter', '--unmasked', '--json');
    expect(unsure.code).toBe(2);
    const removed = expect.arrayContaining(
      Object.entries(before).map(([entity, { live, deleted }]): unknown =>
        expect.objectContaining({ entity, rows: live + deleted, deleted }),
      ),
    ) as unknown;
    expect(jsonLines(unsure)).toMatchObject([{ isDone: false, removed }]);
    expect(await recordsOf(world)).toEqual(before);

    const sure = await world.cli('purge', 'newsletter', '--unmasked', '--yes', '--json');
    expect(jsonLines(sure)).toMatchObject([{ isDone: true, removed, left: [] }]);
    await world.cli('sync', 'newsletter');
    const after = await recordsOf(world);
    for (const [entity, { live }] of Object.entries(before)) {
      const now = after[entity];
      expect(now, entity).toMatchObject({ deleted: 0, hashed: now?.live });
      // The service refuses one of the campaigns.
      if (entity !== 'email_activity') expect(now?.live, entity).toBe(live);
    }
    const status = await world.cli('status', 'newsletter');
    expect(status.stdout).not.toContain('look deleted');
    await world.json('purge', 'newsletter', '--unmasked');
    expect(await recordsOf(world)).toEqual(after);
    expect(await world.json('publish', 'check', 'lake')).toMatchObject([{ problems: [] }]);
    if (sink !== 'jsonl') return;
    const lines = [...contentsOf(world.folder)]
      .filter(({ place }) => /^\/.*main.*segment_members.*\.jsonl$/.test(place))
      .flatMap(({ bytes }) => bytes.toString().trim().split('\n'))
      .map((line) => JSON.parse(line) as Record<string, unknown>);
    expect(lines).toHaveLength(before['segment_members']?.live ?? 0);
    expect(lines.filter((line) => !String(line['id']).startsWith('hmac-'))).toEqual([]);
  },
);

async function openNewsletter() {
  const world = await openCliWorld({
    settings: '    include: [lists, list_members, segments, segment_members]\n',
  });
  const keyOf = (): string => `mask: { key: "${randomBytes(32).toString('base64')}" }\n`;
  appendFileSync(world.config, keyOf());
  const edit = (change: (config: string) => string): void =>
    writeFileSync(world.config, change(readFileSync(world.config, 'utf8')));
  const mask = `    mask: { segment_members: { fields: { id: hash } }, list_members: { fields: { id: keep } } }\n`;
  return {
    world,
    mask: () => edit((config) => config.replace('  wiki:\n', `${mask}  wiki:\n`)),
    unmask: () => edit((config) => config.replace(mask, '')),
    otherKey: () => edit((config) => config.replace(/^mask: .*\n/m, keyOf())),
    [Symbol.asyncDispose]: () => world[Symbol.asyncDispose](),
  };
}

// Proves promise 10.8
it('a sync refuses keys that are hashes of another key or of a mask that is gone, until they are dropped', async () => {
  await using newsletter = await openNewsletter();
  const { world } = newsletter;
  newsletter.mask();
  await world.json('sync', 'newsletter');
  const refused = (why: string) => ({ code: 2, stderr: expect.stringContaining(why) as string });
  newsletter.otherKey();
  expect(await world.cli('sync', 'newsletter')).toMatchObject(refused('as hashes of another mask.key'));
  newsletter.unmask();
  expect(await world.cli('sync', 'newsletter')).toMatchObject(refused('id is stored as hashes'));
  await world.json('reset', 'newsletter/segment_members', '--data', '--yes');
  expect((await world.json('sync', 'newsletter')).at(-1)).toMatchObject({ report: { outcome: 'ok' } });
});

// Proves promise 10.8
it('a sync refuses a mask of a key of which records were purged: they would be stored again', async () => {
  await using newsletter = await openNewsletter();
  const { world } = newsletter;
  await world.json('sync', 'newsletter');
  const [first] = jsonLines(await world.cli('export', 'newsletter/segment_members'));
  const key = ['segment_id', 'id'].flatMap((name) => ['--key', `${name}=${String(first?.[name])}`]);
  await world.json('purge', 'newsletter/segment_members', ...key);
  newsletter.mask();
  const stderr = expect.stringContaining('1 of its records were purged') as string;
  expect(await world.cli('sync', 'newsletter')).toMatchObject({ code: 2, stderr });
  expect(await world.cli('purge', 'newsletter', '--unmasked', '--yes')).toMatchObject({ code: 2, stderr });
  newsletter.unmask();
  await world.json('sync', 'newsletter', '--full');
  const stored = jsonLines(await world.cli('export', 'newsletter/segment_members'));
  expect(stored.map(({ id, segment_id }) => [segment_id, id])).not.toContainEqual([
    first?.['segment_id'],
    first?.['id'],
  ]);
});
