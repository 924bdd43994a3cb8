import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { JsonObject } from '../../../src/core/json.ts';
import { notes, sampleAccounts, serveApi, type ServedApi, text } from '../../support/service/served-api.ts';

let api: ServedApi;
beforeAll(async () => {
  api = await serveApi({ accounts: sampleAccounts('small') });
});
afterAll(() => api.service.close());

const walk = async (entity: string, params: JsonObject): Promise<readonly JsonObject[]> => {
  const records: JsonObject[] = [];
  for (let token: JsonObject = {}; ;) {
    const page = await api.list(notes, entity, { ...params, ...token });
    records.push(...page.records);
    if (page.metadata['has_more'] !== true) return records;
    token = { start_cursor: page.metadata['next_cursor'] ?? null };
  }
};
const kinds = (records: readonly JsonObject[]): ReadonlySet<unknown> =>
  new Set(records.map(({ object }) => object));
const edits = (records: readonly JsonObject[]): readonly string[] =>
  records.map(({ last_edited_time }) => text(last_edited_time));
const only = (value: string): JsonObject => ({ filter: { property: 'object', value } });

describe('pages and data_sources', () => {
  // Proves specification 4.8.7
  it('mix without a filter, whichever of the two is asked for', async () => {
    const pages = await walk('pages', {});
    expect(kinds(pages)).toEqual(new Set(['page', 'data_source']));
    expect(pages).toHaveLength(125);
    expect(await walk('data_sources', {})).toEqual(pages);
  });

  // Proves specification 4.8.6
  it('keep apart with a filter, whichever of the two is asked for', async () => {
    const pages = await walk('pages', only('page'));
    expect([kinds(pages), pages.length]).toEqual([new Set(['page']), 120]);
    const sources = await walk('data_sources', only('data_source'));
    expect([kinds(sources), sources.length]).toEqual([new Set(['data_source']), 5]);
    expect(await walk('pages', only('data_source'))).toEqual(sources);
  });

  // Proves specification 4.8.8
  it('come newest edit first unless ascending is asked for', async () => {
    const newest = edits(await walk('pages', only('page')));
    expect(newest).toEqual(newest.toSorted().toReversed());
    const sort = { timestamp: 'last_edited_time' };
    expect(
      edits(await walk('pages', { ...only('page'), sort: { ...sort, direction: 'descending' } })),
    ).toEqual(newest);
    const oldest = edits(await walk('pages', { ...only('page'), sort: { ...sort, direction: 'ascending' } }));
    expect(oldest).toEqual(newest.toReversed());
  });

  it('have times rounded down to the minute, some of them equal', async () => {
    const times = edits(await walk('pages', only('page')));
    expect(times.every((time) => time.endsWith(':00.000Z'))).toBe(true);
    expect(new Set(times).size).toBeLessThan(times.length);
  });

  // Proves specification 4.8.6, 4.8.8
  it.each([
    { filter: { property: 'object', value: 'database' } },
    { filter: { property: 'title', value: 'page' } },
    { filter: { value: 'page' } },
    { filter: { property: 'object' } },
    { sort: { direction: 'up', timestamp: 'last_edited_time' } },
    { sort: { direction: 'ascending', timestamp: 'created_time' } },
  ])('refuse %j with 400', async (params) => {
    expect((await api.execute(notes, { entity: 'pages', action: 'list', params })).status).toBe(400);
  });
});

describe('page_size', () => {
  // Proves specification 8.4
  it('is 100 by default and counts the records of a page', async () => {
    expect((await api.list(notes, 'pages', only('page'))).records).toHaveLength(100);
    expect((await api.list(notes, 'pages', { ...only('page'), page_size: 1 })).records).toHaveLength(1);
  });

  it('that ends exactly with the list says that nothing follows', async () => {
    const { records, metadata } = await api.list(notes, 'users', { page_size: 25 });
    expect([records.length, metadata]).toEqual([25, { next_cursor: null, has_more: false }]);
  });
});
