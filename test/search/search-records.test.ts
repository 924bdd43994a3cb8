import { describe, expect, it } from 'vitest';
import type { JsonObject } from '../../src/core/json.ts';
import { seededRandom } from '../support/seeded-random.ts';
import { plainRecord, plainResult, plainSearch, type PlainRecord } from '../support/search/plain-search.ts';
import { indexWords, openPostgresWorld } from '../support/search/postgres-world.ts';
import { Draw } from '../support/search/random-searches.ts';
import { openSearchWorld } from '../support/search/search-world.ts';
import { thingsEntity } from '../support/search/things.ts';
import { isLong, repeats, startSeed } from '../support/trials.ts';

/** Filters in all. TRIALS asks for more. */
const trials = repeats('TRIALS', { share: 45, full: 3000 });
const perWorld = 30;
const firstSeed = startSeed();

describe('a search', () => {
  const seeds = Array.from({ length: Math.ceil(trials / perWorld) }, (_, index) => firstSeed + index);

  // Proves promise 16; specification 4.6.3-6
  it.each(seeds)('finds what a look at every record finds, in the same order (seed %i)', async (seed) => {
    const draw = new Draw(seededRandom(seed));
    await using world = openSearchWorld(thingsEntity());
    await using postgres = await openPostgresWorld(thingsEntity());
    const records = new Map<string, PlainRecord>();
    const store = async (ids: readonly string[]): Promise<void> => {
      const raws = ids.map((id) => [id, draw.record(id)] as const);
      for (const [id, raw] of raws) records.set(id, plainRecord(world.store(raw), raw));
      await postgres.store(raws.map(([, raw]) => raw));
    };
    await store(numbered(0, 60));
    world.index();
    // What came, changed and went since.
    await store(numbered(50, 12));
    for (const gone of ['t3', 't55']) {
      const row = records.get(gone)?.row ?? 0;
      world.tombstone(row);
      await postgres.run(`UPDATE news__things SET _deleted_at = now() WHERE _row = ${row}`);
      records.delete(gone);
    }
    if (seed % 2 === 0) await indexWords(postgres);
    for (let trial = 0; trial < perWorld; trial += 1) {
      const filter: JsonObject | null = draw.below(12) === 0 ? null : draw.filter();
      const sort = draw.sort();
      const fields = draw.fields();
      const found = plainSearch([...records.values()], filter, sort);
      const asked = { query: { filter, sort } };
      const about = text({ seed, trial, filter, sort, fields });
      const limit = 1 + draw.below(20);
      const ids = found.map(({ values }) => values['id']);
      const results = found.map((record) => plainResult(record, fields));
      const isIndexed = draw.below(2) === 0;
      expect(await world.ids({ ...asked, limit }, { isIndexed }), about).toEqual(ids);
      expect((await world.search({ ...asked, fields }, { isIndexed })).data, about).toEqual(results);
      if (!isLong && trial % 5 > 0) continue;
      const few = { ...asked, limit: Math.max(limit, Math.ceil(ids.length / 3)) };
      expect(await postgres.pages(few), about).toEqual(await world.pages(few, { isIndexed: false }));
      expect((await postgres.search({ ...asked, fields })).data, about).toEqual(results);
    }
  });
});

function numbered(first: number, count: number): readonly string[] {
  return Array.from({ length: count }, (_, index) => `t${first + index}`);
}

function text(value: unknown): string {
  return JSON.stringify(value, (_, member: unknown) => (typeof member === 'bigint' ? `${member}n` : member));
}
