import { describe, expect, it } from 'vitest';
import { seededRandom } from '../support/seeded-random.ts';
import { simulatedService, type Move, type ServiceRules } from '../support/pagination/simulated-service.ts';
import { simulatedSync, type SimulatedEntity } from '../support/pagination/simulated-sync.ts';
import { repeats, startSeed } from '../support/trials.ts';

const firstSeed = startSeed();
const trials = repeats('TRIALS', { share: 40, full: 2000 });

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

const changes: readonly Move[] = ['append', 'delete', 'change', 'bulk-change'];
/** Sorted by the time of the change, so that a changed row moves to the end, however coarse the times are. */
const byChange: typeof kinds = [
  ['tokens', changes, 0.5],
  ['keyset', changes, 0.3],
];

describe.each([...kinds, ...ownKinds, ...byChange])(
  'a full walk of a listing: %s',
  (name, moves, provenShare) => {
    // Proves promise 3
    it(`that claims an ordered proof has met every row that was there throughout (seed ${firstSeed})`, async () => {
      expect(await tryFullWalks(name, moves)).toBeGreaterThanOrEqual(trials * provenShare);
    }, 60_000);
  },
);

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

/**
 * Walks listings in full while rows move at every page boundary, with kills and small pages; gives how many walks ended
 * with an ordered proof. Each of those has met every row that was there throughout.
 */
async function tryFullWalks(name: SimulatedEntity, moves: readonly Move[]): Promise<number> {
  let proven = 0;
  for (let seed = firstSeed; seed < firstSeed + trials; seed += 1) {
    const random = seededRandom(seed);
    const service = simulatedService(random, rulesFor(name, moves, random), {
      rows: Math.floor(random() * 110),
    });
    const sync = simulatedSync(name, service, random);
    const before = new Set(service.rows.map(({ id }) => id));
    const walk = await sync.walk({ isFull: true, killShare: random() < 0.5 ? 0.08 : 0 });
    if (!('seal' in walk) || !walk.seal.proof.isOrdered) continue;
    proven += 1;
    const missed = service.rows.filter(({ id }) => before.has(id) && !walk.met.has(id)).map(({ id }) => id);
    expect({ seed, proof: walk.seal.proof, missed }).toEqual({ seed, proof: walk.seal.proof, missed: [] });
    expect(walk.seal.absence).toBe(name.startsWith('growing') ? null : 'nothing');
  }
  return proven;
}

function rulesFor(name: SimulatedEntity, moves: readonly Move[], random: () => number): ServiceRules {
  const isByChange = name === 'tokens' || name === 'keyset';
  const isOwn = name.endsWith('_pages') || name.startsWith('last_');
  return {
    roundMs: [1, 1000, 60_000][Math.floor(random() * 3)] ?? 1,
    cap:
      name === 'fixed_pages'
        ? 30
        : random() < 0.2
          ? 2 + Math.floor(random() * 10)
          : 12 + Math.floor(random() * 30),
    violence: Math.floor(random() * 12),
    moves,
    nullShare: isByChange ? 0.05 : 0,
    futureShare: random() < 0.3 ? 0.03 : 0,
    ...(isOwn
      ? {
          saysTotal: random() < 0.6,
          saysMore: random() < 0.5,
          capChanges: random() < 0.3 && name !== 'fixed_pages' ? 0.1 : 0,
        }
      : {}),
  };
}
