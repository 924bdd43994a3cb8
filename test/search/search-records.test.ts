import { describe, expect, it } from 'vitest';
import type { JsonObject } from '../../src/core/json.ts';
import { seededRandom } from '../support/seeded-random.ts';
import { plainRecord, plainResult, plainSearch, type PlainRecord } from '../support/search/plain-search.ts';
import { Draw } from '../support/search/random-searches.ts';
import { openSearchWorld } from '../support/search/search-world.ts';
import { thingsEntity } from '../support/search/things.ts';
import { repeats, startSeed } from '../support/trials.ts';

/** Filters in all. TRIALS asks for more. */
const trials = repeats('TRIALS', { share: 45, full: 3000 });
const perWorld = 30;
const firstSeed = startSeed();

describe('a search', () => {
  const seeds = Array.from({ length: Math.ceil(trials / perWorld) }, (_, index) => firstSeed + index);

  // Proves promise 16; specification 4.6.3-6
  it.each(seeds)('finds what a look at every record finds, in the same order (seed %i)', async (seed) => {
    const draw = new Draw(seededRandom(seed));
    using world = openSearchWorld(thingsEntity());
    const records = new Map<string, PlainRecord>();
    const store = (id: string): void => {
      const raw = draw.record(id);
      records.set(id, plainRecord(world.store(raw), raw));
    };
    for (let number = 0; number < 60; number += 1) store(`t${number}`);
    await world.index();
    // What came, changed and went since: the index does not know of it yet.
    for (let number = 0; number < 12; number += 1) store(`t${50 + number}`);
    for (const gone of ['t3', 't55']) {
      world.tombstone(records.get(gone)?.row ?? 0);
      records.delete(gone);
    }
    for (let trial = 0; trial < perWorld; trial += 1) {
      const filter: JsonObject | null = draw.below(12) === 0 ? null : draw.filter();
      const sort = draw.sort();
      const fields = draw.fields();
      const found = plainSearch([...records.values()], filter, sort);
      const asked = { query: { filter, sort } };
      const isIndexed = draw.below(2) === 0 && process.env['NOIDX'] === undefined;
      const about = text({ seed, trial, filter, sort, fields, isIndexed });
      const limit = 1 + draw.below(20);
      expect(world.ids({ ...asked, limit }, { isIndexed }), about).toEqual(
        found.map(({ values }) => values['id']),
      );
      expect(world.search({ ...asked, fields }, { isIndexed }).data, about).toEqual(
        found.map((record) => plainResult(record, fields)),
      );
    }
  });
});

function text(value: unknown): string {
  return JSON.stringify(value, (_, member: unknown) => (typeof member === 'bigint' ? `${member}n` : member));
}
