import { expect } from 'vitest';
import { seededRandom } from '../seeded-random.ts';
import { simulatedService, type Move, type ServiceRules } from './simulated-service.ts';
import { simulatedSync, type SimulatedEntity } from './simulated-sync.ts';
import { repeats, startSeed } from '../trials.ts';

export const firstSeed = startSeed();
export const trials = repeats('TRIALS', { share: 40, full: 2000 });

/**
 * Walks listings in full while rows move at every page boundary, with kills and small pages; gives how many walks ended
 * with an ordered proof. Each of those has met every row that was there throughout.
 */
export async function tryFullWalks(name: SimulatedEntity, moves: readonly Move[]): Promise<number> {
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
