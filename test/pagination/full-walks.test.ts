import { describe, expect, it } from 'vitest';
import { seededRandom } from '../support/seeded-random.ts';
import { firstSeed, trials, tryFullWalks } from '../support/pagination/full-walk-trials.ts';
import { simulatedService, type Move } from '../support/pagination/simulated-service.ts';
import { simulatedSync, type SimulatedEntity } from '../support/pagination/simulated-sync.ts';

/** What can happen in such a listing, and how many of the walks should come to their end with a proof. */
const kinds: readonly (readonly [SimulatedEntity, readonly Move[], number])[] = [
  ['ordered', ['append', 'delete', 'delete'], 0.5],
  ['unordered', ['append', 'insert', 'delete', 'move', 'change'], 0],
  ['growing', ['append', 'insert', 'insert'], 0.5],
];

/** The same by numbers and by the last record, with totals and flags and without, under caps that change. */
const ownKinds: typeof kinds = [
  ['ordered_pages', ['append', 'delete', 'delete'], 0.3],
  ['unordered_pages', ['append', 'insert', 'delete', 'move', 'change'], 0],
  ['growing_pages', ['append', 'insert', 'insert'], 0.3],
  ['fixed_pages', ['append', 'delete'], 0.1],
  ['last_key', ['append', 'delete', 'change', 'move'], 0.5],
  ['last_date', ['append', 'delete'], 0],
];

describe.each([...kinds, ...ownKinds])('a full walk of a listing: %s', (name, moves, provenShare) => {
  // Proves promise 3
  it(`that claims an ordered proof has met every row that was there throughout (seed ${firstSeed})`, async () => {
    expect(await tryFullWalks(name, moves)).toBeGreaterThanOrEqual(trials * provenShare);
  }, 60_000);
});

describe('a full walk by offset', () => {
  it('proves nothing where the service ignores the sort', async () => {
    for (let seed = firstSeed; seed < firstSeed + 40; seed += 1) {
      const random = seededRandom(seed);
      const service = simulatedService(
        random,
        { roundMs: 1000, cap: 20, violence: 0, moves: [], ignores: 'sort' },
        { rows: 120 },
      );
      service.rows
        .toSorted(() => random() - 0.5)
        .forEach((row, index) => Object.assign(service.rows, { [index]: row }));
      const walk = await simulatedSync('ordered', service, random).walk();
      if (!('seal' in walk)) throw new Error(walk.failure.message);
      expect(walk.seal).toMatchObject({ proof: { kind: 'seam', isOrdered: false }, absence: 'walk' });
      expect(walk.met.size).toBe(120);
    }
  });

  it('of several pages without a known order proves nothing, one of one page does', async () => {
    for (const [rows, isOrdered] of [
      [100, false],
      [8, true],
    ] as const) {
      const random = seededRandom(firstSeed);
      const service = simulatedService(random, { roundMs: 1, cap: 30, violence: 0, moves: [] }, { rows });
      const walk = await simulatedSync('unordered', service, random).walk();
      expect('seal' in walk && walk.seal.proof.isOrdered).toBe(isOrdered);
    }
  });
});
