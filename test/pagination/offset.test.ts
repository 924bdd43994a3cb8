import { describe, expect, it } from 'vitest';
import type { JsonValue } from '../../src/core/json.ts';
import { readTotal } from '../../src/definitions/pagination-file.ts';
import { styleOf } from '../../src/pagination/pagination-of.ts';
import type { PageLengths, NextPage, PageSeen } from '../../src/pagination/pagination.ts';
import {
  saysComplete,
  walkMadeUp,
  type Declared,
  type MadeUpPaging,
} from '../support/pagination/made-up-paging.ts';

const truly = (rows: number): number => rows;
const nothing = (): null => null;

/** A walk by offset in pages of a hundred. `numbered.test.ts` has the rows that leave, move and come meanwhile. */
function walk(
  rows: string[],
  service: Partial<MadeUpPaging> = {},
  said: Partial<Declared> = {},
  more: { readonly between?: (call: number) => void; readonly pageLengths?: PageLengths } = {},
) {
  return walkMadeUp(
    rows,
    { kind: 'offset', cap: 100, size: 'heard', after: 'empty', totalOf: nothing, ...service },
    { maxSize: 100, isFixed: false, end: null, isOrdered: true, growsOnly: false, ...said },
    more.between,
    more.pageLengths,
  );
}

function numbered(count: number): string[] {
  return Array.from({ length: count }, (_, index) => `row-${index}`);
}

describe('offset pagination', () => {
  it.each([0, 1, 2, 9, 10, 11, 99, 100, 101, 189, 190, 191, 1000, 1234])(
    'reads all %i rows and proves it',
    (count) => {
      const walked = walk(numbered(count));
      expect([walked.seen.size, saysComplete(walked)]).toEqual([count, true]);
    },
  );

  it.each([2, 3, 7, 11, 12, 50])('reads everything in silent pages of %i', (cap) => {
    const walked = walk(numbered(333), { cap }, { maxSize: 1000 });
    expect([walked.seen.size, saysComplete(walked)]).toEqual([333, true]);
  });

  it('ends a one-page partition with one call once a larger page has been seen', () => {
    const pageLengths: PageLengths = new Map();
    const calls = (count: number): number => walk(numbered(count), {}, {}, { pageLengths }).calls;
    calls(300);
    expect(calls(40)).toBe(1);
    // A full page may be followed by one that the service leaves all records out of.
    expect(calls(100)).toBe(4);
  });

  it('says that the order was unknown when a walk of several pages has no fixed order', () => {
    const proofOf = (count: number) => walk(numbered(count), {}, { isOrdered: false }).proof;
    expect(proofOf(300)).toEqual({ kind: 'seam', isOrdered: false });
    expect(proofOf(30)).toEqual({ kind: 'single', isOrdered: true });
  });

  it('says that pages of one record cannot be fitted together', () => {
    expect(walk(numbered(5), { cap: 1 }).why).toContain('one record a page; such pages cannot overlap');
    expect(walk(numbered(1), { cap: 1 }).seen.size).toBe(1);
  });

  it('is not fooled into an early end by rows inserted in front', () => {
    const rows = numbered(500);
    const original = [...rows];
    const between = (call: number): void => {
      if (call === 3) rows.unshift(...Array.from({ length: 80 }, (_, index) => `new-${index}`));
    };
    const walked = walk(rows, { cap: 90 }, { maxSize: 90 }, { between });
    expect(walked.proof).not.toBeNull();
    expect(original.filter((row) => !walked.seen.has(row))).toEqual([]);
  });

  it('restarts, and then gives up with a clear reason, when rows move faster than it can follow', () => {
    const rows = numbered(5000);
    const { why, seen } = walk(rows, {}, {}, { between: () => void rows.splice(0, 60) });
    if (why !== null) expect(why).toContain('records moved between pages faster than');
    else expect(rows.filter((row) => !seen.has(row))).toEqual([]);
  });
});

describe('a walk by offset whose answers have a total', () => {
  it.each([1, 2, 11, 50, 99])(
    'proves a listing of %i rows by its one page, once a longer one came',
    (count) => {
      const longer = { records: 100, bytes: 10_000, followed: Infinity, whole: 0 };
      const pageLengths: PageLengths = new Map([[100, longer]]);
      expect(walk(numbered(count), { totalOf: truly }, {}, { pageLengths })).toMatchObject({
        calls: 1,
        proof: { kind: 'single', isOrdered: true },
      });
      expect(walk(numbered(count)).calls).toBeGreaterThan(1);
    },
  );

  it('asks once more where the total may count the records of the page alone', () => {
    expect(walk(numbered(50), { totalOf: truly }).calls).toBe(2);
    const walked = walk(numbered(120), { totalOf: () => 50, cap: 50 });
    expect(walked).toMatchObject({ seen: { size: 120 }, doubt: null });
    expect(walk(numbered(50), { totalOf: truly }, { totalCountsListing: true }).calls).toBe(1);
  });

  it('doubts its end where records that came twice fill the places of others', () => {
    const { doubt } = walk([...numbered(100), ...numbered(50)], { totalOf: truly });
    expect(doubt).toEqual({ kind: 'total', total: 150, shown: 100 });
  });

  it.each([150, 234, 999])('saves the call behind the last of several pages, of %i rows', (count) => {
    const walked = walk(numbered(count), { totalOf: truly });
    expect(walked.seen.size).toBe(count);
    expect(walked.proof).toEqual({ kind: 'seam', isOrdered: true, isCounted: true });
    expect(walked.calls).toBeLessThan(walk(numbered(count)).calls);
  });

  it.each<[string, (rows: number, call: number) => number | null]>([
    ['below the rows', (rows) => rows - 1],
    ['another one in every answer', (rows, call) => rows - (call % 2)],
    ['left out in the first answer', (rows, call) => (call === 1 ? null : rows)],
  ])('ends no walk sooner where it is %s', (_, totalOf) => {
    for (const count of [50, 234]) {
      let call = 0;
      const said = { totalOf: (rows: number) => totalOf(rows, call) };
      const walked = walk(numbered(count), said, {}, { between: (now) => (call = now) });
      expect([walked.seen.size, walked.calls]).toEqual([count, walk(numbered(count)).calls]);
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
    const plain = walk(numbered(count)).calls;
    const walked = walk(numbered(count), { totalOf: () => total });
    expect(walked.seen.size).toBe(count);
    expect(walked.doubt).toEqual({ kind: 'total', total, shown: count });
    // Short pages are not believed then: the pages behind them are requested as well.
    expect(walked.calls).toBeLessThanOrEqual(plain + 4);
    const { doubt, calls } = walk(numbered(count), { totalOf: () => total }, { trustsTotal: false });
    expect({ doubt, calls }).toEqual({ doubt: null, calls: plain });
  });

  it('meets a row that was appended behind the last page, and doubts nothing', () => {
    const rows = numbered(234);
    let call = 0;
    const between = (now: number): void => {
      call = now;
      // The answer before has counted it already.
      if (now === 4) rows.push('appended');
    };
    const walked = walk(rows, { totalOf: (all) => all + (call === 3 ? 1 : 0) }, {}, { between });
    expect([...walked.seen].at(-1)).toBe('appended');
    expect(walked.doubt).toBeNull();
  });

  it.each<[JsonValue, number | null]>([
    [{ total_items: 8 }, 8],
    [{ total_items: '8' }, null],
    [{ total_items: 8.5 }, null],
    [{ total_items: -1 }, null],
    [null, null],
  ])('finds it in %j as %j', (metadata, total) => {
    expect(readTotal(['total_items'], metadata)).toBe(total);
  });
});

describe('doubted totals', () => {
  const single = styleOf({ kind: 'single', totalKeys: ['total_items'] });
  type Answer = Pick<PageSeen, 'marks'> & { readonly total?: number; readonly next?: NextPage };

  /** The walk's end, and how many answers it took; those after the last repeat it. */
  function walkSingle(style: typeof single, answers: readonly [Answer, ...Answer[]], trustsTotal = true) {
    const pages = style.walk({
      isOrdered: true,
      growsOnly: false,
      pageLengths: new Map(),
      storedRows: 0,
      trustsTotal,
    });
    let position = pages.begin();
    for (let calls = 1; calls < 10; calls += 1) {
      const answer = answers[calls - 1] ?? answers.at(-1) ?? answers[0];
      const seen: PageSeen = { changes: [], capMs: 0, bytes: 1, nowMs: 0, next: null, ...answer };
      const advance = pages.advance(position, seen);
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
      expect(walkSingle(single, [{ marks: three, total: 8 }])).toEqual({ doubt, calls: 2 });
      expect(walkSingle(single, [{ marks: ['a', 'a', 'b'], total: 3 }]).doubt).toEqual({
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
      expect(walkSingle(single, answers)).toEqual({ doubt: undefined, calls: 2 });
    });

    it.each<[string, Answer, boolean]>([
      ['no total', { marks: three }, true],
      ['a total below its records', { marks: three, total: 1 }, true],
      ['a total that is to be ignored', { marks: three, total: 8 }, false],
    ])('is complete at once with %s', (_what, answer, trustsTotal) => {
      expect(walkSingle(single, [answer], trustsTotal)).toEqual({ doubt: undefined, calls: 1 });
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
      const seen = () => walkSingle(style, [{ marks: three, ...(next && { next }) }]);
      if (isMore) expect(seen).toThrow('that more records follow');
      else expect(seen()).toEqual({ doubt: undefined, calls: 1 });
    });
  });
});
