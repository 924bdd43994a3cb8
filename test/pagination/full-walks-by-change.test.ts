import { describe, expect, it } from 'vitest';
import { firstSeed, trials, tryFullWalks } from '../support/pagination/full-walk-trials.ts';
import type { Move } from '../support/pagination/simulated-service.ts';
import type { SimulatedEntity } from '../support/pagination/simulated-sync.ts';

const moves: readonly Move[] = ['append', 'delete', 'change', 'bulk-change'];
const kinds: readonly (readonly [SimulatedEntity, number])[] = [
  ['tokens', 0.5],
  ['keyset', 0.3],
];

/** The sort is by the time of the change, so that a changed row moves to the end, however coarse the times are. */
describe.each(kinds)('a full walk sorted by change: %s', (name, provenShare) => {
  // Proves promise 3
  it(`that claims an ordered proof has met every row that was there throughout (seed ${firstSeed})`, async () => {
    expect(await tryFullWalks(name, moves)).toBeGreaterThanOrEqual(trials * provenShare);
  }, 60_000);
});
