import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { JsonObject } from '../../src/core/json.ts';
import { openSearchWorld, type SearchWorld } from '../support/search/search-world.ts';
import { thingsEntity } from '../support/search/things.ts';

/** By id, the same three instants again and again; `day` and `word` are texts. */
const titles = {
  early: '2026-03-01T00:30:00-08:30',
  zulu: '2026-03-01T09:00:00Z',
  offset: '2026-03-01T09:00:00+00:00',
  fraction: '2026-03-01T09:00:00.50Z',
  late: '2026-03-02T01:00:00+09:00',
  day: '2026-03-01',
  word: 'report',
};
const nine = ['early', 'zulu', 'offset'];

let world: SearchWorld;
beforeEach(() => {
  world = openSearchWorld(thingsEntity());
});
afterEach(() => world[Symbol.dispose]());

function store(given: Readonly<Record<string, string>>): void {
  for (const [id, title] of Object.entries(given)) {
    world.store({ id, title, body: { at: title }, tags: [title] });
  }
}

function found(filter: JsonObject, isIndexed: boolean): readonly unknown[] {
  return world.ids({ query: { filter } }, { isIndexed });
}

describe.each([true, false])('two times (with the index: %s)', (isIndexed) => {
  beforeEach(async () => {
    store(titles);
    if (isIndexed) await world.index();
  });

  it.each(['title', 'body.at'])('are equal in %s where they name the same instant', (field) => {
    for (const time of [
      titles.early,
      titles.zulu,
      titles.offset,
      '2026-03-01T09:00',
      '2026-03-01T10:00+01',
    ]) {
      expect(found({ eq: { [field]: time } }, isIndexed)).toEqual(nine);
      expect(found({ neq: { [field]: time } }, isIndexed)).toEqual(['fraction', 'late', 'day', 'word']);
      expect(found({ in: { [field]: [time, 'report'] } }, isIndexed)).toEqual([...nine, 'word']);
      expect(found({ contains: { tags: time } }, isIndexed)).toEqual(nine);
      expect(found({ gt: { [field]: time } }, isIndexed)).toEqual(['fraction', 'late', 'word']);
      expect(found({ gte: { [field]: time } }, isIndexed)).toEqual([...nine, 'fraction', 'late', 'word']);
      expect(found({ lt: { [field]: time } }, isIndexed)).toEqual(['day']);
      expect(found({ lte: { [field]: time } }, isIndexed)).toEqual([...nine, 'day']);
    }
  });

  it('stand behind the date of their day in UTC, which is no instant', () => {
    expect(found({ gt: { title: '2026-03-01' } }, isIndexed)).toEqual([...nine, 'fraction', 'late', 'word']);
    expect(found({ lt: { title: '2026-03-02' } }, isIndexed)).toEqual([...nine, 'fraction', 'late', 'day']);
    expect(found({ gte: { title: '2026-03' } }, isIndexed)).toEqual(Object.keys(titles));
  });

  it('are sorted by their instants', () => {
    const ascending = ['day', ...nine, 'fraction', 'late', 'word'];
    for (const field of ['title', 'body.at']) {
      for (const limit of [1, 2, 1000]) {
        const query = { sort: [{ [field]: 'asc' }] };
        expect(world.ids({ query, limit }, { isIndexed })).toEqual(ascending);
      }
    }
  });
});

describe('a column of times', () => {
  const sorted = { query: { sort: [{ title: 'asc' }] }, limit: 1 };

  it('is sorted by SQLite where all are spelled alike, and by instants as soon as one is not', async () => {
    store({ b: '2026-03-01T09:00:00+00:00', a: '2026-02-01T09:00:00+00:00', c: 'report' });
    await world.index();
    expect(sortsByColumn()).toBe(true);
    store({ d: '2026-02-01T08:59:59Z' });
    expect(sortsByColumn()).toBe(false);
    expect(world.ids(sorted)).toEqual(['d', 'a', 'b', 'c']);
    await world.index();
    expect(sortsByColumn()).toBe(false);
    expect(world.ids(sorted)).toEqual(['d', 'a', 'b', 'c']);
  });

  it('takes no cursor from before one was spelled in another way', async () => {
    store({ b: '2026-03-01T09:00:00Z', a: '2026-02-01T09:00:00Z' });
    await world.index();
    const { cursor } = world.search(sorted).meta;
    store({ d: '2026-02-01T10:00:00+02:00' });
    expect(() => world.search({ ...sorted, cursor })).toThrow(
      /held times in another spelling; begin without it/,
    );
  });

  /** Whether the statement that pages are read with has the column itself as its order. */
  function sortsByColumn(): boolean {
    const prepare = world.db.prepare.bind(world.db);
    const statements: string[] = [];
    world.db.prepare = (sql: string) => {
      statements.push(sql);
      return prepare(sql);
    };
    world.search(sorted);
    world.db.prepare = prepare;
    return statements.some((sql) => sql.includes('ORDER BY r."title" asc'));
  }
});
