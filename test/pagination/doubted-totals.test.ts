import { describe, expect, it } from 'vitest';
import type { JsonValue } from '../../src/core/json.ts';
import { styleOf } from '../../src/pagination/pagination-of.ts';
import { readTotal } from '../../src/definitions/pagination-file.ts';
import type { Advance, NextPage, PageSeen } from '../../src/pagination/pagination.ts';
import type { Position } from '../../src/sinks/partition.ts';

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
