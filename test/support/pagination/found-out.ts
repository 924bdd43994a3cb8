import { expect } from 'vitest';
import { seededRandom } from '../seeded-random.ts';
import { firstSeed, rulesFor } from './incremental-trials.ts';
import { simulatedService, type ServiceRules, type SimulatedService } from './simulated-service.ts';
import { simulatedSync, type SimulatedEntity } from './simulated-sync.ts';

/**
 * A walk in full, then an incremental one of a service that has stopped to do as it is asked, then one in full again.
 */
export async function expectFoundOut(
  name: SimulatedEntity,
  ignores: NonNullable<ServiceRules['ignores']>,
): Promise<void> {
  for (let seed = firstSeed; seed < firstSeed + 40; seed += 1) {
    const random = seededRandom(seed);
    const rules: ServiceRules = {
      ...rulesFor(name, [], random),
      roundMs: 1000,
      cap: 20,
      futureShare: 0,
      violence: 0,
    };
    const service = simulatedService(random, rules, { rows: 200 });
    const sync = simulatedSync(name, service, random);
    expect('seal' in (await sync.walk())).toBe(true);
    expect(sync.watermarkMs()).not.toBeNull();
    Object.assign(rules, { ignores });
    if (ignores === 'sort') changeAllRecently(service, random);
    const walk = await sync.walk();
    expect({ seed, failure: 'failure' in walk ? walk.failure : null }).toMatchObject({
      seed,
      failure: { code: 'PAGING_BROKEN', dropWatermark: true, dropPosition: true },
    });
    expect('seal' in (await sync.walk())).toBe(true);
  }
}

/** So that a lower bound hides none of them, and the order in which they lie is not that of their times. */
function changeAllRecently({ rows }: SimulatedService, random: () => number): void {
  const newestMs = Math.max(...rows.map(({ changedMs }) => changedMs ?? 0));
  for (const row of rows) row.changedMs = newestMs + Math.floor(random() * 40_000);
}
