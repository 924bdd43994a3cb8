import { describe, expect, it } from 'vitest';
import {
  saysComplete,
  walkMadeUp,
  type Declared,
  type MadeUpPaging,
} from '../support/pagination/made-up-paging.ts';
import { seededRandom } from '../support/seeded-random.ts';
import { repeats, startSeed } from '../support/trials.ts';

/* Services that leave records out of a page after they have cut it, by permission say. */

const rows = (count: number): string[] => Array.from({ length: count }, (_, index) => `row-${index}`);
const block = (from: number, count: number): ReadonlySet<string> =>
  new Set(Array.from({ length: count }, (_, index) => `row-${from + index}`));
const truly = (count: number): number => count;
const declared: Declared = {
  maxSize: 50,
  isFixed: false,
  end: null,
  isOrdered: true,
  growsOnly: false,
  isOwn: true,
};

const styles = [
  ['offset', { kind: 'offset' }, {}],
  ['pages', { kind: 'page' }, {}],
  ['pages of their own size', { kind: 'page', size: 'ignored' }, { isFixed: true }],
  ['pages behind offsets', { kind: 'page' }, { isOwn: false }],
] as const;
const afters = ['empty', 'refused', 'repeat', 'wrap'] as const;

describe.each(styles)('by %s', (_name, service, said) => {
  const made = (hidden: ReadonlySet<string>, more: Partial<MadeUpPaging> = {}): MadeUpPaging => ({
    cap: 50,
    size: 'heard',
    after: 'empty',
    totalOf: () => null,
    ...service,
    hidden,
    ...more,
  });
  const shown = (count: number, hidden: ReadonlySet<string>): number =>
    rows(count).filter((row) => !hidden.has(row)).length;

  // Proves promise 3
  it.each([
    ['an empty page', block(300, 50)],
    ['two empty pages', block(300, 100)],
    ['a short page', block(310, 30)],
    ['a page with one record', block(301, 49)],
    ['short pages everywhere', new Set(rows(600).filter((_, index) => index % 3 === 0))],
  ])('reads on behind %s', (_what, hidden) => {
    for (const isOrdered of [true, false]) {
      for (const totalOf of [() => null, truly, (count: number) => count - hidden.size]) {
        const walked = walkMadeUp(rows(600), made(hidden, { totalOf }), { ...declared, ...said, isOrdered });
        const came = { isOrdered, total: totalOf(600), seen: walked.seen.size, why: walked.why };
        expect(came).toEqual({ ...came, seen: shown(600, hidden), why: null });
      }
    }
  });

  // Proves promise 3
  it('reads on behind two empty pages, however little the last page overlaps them', () => {
    for (const cap of [5, 7]) {
      for (let from = cap; from < 5 * cap; from += 1) {
        const hidden = block(from, 2 * cap);
        const walked = walkMadeUp(rows(12 * cap), made(hidden, { cap }), {
          ...declared,
          ...said,
          maxSize: cap,
        });
        const came = { cap, from, seen: walked.seen.size };
        expect(came).toEqual({ ...came, seen: 10 * cap });
      }
    }
  });

  // Proves promise 3
  it('reads on behind a gap where records leave while it looks there', () => {
    for (let call = 1; call < 24; call += 1) {
      const all = rows(150);
      const hidden = block(82, 28);
      const walked = walkMadeUp(
        all,
        made(hidden, { cap: 14 }),
        { ...declared, ...said, maxSize: 14 },
        (at) => {
          if (at === call) all.splice(0, 2);
        },
      );
      const missed = all.filter((row) => !hidden.has(row) && !walked.seen.has(row));
      const isFound = missed.length <= 2 && !(saysComplete(walked) && missed.length > 0);
      expect({ call, missed, isFound }).toEqual({ call, missed, isFound: true });
    }
  });

  it('takes no total for a proof that agrees with what came on both sides of a gap', () => {
    const walked = walkMadeUp(rows(600), made(block(300, 50), { totalOf: (count) => count - 50 }), {
      ...declared,
      ...said,
    });
    expect({ seen: walked.seen.size, isCounted: walked.proof?.isCounted }).toEqual({ seen: 550 });
  });

  it.each(afters)(
    'takes nothing new on three pages in a row for the end, as what comes there: %s',
    (after) => {
      for (const hidden of [block(300, 50), new Set<string>()]) {
        const walked = walkMadeUp(rows(590), made(hidden, { after }), {
          ...declared,
          ...said,
          end: after === 'refused' ? 'refused' : 'repeats',
        });
        expect({ hidden: hidden.size, seen: walked.seen.size, doubt: walked.doubt, why: walked.why }).toEqual(
          {
            hidden: hidden.size,
            seen: shown(590, hidden),
            doubt: null,
            why: null,
          },
        );
      }
    },
  );

  it('does not call a listing proven that it has read across a gap', () => {
    const { proof } = walkMadeUp(rows(600), made(block(300, 50)), { ...declared, ...said });
    expect(proof?.isOrdered).toBe(false);
  });

  it.each([
    ['10 rows', 10, block(3, 24), 34],
    ['12 rows', 12, block(6, 24), 36],
    ['15 rows, and 40 new ones', 15, block(3, 18), 73],
    ['15 rows behind many', 15, block(5, 36), 51],
  ])('finds %s behind a short first page and a gap again', (_what, storedRows, hidden, count) => {
    const paging = { ...declared, ...said, maxSize: 'isFixed' in said ? 20 : 100, storedRows };
    const walked = walkMadeUp(rows(count), made(hidden, { cap: 20 }), paging);
    const came = { seen: walked.seen.size, doubt: walked.doubt };
    expect(came).toEqual({ ...came, seen: shown(count, hidden) });
  });

  it('reads a long listing in whole pages behind a gap of short ones', () => {
    const hidden = block(3, 147);
    const walked = walkMadeUp(rows(5000), made(hidden, { cap: 100 }), {
      ...declared,
      ...said,
      storedRows: 4853,
      maxSize: 100,
    });
    expect(walked.seen.size).toBe(4853);
    expect(walked.calls).toBeLessThan(600);
  });

  it('looks as far as rows are known to have been', () => {
    const hidden = block(300, 250);
    const lost = walkMadeUp(rows(600), made(hidden), { ...declared, ...said });
    expect(lost.seen.size).toBe(300);
    const storedRows = 600;
    const walked = walkMadeUp(rows(600), made(hidden), { ...declared, ...said, storedRows });
    expect(walked.seen.size).toBe(350);
    const one = walkMadeUp(rows(1), made(new Set(), { after: 'repeat' }), {
      ...declared,
      ...said,
      end: 'repeats',
      storedRows: 45,
    });
    expect({ isSoon: one.calls <= 8, isProven: one.proof?.isOrdered }).toEqual({
      isSoon: true,
      isProven: true,
    });
    const gone = walkMadeUp(rows(300), made(new Set()), { ...declared, ...said, storedRows });
    expect({ seen: gone.seen.size, doubt: gone.doubt }).toEqual({ seen: 300, doubt: null });
  });

  it('saves the calls where the definition says that there are no gaps, until one contradicts it', () => {
    const calls = (more: Partial<Declared>, hidden = new Set<string>() as ReadonlySet<string>) =>
      walkMadeUp(rows(230), made(hidden), { ...declared, ...said, ...more });
    expect(calls({}).calls - calls({ gaps: 'never' }).calls).toBe(2);
    expect(calls({ gaps: 'never', storedRows: 230 }, block(50, 50)).seen.size).toBe(180);
  });
});

const seed = startSeed();
const trials = repeats('TRIALS', { share: 40, full: 4_000 });
// Proves promise 3
it(`reads services with any short gaps whole, whatever they hide (seed ${seed})`, () => {
  for (let trial = 0; trial < trials; trial += 1) {
    const random = seededRandom(seed * 5_000_011 + trial);
    const int = (below: number): number => Math.floor(random() * below);
    const pick = <T>(...values: readonly T[]): T => values[int(values.length)] as T;
    const cap = 5 + int(60);
    const count = cap * 2 + int(600);
    const share = pick(0, 0.05, 0.3, 0.6);
    const all = rows(count);
    const hidden = new Set(all.filter(() => random() < share));
    for (let blocks = int(3); blocks > 0; blocks -= 1) {
      for (const row of block(cap + int(count), 1 + int(2 * cap))) hidden.add(row);
    }
    // A first page that is short, and three pages in a row without a record, are the patterns that are not found.
    for (const row of block(0, cap)) hidden.delete(row);
    let run = 0;
    for (const row of all) {
      run = hidden.has(row) && run < 2 * cap ? run + 1 : 0;
      if (run === 0) hidden.delete(row);
    }
    const made: MadeUpPaging = {
      kind: pick('page', 'offset'),
      cap,
      size: 'heard',
      after: pick('empty', 'refused', 'wrap', 'repeat'),
      totalOf: pick<MadeUpPaging['totalOf']>(
        truly,
        () => null,
        (found) => found - hidden.size,
      ),
      hidden,
    };
    const said: Declared = {
      maxSize: cap,
      isFixed: false,
      end: made.after === 'refused' ? 'refused' : 'repeats',
      isOrdered: random() < 0.7,
      growsOnly: false,
      isOwn: true,
    };
    const walked = walkMadeUp(all, made, said);
    const missed = all.filter((row) => !hidden.has(row) && !walked.seen.has(row)).length;
    const came = { trial, seed, made: { ...made, hidden: hidden.size }, said, missed, why: walked.why };
    expect({ ...came, isComplete: saysComplete(walked) && missed > 0 }).toEqual({
      ...came,
      missed: 0,
      why: null,
      isComplete: false,
    });
  }
});
