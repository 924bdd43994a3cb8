import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { SyncError } from '../../src/core/errors.ts';
import type { Clock } from '../../src/core/clock.ts';
import { instantClock } from '../support/instant-clock.ts';
import { openSearchWorld, type SearchOptions, type SearchWorld } from '../support/search/search-world.ts';
import { thingsEntity } from '../support/search/things.ts';

let world: SearchWorld;

beforeEach(() => {
  world = openSearchWorld(thingsEntity());
  for (let number = 10; number < 40; number += 1) {
    world.store({
      id: `t${number}`,
      amount: number % 4,
      body: { size: number % 3 === 0 ? null : number % 5 },
    });
  }
});

afterEach(() => world[Symbol.dispose]());

const sorts = [[], [{ amount: 'asc' }], [{ amount: 'desc' }, { id: 'asc' }], [{ 'body.size': 'desc' }]];

describe('paging through a search', () => {
  // Proves promise 16
  it.each(sorts.map((sort) => ({ sort })))(
    'shows what keeps its place once, whatever comes, changes and goes between pages ($sort)',
    ({ sort }) => {
      const query = { sort };
      const seen: unknown[] = [];
      let cursor: string | null = null;
      for (let page = 0; cursor !== null || page === 0; page += 1) {
        const { data, meta } = world.search({ query, limit: 3, cursor });
        seen.push(...data.map(({ id }) => id));
        cursor = meta.cursor;
        expect(meta.has_more).toBe(cursor !== null);
        world.store({ id: `new${page}`, amount: page % 5, body: { size: page % 4 } });
        // Of what was there only these two leave their place: one goes, one gets another value.
        if (page === 0) world.tombstone(20);
        if (page === 1) world.store({ id: 't25', amount: 9, body: { size: 9 } });
      }
      const kept = Array.from({ length: 30 }, (_, index) => `t${index + 10}`).filter(
        (id) => id !== 't29' && id !== 't25',
      );
      expect(
        seen
          .filter((id) => kept.includes(String(id)))
          .map(String)
          .toSorted(byText),
      ).toEqual(kept);
    },
  );

  it('ends without a cursor on a page that is just full', () => {
    expect(world.search({ query: {}, limit: 30 }).meta).toMatchObject({ has_more: false, cursor: null });
    expect(world.search({ query: {}, limit: 29 }).meta).toMatchObject({ has_more: true });
  });

  it('continues with another limit and other fields', () => {
    const { cursor } = world.search({ query: {}, limit: 2 }).meta;
    expect(world.search({ query: {}, limit: 1, cursor, fields: ['amount'] }).data).toEqual([{ amount: 0 }]);
  });

  it('continues exactly where it stopped, sorted by texts, long integers or fractions', () => {
    const values = ['', '\0', 'a\0', 'é', '😀', '\uE000', '"\\'];
    for (const [index, title] of values.entries()) world.store({ id: `v${index}`, title });
    const amounts = [9_007_199_254_740_993n, 9_007_199_254_740_992n, -9_223_372_036_854_775_808n];
    for (const [index, amount] of amounts.entries()) world.store({ id: `w${index}`, amount });
    for (const [index, ratio] of [0.1, 0.30000000000000004, 1e-300].entries()) {
      world.store({ id: `x${index}`, ratio });
    }
    for (const field of ['title', 'amount', 'ratio', 'whatever']) {
      for (const direction of ['asc', 'desc']) {
        const query = { sort: [{ [field]: direction }, { id: 'asc' }] };
        const once = world.search({ query }).data.map(({ id }) => id);
        expect(world.ids({ query, limit: 1 })).toEqual(once);
        expect(once).toHaveLength(43);
      }
    }
  });

  it('ends a page early where the records are large', () => {
    for (let number = 0; number < 5; number += 1) {
      world.store({ id: `big${number}`, title: 'x'.repeat(7 * 1024 * 1024) });
    }
    const query = { filter: { like: { id: 'big%' } } };
    const page = world.search({ query, fields: ['title'] });
    expect(page.data).toHaveLength(3);
    expect(world.search({ query, cursor: page.meta.cursor, fields: ['title'] }).data).toHaveLength(2);
    expect(world.search({ query, fields: ['id'] }).data).toHaveLength(5);
  });

  it('holds none of the texts that it sorts by', () => {
    world.db.exec(`UPDATE shop__things SET title = id || replace(hex(zeroblob(500000)), '0', 'x')`);
    const before = process.memoryUsage().heapUsed;
    let most = 0;
    const clock: Clock = {
      ...instantClock(),
      now: () => {
        most = Math.max(most, process.memoryUsage().heapUsed - before);
        return 0;
      },
    };
    const query = { sort: [{ title: 'desc' }] };
    const { data } = world.search({ query, fields: ['id'] }, { clock });
    expect(data.map(({ id }) => id)).toEqual(Array.from({ length: 30 }, (_, index) => `t${39 - index}`));
    expect(most).toBeLessThan(10_000_000);
  });

  it('says so when the texts that are sorted by are too long for a cursor', () => {
    for (const id of ['a', 'b']) world.store({ id, title: id.repeat(9_000) });
    const query = { sort: [{ title: 'desc' }] };
    expect(world.search({ query }).data).toHaveLength(32);
    expect(refusal({ query, limit: 1 })).toMatchObject({ context: { path: 'query.sort' } });
    // Inside of values a part of the text decides.
    world.store({ id: 'c', whatever: ['c'.repeat(9_000)] });
    expect(world.ids({ query: { sort: [{ whatever: 'desc' }] }, limit: 1 })[0]).toBe('c');
  });
});

describe('a cursor', () => {
  const query = { filter: { gte: { amount: 1 } }, sort: [{ amount: 'asc' }] };
  let cursor: string;
  beforeEach(() => {
    cursor = world.search({ query, limit: 3 }).meta.cursor ?? '';
  });

  it.each<[what: string, params: unknown, options: SearchOptions]>([
    ['another filter', { query: { ...query, filter: { gte: { amount: 0 } } } }, {}],
    ['another sort', { query: { ...query, sort: [{ amount: 'desc' }] } }, {}],
    ['no sort', { query: { filter: query.filter } }, {}],
    ['another entity or connector', { query }, { scope: 'shop/others' }],
    ['another key', { query }, { cursorKey: Buffer.alloc(32, 8) }],
  ])('is refused with %s', (_, params, options) => {
    expect(refusal({ ...(params as object), cursor }, options)).toMatchObject({
      context: { path: 'cursor' },
    });
  });

  it('is refused once a field that it was sorted by has its own column', () => {
    const fields = new Map(world.target.fields);
    fields.set('title', {
      name: 'title',
      type: 'string',
      sources: [{ kind: 'extra', name: 'title' }],
      shape: 'asIs',
    });
    const before = { target: { ...world.target, fields } };
    const byTitle = { query: { sort: [{ title: 'asc' }] }, limit: 3 };
    const given = world.search(byTitle, before).meta.cursor;
    expect(world.search({ ...byTitle, cursor: given }, before).data).toHaveLength(3);
    expect(refusal({ ...byTitle, cursor: given })).toMatchObject({ context: { path: 'cursor' } });
  });

  // Proves promise 16
  it('is refused when anything in it was changed', () => {
    const [payload = '', seal = ''] = cursor.split('.');
    const [digest = '', row, ...values] = JSON.parse(
      Buffer.from(payload, 'base64url').toString(),
    ) as unknown[];
    const other = Buffer.from(JSON.stringify([digest, Number(row) + 1, ...values])).toString('base64url');
    const changed = [
      '',
      '.',
      payload,
      `${other}.${seal}`,
      `${payload}.${seal.slice(1)}`,
      `${cursor}.`,
      `${cursor}=`,
    ];
    for (let at = 0; at < cursor.length; at += 1) {
      changed.push(cursor.slice(0, at) + (cursor[at] === 'A' ? 'B' : 'A') + cursor.slice(at + 1));
    }
    for (const text of [...changed, '😀', 'a'.repeat(8192), 'null.null']) {
      expect(refusal({ query, cursor: text })).toMatchObject({ context: { path: 'cursor' } });
    }
    expect(world.search({ query, cursor }).data.length).toBeGreaterThan(0);
  });
});

describe('a search that takes too long', () => {
  /** A minute passes with every look at it. */
  function hastyClock(): Clock {
    const clock = instantClock();
    return {
      ...clock,
      now: () => {
        clock.advance(60_000);
        return clock.now();
      },
    };
  }

  it.each([
    { filter: { eq: { 'body.size': 1 } } },
    { filter: { keyword: { title: 'a' } } },
    { sort: [{ body: 'asc' }] },
    { filter: { eq: { amount: 1 } } },
    {},
  ])('is ended, and the next one works: %j', (query) => {
    const error = refusal({ query }, { clock: hastyClock(), deadlineMs: 119_000 });
    expect(error).toMatchObject({ code: 'SEARCH_TOO_SLOW', context: { deadlineMs: 119_000 } });
    expect(world.search({ query }).meta.took_ms).toBe(0);
  });
});

function byText(left: string, right: string): number {
  return left < right ? -1 : 1;
}

function refusal(params: unknown, options?: SearchOptions): SyncError {
  try {
    world.search(params, options);
  } catch (error) {
    if (error instanceof SyncError) return error;
    throw error;
  }
  throw new Error('expected to be refused');
}
