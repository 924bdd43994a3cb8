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
afterEach(async () => {
  await world[Symbol.asyncDispose]();
});

function store(given: Readonly<Record<string, string>>): void {
  for (const [id, title] of Object.entries(given)) {
    world.store({ id, title, body: { at: title }, tags: [title] });
  }
}

async function found(filter: JsonObject, isIndexed: boolean): Promise<readonly unknown[]> {
  return await world.ids({ query: { filter } }, { isIndexed });
}

describe.each([true, false])('two times (with the index: %s)', (isIndexed) => {
  beforeEach(() => {
    store(titles);
    if (isIndexed) world.index();
  });

  it.each(['title', 'body.at'])('are equal in %s where they name the same instant', async (field) => {
    for (const time of [
      titles.early,
      titles.zulu,
      titles.offset,
      '2026-03-01T09:00',
      '2026-03-01T10:00+01',
      '2026-03-01T09:00:00 UTC',
    ]) {
      expect(await found({ eq: { [field]: time } }, isIndexed)).toEqual(nine);
      expect(await found({ neq: { [field]: time } }, isIndexed)).toEqual(['fraction', 'late', 'day', 'word']);
      expect(await found({ in: { [field]: [time, 'report'] } }, isIndexed)).toEqual([...nine, 'word']);
      expect(await found({ contains: { tags: time } }, isIndexed)).toEqual(nine);
      expect(await found({ gt: { [field]: time } }, isIndexed)).toEqual(['fraction', 'late', 'word']);
      expect(await found({ gte: { [field]: time } }, isIndexed)).toEqual([
        ...nine,
        'fraction',
        'late',
        'word',
      ]);
      expect(await found({ lt: { [field]: time } }, isIndexed)).toEqual(['day']);
      expect(await found({ lte: { [field]: time } }, isIndexed)).toEqual([...nine, 'day']);
    }
  });

  it('stand behind the date of their day in UTC, which is no instant', async () => {
    expect(await found({ gt: { title: '2026-03-01' } }, isIndexed)).toEqual([
      ...nine,
      'fraction',
      'late',
      'word',
    ]);
    expect(await found({ lt: { title: '2026-03-02' } }, isIndexed)).toEqual([
      ...nine,
      'fraction',
      'late',
      'day',
    ]);
    expect(await found({ gte: { title: '2026-03' } }, isIndexed)).toEqual(Object.keys(titles));
  });

  it('are sorted by their instants', async () => {
    const ascending = ['day', ...nine, 'fraction', 'late', 'word'];
    for (const field of ['title', 'body.at']) {
      for (const limit of [1, 2, 1000]) {
        const query = { sort: [{ [field]: 'asc' }] };
        expect(await world.ids({ query, limit }, { isIndexed })).toEqual(ascending);
      }
    }
  });
});
