import Database from 'better-sqlite3';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type Clock, systemClock } from '../../src/core/clock.ts';
import { SyncError } from '../../src/core/errors.ts';
import type { Entity } from '../../src/definitions/definition.ts';
import { openSearch } from '../../src/search/open-search.ts';
import { Bench, news, record } from '../contracts/sink/fixture.ts';
import { instantClock } from '../support/instant-clock.ts';
import { sqlite, listMembers, sinkOfMembers } from '../support/search/index-world.ts';
import {
  openSearchWorld,
  type SearchOptions,
  type SearchWorld,
  thingsEntity,
} from '../support/search/search-world.ts';

describe('paging', () => {
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

  afterEach(async () => {
    await world[Symbol.asyncDispose]();
  });

  const sorts = [[], [{ amount: 'asc' }], [{ amount: 'desc' }, { id: 'asc' }], [{ 'body.size': 'desc' }]];

  describe('paging through a search', () => {
    // Proves promise 16
    it.each(sorts.map((sort) => ({ sort })))(
      'shows what keeps its place once, whatever comes, changes and goes between pages ($sort)',
      async ({ sort }) => {
        const query = { sort };
        const seen: unknown[] = [];
        let cursor: string | null = null;
        for (let page = 0; cursor !== null || page === 0; page += 1) {
          const { data, meta } = await world.search({ query, limit: 3, cursor });
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

    it('ends without a cursor on a page that is just full', async () => {
      expect((await world.search({ query: {}, limit: 30 })).meta).toMatchObject({
        has_more: false,
        cursor: null,
      });
      expect((await world.search({ query: {}, limit: 29 })).meta).toMatchObject({ has_more: true });
    });

    it('continues exactly where it stopped, sorted by texts, long integers or fractions', async () => {
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
          const once = (await world.search({ query })).data.map(({ id }) => id);
          expect(await world.ids({ query, limit: 1 })).toEqual(once);
          expect(once).toHaveLength(43);
        }
      }
    });

    it('sorts by the first part of long texts, wherever they are, and continues behind it', async () => {
      const long = 'x'.repeat(512);
      const titles = { a: `${long}2`, b: `${long}1`, c: `${'x'.repeat(511)}y`, d: 'x'.repeat(9_000) };
      for (const [id, title] of Object.entries(titles)) {
        world.store({ id, title, whatever: [title], body: { title } });
      }
      for (const field of ['title', 'body.title']) {
        const query = { filter: { gt: { title: '' } }, sort: [{ [field]: 'asc' }] };
        expect(await world.ids({ query, limit: 1 })).toEqual(['a', 'b', 'd', 'c']);
      }
      const sort = ['title', 'body.title', 'whatever', 'tags'].map((field) => ({ [field]: 'desc' }));
      expect((await world.ids({ query: { sort }, limit: 1 })).slice(0, 4)).toEqual(['c', 'd', 'b', 'a']);
    });
  });

  describe('a cursor', () => {
    const query = { filter: { gte: { amount: 1 } }, sort: [{ amount: 'asc' }] };
    let cursor: string;
    beforeEach(async () => {
      cursor = (await world.search({ query, limit: 3 })).meta.cursor ?? '';
    });

    it.each<[what: string, params: unknown, options: SearchOptions]>([
      ['another filter', { query: { ...query, filter: { gte: { amount: 0 } } } }, {}],
      ['another sort', { query: { ...query, sort: [{ amount: 'desc' }] } }, {}],
      ['no sort', { query: { filter: query.filter } }, {}],
      ['another entity or connector', { query }, { scope: 'shop/others' }],
      ['another key', { query }, { cursorKey: Buffer.alloc(32, 8) }],
    ])('is refused with %s', async (_, params, options) => {
      expect(await refusal({ ...(params as object), cursor }, options)).toMatchObject({
        context: { path: 'cursor' },
      });
    });

    it('continues once a field that it was sorted by has its own column', async () => {
      const fields = new Map(world.target.fields);
      fields.set('id', {
        name: 'id',
        type: 'any',
        sources: [{ kind: 'column', column: 'id', type: 'string' }],
        shape: 'pairs',
      });
      const before = { target: { ...world.target, fields } };
      const byId = { query: { sort: [{ id: 'desc' }] }, limit: 3 };
      const given = (await world.search(byId, before)).meta.cursor;
      const { data } = await world.search({ ...byId, cursor: given });
      expect(data.map(({ id }) => id)).toEqual(['t36', 't35', 't34']);
    });

    // Proves promise 16
    it('is refused when anything in it was changed', async () => {
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
        expect(await refusal({ query, cursor: text })).toMatchObject({ context: { path: 'cursor' } });
      }
      expect((await world.search({ query, cursor })).data.length).toBeGreaterThan(0);
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
    ])('is ended, and the next one works: %j', async (query) => {
      const error = await refusal({ query }, { clock: hastyClock(), deadlineMs: 119_000 });
      expect(error).toMatchObject({ code: 'SEARCH_TOO_SLOW', context: { deadlineMs: 119_000 } });
      expect((await world.search({ query })).meta.took_ms).toBe(0);
    });
  });

  function byText(left: string, right: string): number {
    return left < right ? -1 : 1;
  }

  async function refusal(params: unknown, options?: SearchOptions): Promise<SyncError> {
    try {
      await world.search(params, options);
    } catch (error) {
      if (error instanceof SyncError) return error;
      throw error;
    }
    throw new Error('expected to be refused');
  }
});

describe('a search during a sync', () => {
  let bench: Bench;
  let file: string;

  beforeEach(async () => {
    bench = new Bench(sqlite);
    const values = { list_id: 'a', id: '1' };
    const member = record(listMembers.table, values, { extra: '{"nick":"The Countess"}' });
    file = await sinkOfMembers(bench, [member], { isIndexed: true });
  });

  afterEach(async () => {
    await bench.close();
  });

  it('finds a value that moves into a new column meanwhile', async () => {
    let isMoved = false;
    const entity: Entity = {
      ...listMembers,
      // Read once the search knows the columns, and before it looks at records.
      get searchable(): Entity['searchable'] {
        if (!isMoved) moveIntoColumn(file);
        isMoved = true;
        return new Map([['nick', { type: 'string', from: ['nick'], shape: 'asIs' }]]);
      },
    };
    await using open = openSearch(file);
    const { signal } = new AbortController();
    for (const filter of [{}, { eq: { nick: 'The Countess' } }, { keyword: { nick: 'countess' } }]) {
      const options = {
        cursorKey: Buffer.alloc(32),
        scope: 's',
        clock: systemClock,
        deadlineMs: 5_000,
        signal,
      };
      const { data } = await open.search({ connector: news, entity }, { query: { filter } }, options);
      expect(data).toEqual([{ nick: 'The Countess' }]);
    }
    expect(isMoved).toBe(true);
  });
});

/** As a sync leaves it that adds a column for a field that no definition declares. */
function moveIntoColumn(file: string): void {
  const db = new Database(file);
  const table = 'news__list_members';
  const withNick = `json_insert(stored, '$[#]', json('{"name":"nick","type":"string"}'))`;
  db.transaction(() => {
    db.exec(`ALTER TABLE ${table} ADD COLUMN nick TEXT`);
    db.exec(`UPDATE ${table} SET nick = _extra ->> 'nick', _extra = NULL, _run_id = 'run-2', _seq = 2`);
    db.exec(`UPDATE _sync_tables SET stored = ${withNick} WHERE entity = 'list_members'`);
    db.exec('UPDATE _sync_meta SET seq = 2');
  }).immediate();
  db.close();
}
