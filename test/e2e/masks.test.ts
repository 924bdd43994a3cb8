import { expect, it } from 'vitest';
import type { SampleSize } from '../../src/sample/sample-account.ts';
import { contentsOf, openSearchFor } from '../support/masks/find-values.ts';
import { foundIn, marked, maskedMembers, maskWithout, openMarks } from '../support/masks/marked-world.ts';
import { openMaskedWorld, tablesOf, useEverything, type Seen } from '../support/masks/masked-world.ts';
import { startReceiver } from '../support/notify/receiver.ts';
import { redisContents } from '../support/redis-contents.ts';
import { startRedis } from '../support/redis.ts';
import { startWorkerProcess } from '../support/worker-process.ts';
import { isLong, triedSinks } from '../support/trials.ts';

const textOf = (seen: readonly Seen[]): string => seen.map(({ text }) => text).join('\n');

/** One long list has no campaigns, and so no exploded rows and no refusal. */
const sizes: readonly SampleSize[] = isLong ? ['tiny', { members: marked }] : ['tiny'];

// Proves promise 10.5
it.each(triedSinks.flatMap((sink) => sizes.map((size) => ({ sink, size }))))(
  'stores and shows no masked value anywhere ($sink, $size)',
  { timeout: 1_200_000 },
  async ({ sink, size }) => {
    const marks = openMarks();
    await using world = await openMaskedWorld(sink, marks, maskWithout(null), { size, hasServers: true });
    const seen = await useEverything(world);
    expect(marks.values().length).toBeGreaterThan(size === 'tiny' ? 200 : 8_000);
    const found = await foundIn(world, sink, textOf(seen), marks.values());
    expect([...found]).toEqual([]);
    if (isLong) console.log(`${sink}: ${marks.values().length} values, ${found.size} found`);
  },
);

/** Everything that shows values of rows; `explain` and the pages show none. */
const showing = [
  'bucket',
  'mcp',
  'rows of columns',
  'rows of desk',
  'rows of mart',
  'table newsletter__list_members',
];
const ofMembers = [...showing, 'definitions try', 'export', 'get', 'list', 'table _sync_quarantine'];
const inFiles = ['file lake', 'file main.db', 'file other.db', 'file sheets'];
/** Where a value must be seen when the rule of its path is left out: else the search would not see a leak there. */
const placesWithout: Readonly<Record<string, readonly string[]>> = {
  email_address: [...ofMembers, ...inFiles, 'search', 'table newsletter__list_members__versions'],
  // In `_extra`, inside of JSON.
  'contacts.email': [...ofMembers, ...inFiles],
  'activity.ip': ['bucket', 'mcp', 'rows of columns', 'rows of desk', 'rows of mart', ...inFiles],
};

// Proves promise 10.5
it.runIf(isLong).each(Object.keys(placesWithout))(
  'has values found in every place where the mask leaves out %s',
  { timeout: 1_200_000 },
  async (left) => {
    const marks = openMarks();
    await using world = await openMaskedWorld('sqlite', marks, maskWithout(left), { hasServers: true });
    const seen = [...(await useEverything(world)), ...tablesOf(`${world.folder}/main.db`)];
    const search = openSearchFor(marks.at(left));
    const places = new Set(
      seen.flatMap(({ place, text }) => (search(Buffer.from(text)).size > 0 ? [place] : [])),
    );
    for (const { place, bytes } of contentsOf(world.folder)) {
      const name = ['lake', 'sheets', 'main.db', 'other.db'].find((one) => place.includes(`/${one}`));
      if (name !== undefined && search(bytes).size > 0) places.add(`file ${name}`);
    }
    expect([...places]).toEqual(expect.arrayContaining([...(placesWithout[left] ?? [])]));
  },
);

const paths = [
  ...Object.keys(maskedMembers).filter((path) => !path.startsWith('merge_fields')),
  'activity.ip',
];

it.each(isLong ? paths : ['contacts.email'])(
  'has all values of it found, and no others, where the mask leaves out %s',
  { timeout: 300_000 },
  async (left) => {
    const marks = openMarks();
    await using world = await openMaskedWorld('sqlite', marks, maskWithout(left));
    const { stdout } = await world.cli('sync', 'newsletter');
    const found = await foundIn(world, 'sqlite', stdout, marks.values());
    expect([...found.keys()].toSorted()).toEqual(marks.at(left).toSorted());
  },
);

// Proves promise 10.5
it.each(isLong ? [null, 'nickname'] : [null])(
  'lets no masked value into Redis, a log of a worker or a message (left out of the mask: %s)',
  { timeout: 300_000 },
  async (left) => {
    await using redis = await startRedis();
    await using receiver = await startReceiver();
    const marks = openMarks();
    const more = `allowNotifyHosts: ["${receiver.host}"]\nnotify:\n  ops: { type: webhook, url: "${receiver.url}" }\n`;
    await using world = await openMaskedWorld(
      'sqlite',
      marks,
      `${maskWithout(left)}    schedule: { every: 1h }\n`,
      { redisUrl: redis.url, more },
    );
    const worker = startWorkerProcess(world);
    await worker.until(({ msg }) => msg === 'published');
    await receiver.arrived(1);
    const contents = await redisContents(redis.url);
    expect(contents).toContain('newsletter');
    worker.child.kill('SIGTERM');
    await worker.ended;
    const seen = [contents, JSON.stringify(worker.lines), ...worker.stray, JSON.stringify(receiver.received)];
    expect(receiver.bodies()).toMatchObject([{ kind: 'incomplete', connector: 'newsletter' }]);
    // No record goes there, whatever is masked: a value that is not masked is in the sink alone.
    const search = openSearchFor(marks.values());
    expect([...search(Buffer.from(seen.join('\n')))]).toEqual([]);
    const found = await foundIn(world, 'sqlite', '', marks.values());
    expect([...found.keys()].toSorted()).toEqual(left === null ? [] : marks.at(left).toSorted());
  },
);
