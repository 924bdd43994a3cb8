import { describe, expect, it } from 'vitest';
import { offsetStyle } from '../../src/pagination/offset.ts';
import { readTotal } from '../../src/definitions/pagination-file.ts';
import type { PageLengths } from '../../src/pagination/pagination.ts';
import type { Doubt, Proof } from '../../src/sinks/partition.ts';
import { seededRandom } from '../support/seeded-random.ts';
import { startSeed } from '../support/trials.ts';

/** What the service says of the listing in an answer; undefined: nothing. */
type TotalOf = (rows: readonly string[], call: number) => unknown;

const rules = {
  kind: 'offset',
  offsetParam: 'offset',
  sizeParam: 'count',
  maxSize: 100,
  totalKeys: ['total_items'],
} as const;
const truly: TotalOf = (rows) => rows.length;

function walk(
  rows: string[],
  totalOf: TotalOf,
  options: {
    between?: (call: number) => void;
    cap?: number;
    storedRows?: number;
    pageLengths?: PageLengths;
    trustsTotal?: boolean;
    totalCountsListing?: true;
    /** What of the rows an answer has. */
    page?: (offset: number, count: number) => string[];
  } = {},
): {
  readonly seen: ReadonlySet<string>;
  readonly calls: number;
  readonly proof: Proof | null;
  readonly doubt?: Doubt;
} {
  const { between, cap = 100, storedRows = 0, pageLengths = new Map(), trustsTotal = true } = options;
  const { totalCountsListing } = options;
  const pagination = offsetStyle({ ...rules, totalCountsListing }).walk({
    isOrdered: true,
    growsOnly: false,
    pageLengths,
    storedRows,
    trustsTotal,
  });
  const seen = new Set<string>();
  let position = pagination.begin();
  let restarts = 0;
  for (let calls = 1; calls < 2000; calls += 1) {
    const { offset, count } = pagination.request(position) as { offset: number; count: number };
    const marks = options.page?.(offset, count) ?? rows.slice(offset, offset + Math.min(count, cap));
    const metadata = { total_items: totalOf(rows, calls) as number };
    between?.(calls);
    for (const mark of marks) seen.add(mark);
    const total = readTotal(rules.totalKeys, metadata);
    const advance = pagination.advance(position, {
      marks,
      changes: [],
      capMs: 0,
      bytes: marks.length * 100,
      next: null,
      ...(total === null ? {} : { total }),
      nowMs: 0,
    });
    if (advance.kind === 'end') {
      const { proof, doubt } = advance;
      return { seen, calls, proof, ...(doubt === undefined ? {} : { doubt }) };
    }
    if (advance.kind === 'broken' || restarts > 3) return { seen, calls, proof: null };
    restarts += advance.kind === 'restart' ? 1 : 0;
    position =
      advance.kind === 'restart'
        ? pagination.begin()
        : (JSON.parse(JSON.stringify(advance.position)) as typeof position);
  }
  throw new Error('the walk does not end');
}

function numbered(count: number): string[] {
  return Array.from({ length: count }, (_, index) => `row-${index}`);
}

const nothing: TotalOf = () => undefined;

describe('a walk by offset whose answers have a total', () => {
  const longer = (): PageLengths =>
    new Map([[100, { records: 100, bytes: 10_000, followed: Infinity, whole: 0 }]]);

  it.each([1, 2, 11, 50, 99])(
    'proves a listing of %i rows by its one page, once a longer one came',
    (count) => {
      expect(walk(numbered(count), truly, { pageLengths: longer() })).toMatchObject({
        calls: 1,
        proof: { kind: 'single', isOrdered: true },
      });
      expect(walk(numbered(count), nothing).calls).toBeGreaterThan(1);
    },
  );

  it('asks once more where the total may count the records of the page alone', () => {
    expect(walk(numbered(50), truly).calls).toBe(2);
    const rows = numbered(120);
    const walked = walk(rows, () => 50, { cap: 50 });
    expect(walked.seen.size).toBe(120);
    expect(walked.doubt).toBeUndefined();
    expect(walk(numbered(50), truly, { totalCountsListing: true }).calls).toBe(1);
  });

  it('doubts its end where records that came twice fill the places of others', () => {
    const rows = numbered(150);
    const page = (offset: number, count: number): string[] =>
      Array.from({ length: Math.min(count, 150 - offset) }, (_, index) => rows[(offset + index) % 100] ?? '');
    expect(walk(rows, truly, { page }).doubt).toEqual({ kind: 'total', total: 150, shown: 100 });
  });

  it.each([150, 234, 999])('saves the call behind the last of several pages, of %i rows', (count) => {
    const walked = walk(numbered(count), truly);
    expect(walked.seen.size).toBe(count);
    expect(walked.proof).toEqual({ kind: 'seam', isOrdered: true, isCounted: true });
    expect(walked.calls).toBeLessThan(walk(numbered(count), nothing).calls);
  });

  it.each([
    ['below the rows', (rows: readonly string[]) => rows.length - 1],
    ['another one in every answer', (rows: readonly string[], call: number) => rows.length - (call % 2)],
    ['no number', (rows: readonly string[]) => `${rows.length}`],
    ['a fraction', (rows: readonly string[]) => rows.length + 0.5],
    ['negative', () => -1],
    [
      'left out in the first answer',
      (rows: readonly string[], call: number) => (call === 1 ? undefined : rows.length),
    ],
  ])('ends no walk sooner where it is %s', (_, totalOf) => {
    for (const count of [50, 234]) {
      const walked = walk(numbered(count), totalOf);
      expect(walked.seen.size).toBe(count);
      expect(walked.calls).toBe(walk(numbered(count), nothing).calls);
    }
  });

  it.each([
    [3, 8],
    [7, 37],
    [0, 5],
    [1, 2],
    [100, 200],
    [234, 235],
    [1000, 2000],
  ])('asks once more, and then doubts its end, where %i rows came and the total is %i', (count, total) => {
    const walked = walk(numbered(count), () => total);
    expect(walked.seen.size).toBe(count);
    expect(walked.doubt).toEqual({ kind: 'total', total, shown: count });
    // Short pages are not believed then: the pages behind them are requested as well.
    expect(walked.calls).toBeLessThanOrEqual(walk(numbered(count), nothing).calls + 4);
    const { doubt, calls } = walk(numbered(count), () => total, { trustsTotal: false });
    expect({ doubt, calls }).toEqual({ calls: walk(numbered(count), nothing).calls });
  });

  it('reads on where the smaller page that it asks for shows what a large one did not', () => {
    const rows = numbered(240);
    const page = (offset: number, count: number): string[] =>
      rows.slice(offset, Math.min(offset + count, count > 60 ? 190 : 240));
    const walked = walk(rows, truly, { page });
    expect(walked.seen.size).toBe(240);
    expect(walked.doubt).toBeUndefined();
    expect(walked.proof).not.toBeNull();
  });

  it('meets a row that was appended behind the last page, and doubts nothing', () => {
    const rows = numbered(234);
    const walked = walk(rows, (all, call) => all.length + (call === 3 ? 1 : 0), {
      between: (call) => void (call === 3 && rows.push('appended')),
    });
    expect([...walked.seen].at(-1)).toBe('appended');
    expect(walked.doubt).toBeUndefined();
  });

  it('asks once more where the page is as large as pages get, which may be older than its total', () => {
    expect(walk(numbered(100), truly).calls).toBe(2);
    // Rows 90 to 189 end where a total from before ten more came says that the listing ends.
    const grown = walk(numbered(200), () => 190);
    expect(grown.seen.size).toBe(200);
  });

  it('asks once more where the one page shows less than what is stored', () => {
    expect(walk(numbered(50), truly, { storedRows: 51, pageLengths: longer() }).calls).toBe(2);
    expect(walk(numbered(50), truly, { storedRows: 50, pageLengths: longer() }).calls).toBe(1);
  });

  const seed = startSeed();
  it(`misses no row that was there throughout, with totals that are late (seed ${seed})`, () => {
    const random = seededRandom(seed);
    const int = (below: number): number => Math.floor(random() * below);
    let proven = 0;
    for (let trial = 0; trial < 600; trial += 1) {
      const rows = numbered(int(600));
      const throughout = new Set(rows);
      const violence = int(20);
      const lengths: number[] = [];
      let fresh = 0;
      // Counted some answers ago, as a count that is kept for a while is.
      const lateness = int(3);
      const totalOf: TotalOf = () => {
        lengths.push(rows.length);
        return lengths.at(-1 - lateness) ?? lengths[0];
      };
      const walked = walk(rows, totalOf, {
        cap: random() < 0.3 ? 12 + int(80) : 100,
        between: () => {
          for (let changes = int(violence + 1); changes > 0; changes -= 1) {
            const at = int(rows.length);
            const kind = random();
            if (kind < 0.45) for (const gone of rows.splice(at, 1)) throughout.delete(gone);
            else rows.push(`fresh-${(fresh += 1)}`);
          }
        },
      });
      if (walked.proof === null) continue;
      proven += 1;
      const missed = [...throughout].filter((row) => !walked.seen.has(row));
      expect({ trial, seed, missed }).toEqual({ trial, seed, missed: [] });
    }
    expect(proven).toBeGreaterThan(300);
  });
});
