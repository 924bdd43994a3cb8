import { describe, expect, it } from 'vitest';
import type { JsonValue } from '../../src/core/json.ts';
import { readTotal } from '../../src/definitions/pagination-file.ts';
import { readFlag, readToken, type Advance, type NextPage } from '../../src/pagination/pagination.ts';
import { pageTokenPagination } from '../../src/pagination/page-token.ts';
import {
  hasCounted,
  saysComplete,
  walkMadeUp,
  type Declared,
  type MadeUpPaging,
  type TokenFault,
  type TokenKind,
} from '../support/pagination/made-up-paging.ts';
import { seededRandom } from '../support/seeded-random.ts';
import { repeats, startSeed } from '../support/trials.ts';

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
  trustsTotal = true,
): Advance {
  const pagination = pageTokenPagination(rules, { trustsTotal });
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

  // Proves promise 3.1
  it('is doubted where its last answer counts more than all pages showed, if its total is to be used', () => {
    const first = { marks: ['a', 'b'], next: more('t') };
    const end = { marks: ['c'], next: last };
    const counted = (atFirst: number, atEnd: number, trustsTotal?: boolean) =>
      walk(
        [
          { ...first, total: atFirst },
          { ...end, total: atEnd },
        ],
        trustsTotal,
      );
    expect(counted(3, 5)).toMatchObject({ doubt: { kind: 'total', total: 5, shown: 3 } });
    expect(counted(5, 3)).not.toHaveProperty('doubt');
    expect(counted(5, 5, false)).not.toHaveProperty('doubt');
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

const seed = startSeed();
const trials = repeats('TRIALS', { share: 50, full: 5_000 });
const kinds: readonly TokenKind[] = [
  'cursor',
  'lastRecord',
  'nextUrl',
  'linkHeader',
  'anyOfUrl',
  'anyOfLink',
];

// Proves promise 3
it.each(kinds)(
  `reads a service by %s whole where it says so, whatever its pages repeat, skip and count (seed ${seed})`,
  (kind) => {
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
      const isNewestFirst = random() < 0.3 && kind !== 'lastRecord';
      const fromRow = int(count);
      const declared: Declared = {
        maxSize: pick(1 + int(100), 20, 50),
        isFixed: false,
        end: null,
        isOrdered: random() < 0.5,
        growsOnly: false,
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

const tokenAt = (tokenKeys: Parameters<typeof readToken>[0]['tokenKeys'], metadata: JsonValue) =>
  readToken({ flagKeys: ['more'], tokenKeys }, { metadata, result: [] });
const address = { key: 'links.next', param: 'page[cursor]' };

describe('a key of an answer', () => {
  it.each<[string, Parameters<typeof tokenAt>[0], JsonValue, string | null]>([
    ['names joined by dots', ['page.next'], { page: { next: 'n' } }, 'n'],
    ['either spelling of each', ['next_page.end_cursor'], { nextPage: { endCursor: 'n' } }, 'n'],
    [
      'a name that has the dots itself',
      ['@odata.next'],
      { '@odata.next': 'n', '@odata': { next: 'm' } },
      'n',
    ],
    ['an object that is null', ['page.next'], { page: null }, null],
    ['an object without the last name', ['page.next'], { page: { size: 5 } }, null],
    ['the first that is there', ['a.b', 'c'], { c: 'n' }, 'n'],
    [
      'a parameter of an address',
      [address],
      { links: { next: 'https://x.example/y?page%5Bcursor%5D=a%26b' } },
      'a&b',
    ],
    ['a parameter of a relative address', [address], { links: { next: '?page[cursor]=n' } }, 'n'],
    ['no address', [address], { links: { next: null } }, null],
    ['a number', ['page'], { page: 5 }, '5'],
    ['a number with all its digits', ['page'], { page: 12345678901234567890n }, '12345678901234567890'],
    ['0, which is the place of no later page', ['page'], { page: 0 }, null],
  ])('leads to the token by %s', (_what, keys, metadata, token) => {
    expect(tokenAt(keys, metadata)).toEqual({ hasMore: null, token });
  });

  it.each<[string, Parameters<typeof tokenAt>[0], JsonValue, string]>([
    [
      'an object',
      ['page'],
      { page: { offset: 'n' } },
      'got an object: name its member that is the token, such as page.offset',
    ],
    [
      'a fraction',
      ['page'],
      { page: 5.5 },
      'expected a text, a whole number or null as page token page, got a number',
    ],
    [
      'an address without the parameter',
      [address],
      { links: { next: '/x?page=2' } },
      'the parameter page[cursor] at links.next',
    ],
    [
      'what is no address',
      [address],
      { links: { next: 'https://' } },
      'the parameter page[cursor] at links.next',
    ],
    ['nothing', ['page.next'], { total: 5 }, 'expected one of more, page.next'],
    ['a text in place of the object', ['page.next'], { page: 'n' }, 'expected one of more, page.next'],
  ])('that leads to %s is an error', (_what, keys, metadata, fault) => {
    expect(tokenAt(keys, metadata)).toMatchObject({ fault: expect.stringContaining(fault) as string });
  });

  it.each<[JsonValue, boolean | null]>([
    [{ next: true }, true],
    [{ next: false }, false],
    [{ next: null }, false],
    [{ next: '' }, false],
    [{ next: 3 }, true],
    [{ next: '/x?page=3' }, true],
    [{ next: 'false' }, false],
    [{ next: 'True' }, true],
    [{ next: 0 }, false],
    [{ next: '0' }, false],
    [{ next: 1 }, true],
    [{}, null],
  ])('says by the next page in %j whether it exists', (metadata, hasMore) => {
    expect(readFlag({ flagKeys: ['next'] }, { metadata, result: [] })).toEqual({ hasMore, token: null });
  });

  it.each<[JsonValue, boolean | null]>([
    [true, true],
    ['true', true],
    [1, true],
    ['1', true],
    [false, false],
    ['False', false],
    [0, false],
    ['0', false],
    [null, null],
    ['', null],
  ])('says by a flag of %j beside a token whether more follows', (more, hasMore) => {
    expect(tokenAt(['next'], { more, next: 'n' })).toEqual({ hasMore, token: 'n' });
  });

  it('that leads to another flag beside a token is an error, which names the line to change', () => {
    const fault =
      'expected true or false at more, got a string; if it is no flag, take it out of the flagKeys';
    expect(tokenAt(['next'], { more: 'maybe', next: 'n' })).toEqual({
      fault: expect.stringContaining(fault) as string,
    });
  });

  it('that leads to an object is no flag', () => {
    expect(readFlag({ flagKeys: ['next'] }, { metadata: { next: {} }, result: [] })).toHaveProperty('fault');
  });

  it('leads to a total', () => {
    expect(readTotal(['meta.count'], { meta: { count: 8 } })).toBe(8);
    expect(readTotal(['meta.count'], { meta: null })).toBe(null);
  });
});
