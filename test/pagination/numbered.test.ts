import { describe, expect, it } from 'vitest';
import {
  hasCounted,
  saysComplete,
  walkMadeUp,
  type Declared,
  type MadeUpPaging,
} from '../support/pagination/made-up-paging.ts';
import { seededRandom } from '../support/seeded-random.ts';
import { isLong, repeats, startSeed } from '../support/trials.ts';

const truly = (rows: number): number => rows;
const nothing = (): null => null;
const service: MadeUpPaging = { kind: 'page', cap: 50, size: 'heard', after: 'empty', totalOf: truly };
const declared: Declared = {
  maxSize: 50,
  isFixed: false,
  end: null,
  isOrdered: true,
  growsOnly: false,
};

function numbered(count: number): string[] {
  return Array.from({ length: count }, (_, index) => `row-${index}`);
}

const seed = startSeed();
const caps = [1, 7, 19, 20, 24, 25, 26, 49, 50, 73];

describe('a walk through numbered pages', () => {
  // Proves promise 3
  it.each(['empty', 'refused', 'wrap', 'repeat'] as const)(
    'shows every row of a service with any cap and size, behind whose last page comes: %s',
    (after) => {
      for (const size of ['heard', 'ignored', 'renamed'] as const) {
        for (const cap of caps) {
          for (const isOrdered of [true, false]) {
            for (const count of [0, 1, 7, 20, 50, 51, 74, 222]) {
              const walked = walkMadeUp(
                numbered(count),
                { ...service, cap, size, after },
                { ...declared, isOrdered },
              );
              const shown = {
                after,
                size,
                cap,
                isOrdered,
                count,
                complete: saysComplete(walked),
                seen: walked.seen.size,
              };
              expect(shown).toEqual({ ...shown, complete: true, seen: count });
            }
          }
        }
      }
    },
  );

  it.each([60, 111, 230, 249, 999])(
    'proves an ordered listing of %i rows with one page more than it has',
    (count) => {
      const { calls, proof } = walkMadeUp(numbered(count), service, declared);
      expect(calls).toBe(Math.ceil(count / 50) + 1);
      expect(proof).toMatchObject({ kind: 'seam', isOrdered: true });
    },
  );

  it('counts an unordered listing in one page more than it has', () => {
    const { calls, proof } = walkMadeUp(numbered(230), service, { ...declared, isOrdered: false });
    expect({ calls, proof }).toEqual({
      calls: 6,
      proof: { kind: 'seam', isOrdered: false, isCounted: true },
    });
  });

  it('overlaps its pages where the service counts nothing', () => {
    const walked = walkMadeUp(numbered(230), { ...service, totalOf: nothing }, declared);
    expect(walked.calls).toBe(9);
    expect(saysComplete(walked)).toBe(true);
  });

  it('shows with a third call that two records are all', () => {
    const uncounted = { ...service, totalOf: nothing };
    const { calls, proof } = walkMadeUp(numbered(2), uncounted, declared);
    expect({ calls, proof }).toEqual({ calls: 3, proof: { kind: 'single', isOrdered: true } });
    const rows = numbered(3);
    const walked = walkMadeUp(rows, { ...uncounted, cap: 2 }, declared, (call) => {
      if (call === 2) rows.shift();
    });
    expect({ seen: walked.seen.size, complete: saysComplete(walked) }).toEqual({ seen: 3, complete: false });
  });

  it('ends a listing that has another order in every call, with nearly as many calls as it has pages', () => {
    for (const count of [29, 80, 124]) {
      for (const hidden of [new Set<string>(), new Set(['row-3', 'row-20'])]) {
        const rows = numbered(count);
        const mixed = { ...service, cap: 39, after: 'repeat', totalOf: nothing, hidden } as const;
        const { calls, why } = walkMadeUp(rows, mixed, { ...declared, isOrdered: false }, (call) => {
          const random = seededRandom(call);
          rows.sort(() => random() - 0.5);
        });
        expect({ count, isSoon: calls <= 5 * Math.ceil(count / 39) + 10, why }).toEqual({
          count,
          isSoon: true,
          why: null,
        });
      }
    }
  });

  it('proves nothing by a wrong total that is met by a listing in another order each time', () => {
    const rows = numbered(124);
    const turning = { ...service, cap: 39, totalOf: () => 100 };
    const walked = walkMadeUp(rows, turning, { ...declared, isOrdered: false }, () => {
      rows.unshift(...rows.splice(-90));
    });
    expect({ seen: walked.seen.size, doubt: walked.doubt }).toEqual({
      seen: 100,
      doubt: { kind: 'shuffled' },
    });
  });

  it('reads pages that have no size to the refusal or the repetition that its definition names', () => {
    const fixed = { ...declared, isFixed: true, growsOnly: true };
    for (const cap of [20, 50, 80]) {
      const uncounted = { ...service, cap, size: 'ignored', totalOf: nothing } as const;
      const refused = walkMadeUp(
        numbered(160),
        { ...uncounted, after: 'refused' },
        { ...fixed, end: 'refused' },
      );
      const repeated = walkMadeUp(
        numbered(160),
        { ...uncounted, after: 'repeat' },
        { ...fixed, end: 'repeats' },
      );
      for (const walked of [refused, repeated]) {
        expect({ seen: walked.seen.size, complete: saysComplete(walked) }).toEqual({
          seen: 160,
          complete: true,
        });
      }
    }
  });

  it('doubts an end that is only a repetition, and fails at a refusal that nothing explains', () => {
    const uncounted = { ...service, size: 'ignored', totalOf: nothing } as const;
    for (const after of ['wrap', 'repeat'] as const) {
      const { doubt, seen } = walkMadeUp(numbered(160), { ...uncounted, after }, declared);
      expect({ doubt, seen: seen.size }).toEqual({ doubt: { kind: 'repeats' }, seen: 160 });
    }
    expect(walkMadeUp(numbered(160), { ...uncounted, after: 'refused' }, declared).why).toBe('refused');
  });

  it.each([
    [7, 37],
    [3, 8],
    [50, 2000],
    [160, 161],
  ])('doubts the end of %i rows whose total is %i', (count, total) => {
    for (const isOrdered of [true, false]) {
      const { doubt, seen } = walkMadeUp(
        numbered(count),
        { ...service, totalOf: () => total },
        { ...declared, isOrdered },
      );
      expect({ doubt, seen: seen.size }).toEqual({
        doubt: { kind: 'total', total, shown: count },
        seen: count,
      });
    }
  });
});

describe('made-up services', () => {
  const trials = repeats('TRIALS', { share: 40, full: 5_000 });
  // Proves promise 3
  it(`are read whole by a walk that says so, however they page and count (seed ${seed})`, () => {
    let complete = 0;
    for (let trial = 0; trial < trials; trial += 1) {
      const random = seededRandom(seed * 1_000_003 + trial);
      const pick = <T>(...values: readonly T[]): T => values[Math.floor(random() * values.length)] as T;
      const int = (below: number): number => Math.floor(random() * below);
      const rows = numbered(pick(int(5), int(60), int(400)));
      const shift = pick(0, 0, 0, 1, -1, int(200), -int(200));
      const tooHigh = 1 + int(200);
      const totalOf = pick<MadeUpPaging['totalOf']>(
        truly,
        nothing,
        (count: number): number | null => Math.max(0, count + shift),
        (count) => count + tooHigh,
        () => 100,
        () => 0,
      );
      const made: MadeUpPaging = {
        kind: pick('page', 'page', 'page', 'offset', 'offset', 'cursor'),
        cap: 1 + pick(int(10), int(60), int(120)),
        size: pick('heard', 'ignored', 'renamed'),
        after: pick('empty', 'refused', 'wrap', 'repeat'),
        isFlagged: random() < 0.3,
        totalOf,
      };
      const said: Declared = {
        maxSize: pick(1 + int(100), 20, 50),
        isFixed: random() < 0.2,
        end: pick('repeats', 'refused', null),
        isOrdered: random() < 0.5,
        growsOnly: random() < 0.1,
        isOwn: random() < 0.5,
        ...(made.kind !== 'cursor' && random() < 0.3 ? { incremental: { kind: 'keyset', fromRow: 0 } } : {}),
      };
      const walked = walkMadeUp(rows, made, said);
      if (!saysComplete(walked)) continue;
      complete += 1;
      const missed = rows.filter((row) => !walked.seen.has(row)).length;
      const shown = { trial, seed, made, said, missed, hasCounted: hasCounted(walked) };
      expect(shown).toEqual({ ...shown, missed: 0, hasCounted: true });
    }
    expect(complete).toBeGreaterThan(trials / 3);
  });

  // Proves promise 3
  it(`miss no row that was there throughout, while rows leave, come and move to the end (seed ${seed})`, () => {
    let proven = 0;
    for (let trial = 0; trial < trials; trial += 1) {
      const random = seededRandom(seed * 2_000_003 + trial);
      const int = (below: number): number => Math.floor(random() * below);
      const rows = numbered(int(400));
      const throughout = new Set(rows);
      const violence = int(8);
      let fresh = 0;
      const isFlagged = random() < 0.5;
      const made = { ...service, isFlagged, cap: 12 + int(50), totalOf: random() < 0.6 ? truly : nothing };
      const walked = walkMadeUp(rows, made, { ...declared, isOwn: random() < 0.7 }, (call) => {
        for (let change = call > 60 ? 0 : int(violence + 1); change > 0; change -= 1) {
          const at = int(rows.length);
          const kind = random();
          if (kind < 0.5) for (const gone of rows.splice(at, 1)) throughout.delete(gone.replaceAll("'", ''));
          else if (kind < 0.75) rows.push(...rows.splice(at, 1).map((row) => `${row}'`));
          else rows.push(`fresh-${(fresh += 1)}`);
        }
      });
      if (!saysComplete(walked)) continue;
      proven += 1;
      const missed = [...throughout].filter((row) => !walked.seen.has(row));
      expect({ trial, seed, made, violence, missed }).toEqual({ trial, seed, made, violence, missed: [] });
    }
    expect(proven).toBeGreaterThan(trials / 2);
  });

  it(`let rows leave without a second look, and without a doubt (seed ${seed})`, () => {
    for (const rate of [0.03, 0.2, 0.5]) {
      let [again, partMissing] = [0, 0];
      const walks = isLong ? 1_000 : 100;
      for (let trial = 0; trial < walks; trial += 1) {
        const random = seededRandom(seed * 3_000_017 + trial);
        const rows = numbered(60 + Math.floor(random() * 900));
        const pages = Math.ceil(rows.length / 50);
        const walked = walkMadeUp(rows, service, declared, () => {
          if (random() < rate) rows.splice(Math.floor(random() * rows.length), 1);
        });
        // The first page is asked for at both ends of the walk; what moved to the end is looked for there.
        const inFront = walked.asked.map(({ offset, limit }) => Number(offset) / Number(limit));
        const middle = inFront.filter((page) => page > 0 && page < pages - 4);
        if (new Set(middle).size < middle.length) again += 1;
        if (!saysComplete(walked)) partMissing += 1;
      }
      expect({ rate, partMissing, isSeldom: again <= walks / 100 }).toEqual({
        rate,
        partMissing: 0,
        isSeldom: true,
      });
    }
  });
});
