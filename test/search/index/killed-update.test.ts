import { fork } from 'node:child_process';
import { once } from 'node:events';
import { copyFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { member, members } from '../../contracts/sink/fixture.ts';
import { testProgram } from '../../support/ensure-built.ts';
import { seededRandom } from '../../support/seeded-random.ts';
import { updateSearchIndex } from '../../../src/search/index/update-search-index.ts';
import { trigramsOf } from '../../../src/search/words.ts';
import { IndexFile, IndexWorld, membersTarget, never } from '../../support/search/index-world.ts';
import { repeats, startSeed } from '../../support/trials.ts';

const kills = repeats('KILLS', { share: 2, full: 30 });
const seed = startSeed();
const program = testProgram('search/index/update-process.mjs');

let world: IndexWorld;

beforeEach(async () => {
  world = await IndexWorld.open();
});

afterEach(async () => {
  await world.close();
});

describe('an update of the search index', () => {
  it(`resumes after every kill, and ends with what a fresh index has (seed ${seed})`, async () => {
    const random = seededRandom(seed);
    await world.storeMany(
      13_000,
      (index) => `Ada${index % 700} of ${index} and ${Math.floor(random() * 500)}`,
    );
    let ended = 0;
    for (let kill = 0; kill < kills; kill += 1) {
      const transactions = Math.floor(random() * 3);
      const isDone = await killedUpdate(world.file, { transactions, laterMs: random() * 40 });
      if (isDone) ended += 1;
      const at = String(Math.floor(random() * 13_000));
      await world.store(member(at, `changed ${kill}`), member(`new${kill}`, 'Grace'));
      await world.sink.repair.tombstoneRecord(
        world.started.lease,
        world.started.run,
        members,
        `["a","${kill}"]`,
      );
    }
    await world.update();
    const found = world.contents();
    expect(ended).toBeLessThan(Math.max(kills, 1));
    // The same file without its index.
    const copy = join(world.bench.folder, 'copy.db');
    await world.bench.closeSinks();
    copyFileSync(world.file, copy);
    const fresh = new IndexFile(copy);
    fresh.write('UPDATE _search_index SET format = 0');
    await updateSearchIndex(copy, membersTarget, { signal: never });
    const anew = fresh.contents();
    expect(found.state).toEqual(anew.state);
    expect(found.rowsOfWords === anew.rowsOfWords).toBe(true);
    // Spellings are never taken out: those of words that went are left.
    const spelled = new Set(found.spellings);
    expect(anew.spellings.filter((word) => !spelled.has(word))).toEqual([]);
    expect(found.trigrams).toBe(found.spellings.reduce((sum, word) => sum + trigramsOf(word).length, 0));
  });

  it('may run twice at once beside a writer: each change is taken, none twice', async () => {
    await world.storeMany(9_000, (index) => `Ada ${index}`);
    const running = [world.update(), world.update(), world.update()];
    await world.store(member('1', 'Grace'), member('x', 'Grace'));
    const rows = (await Promise.all(running)).reduce((sum, one) => sum + one, 0) + (await world.update());
    expect(rows).toBeGreaterThanOrEqual(9_001);
    expect(rows).toBeLessThanOrEqual(9_002);
    expect(world.withWord('name', 'ada')).toHaveLength(8_999);
    expect(world.withWord('name', 'grace')).toEqual(['1', 'x']);
  });
});

/** Kills it some time after so many transactions; true when it was done before. */
async function killedUpdate(
  file: string,
  { transactions, laterMs }: { readonly transactions: number; readonly laterMs: number },
): Promise<boolean> {
  const child = fork(program, [], { serialization: 'advanced' });
  const exit = once(child, 'exit') as Promise<[number | null]>;
  let seen = 0;
  child.on('message', () => {
    seen += 1;
    if (seen === transactions + 1) void wait(laterMs).then(() => child.kill('SIGKILL'));
  });
  child.send({ file, target: membersTarget });
  const [code] = await exit;
  return code === 0;
}
