import { describe, expect, it } from 'vitest';
import type { Advance, NextPage } from '../../src/pagination/pagination.ts';
import { pageTokenPagination } from '../../src/pagination/page-token.ts';

const rules = {
  kind: 'pageToken',
  tokenParam: 'start_cursor',
  sizeParam: 'page_size',
  maxSize: 100,
  flagKeys: ['has_more'],
  tokenKeys: ['next_cursor'],
  lifetimeMs: 60_000,
  totalKeys: ['total'],
} as const;

/** Feeds one page after the other until the walk is over. */
function walk(
  pages: readonly { marks: readonly string[]; next: NextPage | null; total?: number }[],
): Advance {
  const pagination = pageTokenPagination(rules, { trustsTotal: true });
  let position = pagination.begin();
  for (const page of pages) {
    const advance = pagination.advance(position, { ...page, changes: [], capMs: 0, bytes: 100, nowMs: 1000 });
    if (advance.kind !== 'continue') return advance;
    position = advance.position;
  }
  throw new Error('the walk is not over');
}

const more = (token: string | null): NextPage => ({ hasMore: true, token });
const last: NextPage = { hasMore: false, token: null };

describe('page token pagination', () => {
  // Proves promise 3
  it('reads through short and empty pages until the flag ends the listing', () => {
    const end = walk([
      { marks: ['a'], next: more('1') },
      { marks: [], next: more('2') },
      { marks: [], next: more('3') },
      { marks: ['b', 'c'], next: last },
    ]);
    expect(end).toMatchObject({ kind: 'end', proof: { kind: 'token', isOrdered: true } });
  });

  it('proves nothing by tokens that only count pages, unless a steady total agrees', () => {
    const counted = (...totals: readonly (number | undefined)[]): Advance =>
      walk(
        totals.map((total, index) => ({
          marks: [`${index}a`, `${index}b`],
          next: index === totals.length - 1 ? last : { hasMore: true, token: `${index}`, isNumbered: true },
          ...(total === undefined ? {} : { total }),
        })),
      );
    const partMissing = { kind: 'end', proof: { kind: 'token', isOrdered: false } };
    expect(counted(undefined, undefined)).toEqual(expect.objectContaining(partMissing));
    expect(counted(4, 4)).toMatchObject({ proof: { isOrdered: false, isCounted: true } });
    // A row that left before the second page has drawn another one past the end of the first.
    expect(counted(5, 4)).toEqual(expect.objectContaining(partMissing));
    expect(counted(undefined)).toMatchObject({ kind: 'end', proof: { isOrdered: true } });
  });

  it('sends the token back and asks for the largest page', () => {
    const pagination = pageTokenPagination(rules, { trustsTotal: true });
    expect(pagination.request(pagination.begin())).toEqual({ page_size: 100 });
    const advance = pagination.advance(pagination.begin(), {
      marks: ['a'],
      next: more('t'),
      changes: [],
      capMs: 0,
      bytes: 100,
      nowMs: 5,
    });
    expect(advance.kind === 'continue' && pagination.request(advance.position)).toEqual({
      page_size: 100,
      start_cursor: 't',
    });
  });

  it('refuses a flag without a token', () => {
    expect(walk([{ marks: ['a'], next: more(null) }])).toMatchObject({
      kind: 'broken',
      code: 'PAGING_BROKEN',
    });
    expect(walk([{ marks: ['a'], next: more('') }])).toMatchObject({ kind: 'broken', code: 'PAGING_BROKEN' });
  });

  it('refuses a response that says nothing about more pages', () => {
    expect(walk([{ marks: ['a'], next: null }])).toMatchObject({ kind: 'broken', code: 'BODY_INVALID' });
  });

  it('notices a repeated token and a circle of tokens of any length', () => {
    expect(
      walk([
        { marks: ['a'], next: more('1') },
        { marks: ['b'], next: more('1') },
      ]),
    ).toMatchObject({ code: 'PAGING_BROKEN' });
    for (const length of [2, 3, 5, 17, 64]) {
      const pages = Array.from({ length: 500 }, (_, index) => ({
        marks: [`row-${index}`],
        next: more(`token-${index % length}`),
      }));
      expect(walk(pages)).toMatchObject({ kind: 'broken', code: 'PAGING_BROKEN' });
    }
  });

  it('notices the same page behind another token', () => {
    expect(
      walk([
        { marks: ['a', 'b'], next: more('1') },
        { marks: ['a', 'b'], next: more('2') },
      ]),
    ).toMatchObject({
      kind: 'broken',
      code: 'PAGING_BROKEN',
    });
  });

  it('notices fresh tokens that lead in a circle', () => {
    const circle = Array.from({ length: 100 }, (_, index) => ({
      marks: [`row-${index % 3}`],
      next: more(`token-${index}`),
    }));
    expect(walk(circle)).toMatchObject({ kind: 'broken', code: 'PAGING_BROKEN' });
  });

  it('refuses a token that is too long to be kept', () => {
    expect(walk([{ marks: ['a'], next: more('t'.repeat(70_000)) }])).toMatchObject({
      kind: 'broken',
      code: 'PAGING_BROKEN',
    });
  });

  it('knows when a token is too old to be sent', () => {
    const pagination = pageTokenPagination(rules, { trustsTotal: true });
    const advance = pagination.advance(pagination.begin(), {
      marks: ['a'],
      next: more('t'),
      changes: [],
      capMs: 0,
      bytes: 100,
      nowMs: 1000,
    });
    if (advance.kind !== 'continue') throw new Error(advance.kind);
    expect(pagination.expired(advance.position, 61_000)).toBeNull();
    expect(pagination.expired(advance.position, 61_001)).toContain('60 s');
    expect(pagination.expired(pagination.begin(), 1e12)).toBeNull();
  });

  it('halves the page size down to one', () => {
    const pagination = pageTokenPagination(rules, { trustsTotal: true });
    let position: ReturnType<typeof pagination.halve> = pagination.begin();
    const sizes: unknown[] = [];
    while (position !== null) {
      sizes.push(pagination.request(position)['page_size']);
      position = pagination.halve(position);
    }
    expect(sizes).toEqual([100, 50, 25, 12, 6, 3, 1]);
  });
});
