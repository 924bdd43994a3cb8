import { expect, it } from 'vitest';
import {
  hasCounted,
  saysComplete,
  walkMadeUp,
  type Declared,
  type MadeUpPaging,
} from '../support/pagination/made-up-paging.ts';
import type { TokenFault, TokenKind } from '../support/pagination/made-up-tokens.ts';
import { seededRandom } from '../support/seeded-random.ts';
import { repeats, startSeed } from '../support/trials.ts';

const seed = startSeed();
const trials = repeats('TRIALS', { share: 50, full: 5_000 });
const kinds: readonly (readonly [TokenKind, boolean])[] = [
  ['cursor', false],
  ['lastRecord', false],
  ['lastRecord', true],
  ['nextUrl', false],
  ['linkHeader', false],
  ['anyOfUrl', false],
  ['anyOfLink', false],
];

// Proves promise 3
it.each(kinds)(
  `reads a service by %s (its own pagination: %s) whole where it says so, whatever its pages repeat, skip and count (seed ${seed})`,
  (kind, isOwn) => {
    const found = { complete: 0, doubted: 0, failed: 0 };
    for (let trial = 0; trial < trials; trial += 1) {
      const random = seededRandom(seed * 4_000_037 + trial);
      const int = (below: number): number => Math.floor(random() * below);
      const pick = <T>(...values: readonly T[]): T => values[int(values.length)] as T;
      const count = pick(int(5), int(60), int(400));
      const shift = pick(1, -1, int(200), -int(200));
      const faults = ['repeats', 'leadsBack', 'skips', 'endsEarly', 'empty'] as const;
      const fault = random() < 0.4 ? undefined : pick<TokenFault>(...faults);
      const made: MadeUpPaging = {
        kind,
        cap: 1 + pick(int(10), int(60), int(120)),
        size: pick('heard', 'ignored', 'renamed'),
        after: 'empty',
        totalOf: pick<MadeUpPaging['totalOf']>(
          (rows) => rows,
          () => null,
          (rows) => Math.max(0, rows + shift),
        ),
        ...(fault === undefined ? {} : { fault }),
      };
      const isNewestFirst = random() < 0.3 && !isOwn;
      const fromRow = int(count);
      const declared: Declared = {
        maxSize: pick(1 + int(100), 20, 50),
        isFixed: false,
        end: null,
        isOrdered: random() < 0.5,
        growsOnly: false,
        isOwn,
        ...(isNewestFirst ? { incremental: { kind: 'newestFirst', fromRow } } : {}),
      };
      const ascending = Array.from({ length: count }, (_, index) => `row-${index}`);
      const rows = isNewestFirst ? ascending.toReversed() : ascending;
      const walked = walkMadeUp(rows, made, declared);
      if (walked.doubt !== null) found.doubted += 1;
      if (walked.why !== null) found.failed += 1;
      if (!saysComplete(walked)) continue;
      found.complete += 1;
      const due = isNewestFirst ? ascending.slice(fromRow) : ascending;
      // What ends a listing is the service's word, unless its own total says more.
      const isItsWord = fault === 'endsEarly' || fault === 'skips';
      const counted = made.totalOf(count) ?? 0;
      const missed = isItsWord && counted < count ? 0 : due.filter((row) => !walked.seen.has(row)).length;
      const shown = { trial, seed, made, declared, missed, hasCounted: hasCounted(walked) };
      expect(shown).toEqual({ ...shown, missed: 0, hasCounted: true });
    }
    for (const number of Object.values(found)) expect(number).toBeGreaterThan(trials / 20);
  },
);
