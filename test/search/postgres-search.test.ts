import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { keptParts } from '../../src/search/narrowing.ts';
import { isNear } from '../support/search/plain-search.ts';
import { seededRandom } from '../support/seeded-random.ts';
import { startSeed } from '../support/trials.ts';
import { indexWords, openPostgresWorld, type PostgresWorld } from '../support/search/postgres-world.ts';
import { thingsEntity } from '../support/search/things.ts';

const keyword = { query: { filter: { keyword: { title: 'quarterly' } } }, fields: ['id'] };
let world: PostgresWorld;

beforeAll(async () => {
  world = await openPostgresWorld(thingsEntity());
  await world.store([
    { id: 'a', title: 'A QUARTERLY report' },
    { id: 'b', title: 'Ｑuarterly, réport' },
    { id: 'c', title: 'Some plan' },
  ]);
});
afterAll(async () => {
  await world[Symbol.asyncDispose]();
});

describe('a search of a PostgreSQL sink', () => {
  it('ends on the server too when it is interrupted, and at its deadline', async () => {
    const waiting = `SELECT count(*)::integer AS n FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%news__things%'`;
    const waitingSearches = async (): Promise<unknown> => (await world.run(waiting))[0]?.['n'];
    await using lock = await world.lock('news__things');
    const interrupted = new AbortController();
    const search = world.search(keyword, { signal: interrupted.signal });
    await expect.poll(waitingSearches, { timeout: 20_000 }).toBe(1);
    interrupted.abort(new Error('enough'));
    await expect(search).rejects.toThrow('enough');
    await expect.poll(waitingSearches, { timeout: 20_000 }).toBe(0);
    await expect(world.search(keyword, { deadlineMs: 500 })).rejects.toMatchObject({
      code: 'SEARCH_TOO_SLOW',
    });
    await expect.poll(waitingSearches, { timeout: 20_000 }).toBe(0);
    await lock.end();
    expect((await world.search(keyword)).data).toEqual([{ id: 'a' }, { id: 'b' }]);
  }, 60_000);

  it('compares texts with signs that PostgreSQL cannot store, or that stand for them, as they were', async () => {
    await world.store([
      { id: 'nul', remark: 'b\0' },
      { id: 'mark', remark: 'b\uE000' },
    ]);
    const found = async (filter: object): Promise<unknown> =>
      (await world.search({ query: { filter }, fields: ['id'] })).data.map(({ id }) => id);
    expect(await found({ lt: { remark: 'b\x01' } })).toEqual(['nul']);
    expect(await found({ gt: { remark: 'b\x01' } })).toEqual(['mark']);
    expect(await found({ like: { remark: '__' } })).toEqual(['nul', 'mark']);
    expect(await found({ contains: { remark: '1' } })).toEqual([]);
    expect(await found({ eq: { remark: 'b\uE000' } })).toEqual(['mark']);
  });

  it('looks for parts of a word of which every near word has one', () => {
    const random = seededRandom(startSeed());
    const letter = (): string => 'abc'[Math.floor(random() * 3)] ?? 'a';
    const wordOf = (length: number): string => Array.from({ length }, letter).join('');
    for (let trial = 0; trial < 2_000; trial += 1) {
      const word = wordOf(1 + Math.floor(random() * 12));
      const other = withSlips(word, letter, random);
      if (!isNear(word, other)) continue;
      expect(
        keptParts(word).some((part) => other.includes(part)),
        `${word} ${other}`,
      ).toBe(true);
    }
  });

  it('reads by the trigram indexes whose SQL it prints', async () => {
    await indexWords(world);
    const scans = `SELECT sum(idx_scan)::integer AS n FROM pg_stat_user_indexes AS u
      JOIN pg_index AS i USING (indexrelid) WHERE u.relname = 'news__things' AND i.indexprs IS NOT NULL`;
    const search = async (): Promise<unknown> => {
      expect((await world.search(keyword)).data).toEqual([{ id: 'a' }, { id: 'b' }]);
      return (await world.run(scans))[0]?.['n'];
    };
    // The server counts when a connection ends.
    await expect.poll(search, { timeout: 20_000 }).toBeGreaterThan(0);
  }, 60_000);
});

/** Two letters put in, left out, taken for others, or swapped with the next. */
function withSlips(word: string, letter: () => string, random: () => number): string {
  const letters = Array.from(word);
  for (let slip = 0; slip < 2; slip += 1) {
    const at = Math.floor(random() * letters.length);
    const kind = Math.floor(random() * 4);
    const [one = '', next = ''] = letters.slice(at, at + 2);
    if (kind === 0) letters.splice(at, 0, letter());
    else if (kind === 1) letters.splice(at, 1);
    else if (kind === 2) letters.splice(at, 1, letter());
    else letters.splice(at, 2, next, one);
  }
  return letters.join('');
}
