import { describe, expect, it } from 'vitest';
import {
  isOtherAccount,
  isStrange,
  type Answered,
  type SampledEntity,
} from '../../src/engine/check-account.ts';
import { seededRandom } from '../support/seeded-random.ts';
import { repeats, startSeed } from '../support/trials.ts';

const seed = startSeed(11);
const trials = repeats('TRIALS', { share: 1_000, full: 10_000 });

/** Rows of one listing, before and after what happened to the account. */
interface Listing {
  readonly stored: readonly number[];
  readonly served: readonly number[];
}

function shuffled(ids: readonly number[], random: () => number): readonly number[] {
  return ids
    .map((id) => [random(), id] as const)
    .toSorted(([one], [other]) => one - other)
    .map(([, id]) => id);
}

/** A day or a month of an account: some leave, others come, and the listing may be in any order. */
function honestListing(size: number, mostLeave: number, random: () => number): Listing {
  const stored = Array.from({ length: size }, (_, id) => id);
  const share = random() * mostLeave;
  const stay = stored.filter(() => random() >= share);
  const come = Array.from({ length: Math.floor(random() * 2 * size) }, (_, index) => size + index);
  const order = random();
  const served =
    order < 0.4
      ? [...stay, ...come]
      : order < 0.8
        ? [...come, ...stay]
        : shuffled([...stay, ...come], random);
  return { stored, served };
}

function sampled({ stored, served }: Listing, isWalked: boolean, random: () => number): SampledEntity {
  const there = new Set(served);
  const spread = Array.from(
    { length: Math.min(5, stored.length) },
    (_, index) => stored[Math.floor((stored.length * index) / 5)] ?? 0,
  );
  const answers = spread.map((id): Answered => {
    if (random() < 0.02) return 'unanswered';
    return there.has(id) ? 'found' : 'not-found';
  });
  return { isWalked, answers };
}

/** Whether the run stops at the first page of the first of the listings. */
function stops([walked, ...roots]: readonly Listing[], random: () => number): boolean {
  if (walked === undefined) return false;
  const page = walked.served.slice(0, 10 + Math.floor(random() * 990));
  const stored = new Set(walked.stored);
  const known = page.filter((id) => stored.has(id)).length;
  const account = { live: stored.size, isAdopted: false, records: page.length, known };
  if (!isStrange(account)) return false;
  return isOtherAccount(
    [sampled(walked, true, random), ...roots.map((root) => sampled(root, false, random))],
    stored.size,
  );
}

describe('the check for another account', () => {
  // Proves promise 4.1
  it(`stops none of ${trials} honest revisions of accounts (seed ${seed})`, () => {
    const random = seededRandom(seed);
    let strange = 0;
    for (let trial = 0; trial < trials; trial += 1) {
      const rows = trial % 2 === 0 ? 1_001 : 1;
      const walked = honestListing(rows + Math.floor(random() * 500), 0.3, random);
      const roots = Array.from({ length: 1 + Math.floor(random() * 4) }, () =>
        honestListing(1 + Math.floor(random() * 20), 0.1, random),
      );
      if (!walked.served.slice(0, 10).some((id) => id < walked.stored.length)) strange += 1;
      expect(stops([walked, ...roots], random), `trial ${trial}`).toBe(false);
    }
    expect(strange).toBeGreaterThan(trials / 10);
  });

  it('stops an account that shares no row', () => {
    const other = (size: number): Listing => {
      const stored = Array.from({ length: size }, (_, id) => id);
      return { stored, served: stored.map((id) => id + 100_000) };
    };
    expect(stops([other(1_001), other(1), other(20)], () => 0.5)).toBe(true);
    expect(stops([other(5), other(20)], () => 0.5)).toBe(true);
  });

  it('asks about nothing that has no row, was adopted, or shows one stored row', () => {
    const strange = { live: 1_001, isAdopted: false, records: 100, known: 0 };
    expect(isStrange(strange)).toBe(true);
    for (const more of [{ live: 0 }, { isAdopted: true }, { records: 0 }, { known: 1 }]) {
      expect(isStrange({ ...strange, ...more })).toBe(false);
    }
  });

  // Proves promise 4.1
  it('takes five rows of the listing, or without a get two other entities, that are all gone', () => {
    const gone = (isWalked: boolean, rows: number): SampledEntity => ({
      isWalked,
      answers: Array.from({ length: rows }, () => 'not-found' as const),
    });
    const isOther = (sampled: readonly SampledEntity[], live = 1_001): boolean =>
      isOtherAccount(sampled, live);
    expect(isOther([gone(true, 5)])).toBe(true);
    expect(isOther([gone(true, 4)])).toBe(false);
    expect(isOther([gone(true, 0), gone(false, 1)])).toBe(false);
    expect(isOther([gone(true, 0), gone(false, 1), gone(false, 2)])).toBe(true);
    expect(isOther([gone(true, 5), { isWalked: false, answers: ['not-found', 'unanswered'] }])).toBe(false);
    for (const [sampled, is] of [
      [[gone(true, 5)], false],
      [[gone(true, 5), gone(false, 2)], false],
      [[gone(true, 5), gone(false, 3)], true],
    ] as const) {
      expect(isOther(sampled, 1_000), 'of few rows').toBe(is);
    }
  });
});
