import { describe, expect, it } from 'vitest';
import type { JsonValue } from '../../src/core/json.ts';
import { readTotal } from '../../src/definitions/pagination-file.ts';
import { offsetPagination, offsetStyle } from '../../src/pagination/offset.ts';
import { styleOf } from '../../src/pagination/pagination-of.ts';
import type { PageLengths, Advance, NextPage, PageSeen } from '../../src/pagination/pagination.ts';
import type { Proof, Doubt, Position } from '../../src/sinks/partition.ts';
import { seededRandom } from '../support/seeded-random.ts';
import { startSeed } from '../support/trials.ts';

interface Server {
  rows: string[];
  cap: number;
}

interface Walked {
  readonly seen: ReadonlySet<string>;
  readonly calls: number;
  readonly end:
    { readonly kind: 'proof'; readonly proof: Proof } | { readonly kind: 'failed'; readonly code: string };
}

/** Walks as the engine does: three restarts, everything received counts as read. `between` runs before each call. */
function walk(
  server: Server,
  options: {
    isOrdered?: boolean;
    between?: (call: number) => void;
    page?: (offset: number, count: number) => string[];
    pageLengths?: PageLengths;
    storedRows?: number;
    size?: number;
  } = {},
): Walked {
  const pagination = offsetPagination(
    {
      kind: 'offset',
      offsetParam: 'offset',
      sizeParam: 'count',
      maxSize: options.size ?? 100,
      totalKeys: [],
    },
    {
      isOrdered: options.isOrdered ?? true,
      growsOnly: false,
      pageLengths: options.pageLengths ?? new Map(),
      storedRows: options.storedRows ?? 0,
      trustsTotal: true,
    },
  );
  const seen = new Set<string>();
  let position = pagination.begin();
  let restarts = 0;
  for (let calls = 1; calls < 5000; calls += 1) {
    options.between?.(calls);
    const { offset, count } = pagination.request(position) as { offset: number; count: number };
    const marks =
      options.page?.(offset, count) ?? server.rows.slice(offset, offset + Math.min(count, server.cap));
    for (const mark of marks) seen.add(keyOf(mark));
    const advance = pagination.advance(position, {
      marks,
      changes: [],
      capMs: 0,
      bytes: marks.length * 100,
      next: null,
      nowMs: 0,
    });
    if (advance.kind === 'end') return { seen, calls, end: { kind: 'proof', proof: advance.proof } };
    if (advance.kind === 'broken') return { seen, calls, end: { kind: 'failed', code: advance.code } };
    if (advance.kind === 'restart') {
      restarts += 1;
      if (restarts > 3) return { seen, calls, end: { kind: 'failed', code: advance.code } };
      position = pagination.begin();
    } else {
      // What the ledger keeps is JSON: a walk must survive the way there and back.
      position = JSON.parse(JSON.stringify(advance.position)) as typeof position;
    }
  }
  throw new Error('the walk does not end');
}

function numbered(count: number): string[] {
  return Array.from({ length: count }, (_, index) => `row-${index}`);
}

/** A changed row moves to the end, and its mark changes with it: the sort value is part of the mark. */
function changed(mark: string): string {
  return `${mark}'`;
}

function keyOf(mark: string): string {
  return mark.replaceAll("'", '');
}

describe('offset pagination', () => {
  it.each([0, 1, 2, 9, 10, 11, 99, 100, 101, 189, 190, 191, 1000, 1234])(
    'reads all %i rows and proves it',
    (count) => {
      const walked = walk({ rows: numbered(count), cap: 100 });
      expect(walked.seen.size).toBe(count);
      expect(walked.end.kind).toBe('proof');
    },
  );

  it('reads everything from a server that caps the page size silently', () => {
    for (const cap of [2, 3, 7, 11, 12, 50]) {
      const walked = walk({ rows: numbered(333), cap }, { size: 1000 });
      expect({ cap, seen: walked.seen.size }).toEqual({ cap, seen: 333 });
      expect(walked.end.kind).toBe('proof');
    }
  });

  it('ends a one-page partition with one call once a larger page has been seen', () => {
    const pageLengths: PageLengths = new Map();
    walk({ rows: numbered(300), cap: 100 }, { pageLengths });
    expect(walk({ rows: numbered(40), cap: 100 }, { pageLengths }).calls).toBe(1);
    // A full page may be followed by one that the service leaves all records out of.
    expect(walk({ rows: numbered(100), cap: 100 }, { pageLengths }).calls).toBe(4);
  });

  it('says that the order was unknown when a walk of several pages has no fixed order', () => {
    expect(walk({ rows: numbered(300), cap: 100 }, { isOrdered: false }).end).toEqual({
      kind: 'proof',
      proof: { kind: 'seam', isOrdered: false },
    });
    expect(walk({ rows: numbered(30), cap: 100 }, { isOrdered: false }).end).toEqual({
      kind: 'proof',
      proof: { kind: 'single', isOrdered: true },
    });
  });

  it('says that pages of one record cannot be fitted together', () => {
    expect(walk({ rows: numbered(5), cap: 1 }).end).toEqual({ kind: 'failed', code: 'PAGING_BROKEN' });
    expect(walk({ rows: numbered(1), cap: 1 }).seen.size).toBe(1);
  });

  it('notices a server that ignores the offset', () => {
    const rows = numbered(100);
    expect(walk({ rows, cap: 100 }, { page: () => rows }).end).toEqual({
      kind: 'failed',
      code: 'PAGING_BROKEN',
    });
  });

  it('is not fooled into an early end by rows inserted in front', () => {
    const server = { rows: numbered(500), cap: 90 };
    const original = [...server.rows];
    const walked = walk(server, {
      size: 90,
      between: (call) => {
        if (call === 3) server.rows.unshift(...Array.from({ length: 80 }, (_, index) => `new-${index}`));
      },
    });
    expect(walked.end.kind).toBe('proof');
    expect(original.filter((row) => !walked.seen.has(row))).toEqual([]);
  });

  it('restarts, and then gives up with a clear reason, when rows move faster than it can follow', () => {
    const server = { rows: numbered(5000), cap: 100 };
    const walked = walk(server, { between: () => server.rows.splice(0, 60) });
    if (walked.end.kind === 'failed') expect(walked.end.code).toBe('SEAM_LOST');
    else expect(server.rows.filter((row) => !walked.seen.has(row))).toEqual([]);
  });

  const seed = startSeed();
  // Proves promise 3
  it(`misses no row that was there throughout, whatever vanishes, moves to the end or is appended (seed ${seed})`, () => {
    const random = seededRandom(seed);
    const int = (below: number): number => Math.floor(random() * below);
    let proven = 0;
    for (let trial = 0; trial < 600; trial += 1) {
      const server = { rows: numbered(int(900)), cap: 12 + int(120) };
      const throughout = new Set(server.rows);
      let fresh = 0;
      const violence = int(30);
      const walked = walk(server, {
        between: () => {
          for (let change = int(violence + 1); change > 0; change -= 1) {
            const kind = random();
            const at = int(server.rows.length);
            if (kind < 0.5) for (const gone of server.rows.splice(at, 1)) throughout.delete(keyOf(gone));
            else if (kind < 0.75) server.rows.push(...server.rows.splice(at, 1).map(changed));
            else server.rows.push(`fresh-${(fresh += 1)}`);
          }
        },
      });
      if (walked.end.kind !== 'proof') continue;
      proven += 1;
      const missed = [...throughout].filter((row) => !walked.seen.has(row));
      expect({ trial, seed, proof: walked.end.proof, missed }).toEqual({
        trial,
        seed,
        proof: walked.end.proof,
        missed: [],
      });
    }
    expect(proven).toBeGreaterThan(300);
  });
});

describe('total', () => {
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
        Array.from(
          { length: Math.min(count, 150 - offset) },
          (_, index) => rows[(offset + index) % 100] ?? '',
        );
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

    it('meets a row that was appended behind the last page, and doubts nothing', () => {
      const rows = numbered(234);
      const walked = walk(rows, (all, call) => all.length + (call === 3 ? 1 : 0), {
        between: (call) => void (call === 3 && rows.push('appended')),
      });
      expect([...walked.seen].at(-1)).toBe('appended');
      expect(walked.doubt).toBeUndefined();
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
});

describe('doubted totals', () => {
  const single = styleOf({ kind: 'single', totalKeys: ['total_items'] });
  const byToken = styleOf({
    kind: 'pageToken',
    tokenParam: 'cursor',
    sizeParam: null,
    maxSize: null,
    flagKeys: ['has_more'],
    tokenKeys: ['next'],
    lifetimeMs: 60_000,
    totalKeys: ['total'],
  });

  type Answer = Pick<PageSeen, 'marks'> & { readonly total?: number; readonly next?: NextPage };

  /** The walk's end, and how many answers it took; those after the last repeat it. */
  function walk(
    style: typeof single,
    answers: readonly [Answer, ...Answer[]],
    trustsTotal = true,
  ): { readonly doubt: unknown; readonly calls: number } {
    const pages = style.walk({
      isOrdered: true,
      growsOnly: false,
      pageLengths: new Map(),
      storedRows: 0,
      trustsTotal,
    });
    let position: Position = pages.begin();
    for (let calls = 1; calls < 10; calls += 1) {
      const answer = answers[calls - 1] ?? answers.at(-1) ?? answers[0];
      const seen: PageSeen = { changes: [], capMs: 0, bytes: 1, nowMs: 0, next: null, ...answer };
      const advance: Advance = pages.advance(position, seen);
      if (advance.kind === 'end') return { doubt: advance.doubt, calls };
      if (advance.kind !== 'continue') throw new Error(advance.why);
      ({ position } = advance);
    }
    throw new Error('the walk does not end');
  }

  describe('a listing that comes in one answer', () => {
    const three = ['a', 'b', 'c'];

    it('is asked for once more where the answer counts more, and then doubted', () => {
      const doubt = { kind: 'total', total: 8, shown: 3 };
      expect(walk(single, [{ marks: three, total: 8 }])).toEqual({ doubt, calls: 2 });
      expect(walk(single, [{ marks: ['a', 'a', 'b'], total: 3 }]).doubt).toEqual({
        ...doubt,
        total: 3,
        shown: 2,
      });
    });

    it('is complete where the second answer has them all', () => {
      const answers: readonly [Answer, Answer] = [
        { marks: ['a'], total: 3 },
        { marks: three, total: 3 },
      ];
      expect(walk(single, answers)).toEqual({ doubt: undefined, calls: 2 });
    });

    it.each<[string, Answer, boolean]>([
      ['no total', { marks: three }, true],
      ['a total below its records', { marks: three, total: 1 }, true],
      ['a total that is to be ignored', { marks: three, total: 8 }, false],
    ])('is complete at once with %s', (_what, answer, trustsTotal) => {
      expect(walk(single, [answer], trustsTotal)).toEqual({ doubt: undefined, calls: 1 });
    });

    it.each<[string, readonly string[] | undefined, JsonValue, JsonValue, boolean]>([
      ['its metadata', undefined, { has_more: true }, [], true],
      ['the meta of its result', undefined, null, { data: [], meta: { next_cursor: 'n' } }, true],
      ['a key of the definition', ['rest'], { rest: 'https://x.example/?page=2' }, [], true],
      ['nothing', undefined, { has_more: false }, { data: [], next: null }, false],
      ['a key that the definition does not name', ['rest'], { rest: null, has_more: true }, [], false],
      ['a name that means something else', [], { has_more: true }, [], false],
    ])('is broken where more follows by %s', (_what, flagKeys, metadata, result, isMore) => {
      const style = styleOf({ kind: 'single', totalKeys: [], ...(flagKeys && { flagKeys }) });
      const next = style.readNext({ metadata, result }, () => undefined);
      if (next !== null && 'fault' in next) throw new Error(next.fault);
      const seen = () => walk(style, [{ marks: three, ...(next && { next }) }]);
      if (isMore) expect(seen).toThrow('that more records follow');
      else expect(seen()).toEqual({ doubt: undefined, calls: 1 });
    });

    it('has its total where the definition says', () => {
      expect(readTotal(['total_items'], { total_items: 8 })).toBe(8);
      expect(readTotal(['total_items'], null)).toBe(null);
    });
  });

  describe('a listing that is read by page tokens', () => {
    const first = { marks: ['a', 'b'], next: { hasMore: true, token: 't' } };
    const last = { marks: ['c'], next: { hasMore: false, token: null } };

    // Proves promise 3.1
    it('is doubted where its last answer counts more than all pages showed', () => {
      const doubt = { kind: 'total', total: 5, shown: 3 };
      expect(
        walk(byToken, [
          { ...first, total: 3 },
          { ...last, total: 5 },
        ]),
      ).toEqual({ doubt, calls: 2 });
    });

    it('is complete where it showed as many, or its total is to be ignored', () => {
      expect(
        walk(byToken, [
          { ...first, total: 5 },
          { ...last, total: 3 },
        ]).doubt,
      ).toBeUndefined();
      expect(walk(byToken, [first, { ...last, total: 5 }], false).doubt).toBeUndefined();
    });
  });
});
