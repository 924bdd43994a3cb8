import { createHash } from 'node:crypto';
import { afterAll, describe, expect } from 'vitest';
import type { JsonObject, JsonValue } from '../../src/core/json.ts';
import { searchableEntities } from '../../src/service/store/store-ledger.ts';
import { it } from '../support/it.ts';
import { sampleTruth } from '../support/sample-truth.ts';
import { asTexts, expectedRecords, pairs } from '../support/service/expected-search.ts';
import {
  mailing,
  notes,
  object,
  objects,
  sampleAccounts,
  serveApi,
  text,
  type ServedApi,
} from '../support/service/served-api.ts';
import { searchable, definitionNamed, never, sampleOf, searchAll } from '../support/service/store-world.ts';

let api: ServedApi;
it.beforeAll(async ({ fileFolder }) => {
  api = await serveApi({ data: fileFolder, accounts: sampleAccounts('tiny') });
  await Promise.all([mailing, notes].map((id) => searchable(api.service.stores, id)));
});
afterAll(() => api.service.close());

describe('search', () => {
  const search = async (
    connector: string,
    entity: string,
    params: JsonObject,
    action = 'context_store_search',
  ) => {
    const { status, body } = await api.execute(connector, { entity, action, params });
    expect([status, body['status'], body['connector_metadata']]).toEqual([200, 'success', null]);
    const result = object(body['result']);
    return { records: objects(result['data']), meta: object(result['meta']) };
  };

  describe('a search', () => {
    // Proves specification 1.3, 2.2.4, 2.2.8, 4.6.1
    it.each(['context_store_search', 'search'])('as %s has data and meta in its result', async (action) => {
      const { records, meta } = await search(mailing, 'lists', { query: {}, limit: 1 }, action);
      expect(records).toHaveLength(1);
      expect(meta).toEqual({ has_more: true, cursor: expect.any(String), took_ms: expect.any(Number) });
      const all = await search(mailing, 'lists', { query: { filter: {} } }, action);
      expect(all.meta).toEqual({ has_more: false, cursor: null, took_ms: expect.any(Number) });
    });

    // Proves specification 4.6.7, 4.6.9
    it('goes from page to page by meta.cursor, in order, to the end and no record twice', async () => {
      const query = { sort: [{ create_time: 'desc' }] };
      const whole = await search(mailing, 'campaigns', { query });
      const paged: JsonObject[] = [];
      for (let cursor = null; ;) {
        const { records, meta } = await search(mailing, 'campaigns', { query, limit: 2, cursor });
        paged.push(...records);
        if (meta['has_more'] !== true) break;
        cursor = text(meta['cursor']);
      }
      expect(paged).toEqual(whole.records);
      const times = paged.map((record) => text(record['create_time']));
      expect(times).toEqual(times.toSorted().toReversed());
    });

    // Proves specification 4.6.10
    it('shows the paths of fields alone', async () => {
      const { records } = await search(mailing, 'campaigns', {
        query: {},
        fields: ['id', ['settings', 'title']],
      });
      for (const record of records) {
        expect(record).toEqual({ id: expect.any(String), settings: { title: expect.any(String) } });
      }
    });

    // Proves specification 4.6.2, 4.6.3, 4.6.7, 4.6.8
    it.each([
      [{}, 'params.query'],
      [{ query: 'x' }, 'params.query'],
      [{ query: { where: {} } }, 'params.query'],
      [{ query: { filter: { equals: { id: 'a' } } } }, 'params.query.filter'],
      [{ query: { filter: { eq: { nothing: 'a' } } } }, 'params.query.filter'],
      [{ query: { sort: ['id'] } }, 'params.query.sort'],
      [{ query: {}, limit: 0 }, 'params.limit'],
      [{ query: {}, limit: 1001 }, 'params.limit'],
      [{ query: {}, cursor: 'x' }, 'params.cursor'],
      [{ query: {}, fields: 'id' }, 'params.fields'],
    ])('of %j is refused with 400 and the place', async (params, place) => {
      const { status, body } = await api.execute(mailing, { entity: 'lists', action: 'search', params });
      expect([status, text(objects(body['errors'])[0]?.['field'])]).toEqual([
        400,
        expect.stringContaining(place) as string,
      ]);
    });
  });

  const entities = [
    [mailing, 'email-marketing'],
    [notes, 'workspace-notes'],
  ].flatMap(([connector = '', name = '']) =>
    searchableEntities(definitionNamed(name)).map((entity) => [connector, entity.name, entity] as const),
  );

  // Proves specification 1.5, 2.6.1, 2.8.1
  it.each(entities)(
    'of %s asks for %s by any of its fields and any operator that fits, which is more than a list offers',
    async (connector, name, { searchable, actions, table, explodedTable }) => {
      const columns = [...table.columns, ...(explodedTable?.columns ?? [])];
      const ofTexts = ['eq', 'neq', 'gt', 'gte', 'lt', 'lte', 'like', 'fuzzy', 'keyword', 'contains'];
      let questions = 0;
      for (const [type, value] of Object.entries({ string: 'a', integer: 1, boolean: true })) {
        const fields = [...searchable]
          .filter(([, { from }]) => columns.find((column) => column.name === from[0])?.type === type)
          .map(([field]) => field);
        if (fields.length === 0) continue;
        const conditions = (operator: string, asked: JsonValue): JsonObject[] =>
          fields.map((field) => ({ [operator]: { [field]: asked } }));
        const filters = (type === 'string' ? ofTexts : ofTexts.slice(0, 6)).flatMap((operator) => [
          { or: conditions(operator, value) },
          { not: { and: conditions(operator, value) } },
        ]);
        for (const filter of [...filters, { or: conditions('in', [value]) }]) {
          await search(connector, name, { query: { filter }, limit: 1 });
        }
        questions += (fields.length * filters.length) / 2;
      }
      expect(questions).toBeGreaterThan(actions.get('list')?.params.size ?? 0);
    },
  );

  it('takes both names of the likes of a report, and shows them under the name of the specification', async () => {
    const all = (await search(mailing, 'reports', { query: {}, fields: ['id'] })).records;
    expect(all.length).toBeGreaterThan(1);
    for (const name of ['social_likes', 'facebook_likes']) {
      const query = { filter: { eq: { [`${name}.unique_likes`]: 0 } }, sort: [{ [name]: 'asc' }] };
      const { records } = await search(mailing, 'reports', { query, fields: [`${name}.unique_likes`] });
      expect(records).toEqual(all.map(() => ({ social_likes: { unique_likes: 0 } })));
    }
  });

  describe('what is found', () => {
    // Proves specification 2.6.3-5, 2.8.3
    it('has the values that the specification names', async () => {
      const events = (await search(mailing, 'email_activity', { query: {} })).records;
      expect(new Set(events.map(({ action }) => action))).toEqual(new Set(['open', 'click', 'bounce']));
      for (const { action, type, url, email_id, email_address } of events) {
        expect(type).toEqual(action === 'bounce' ? expect.stringMatching(/^(hard|soft)$/) : null);
        expect(url).toEqual(action === 'click' ? expect.stringMatching(/^https?:/) : null);
        expect(email_id).toBe(md5(text(email_address).toLowerCase()));
      }
      for (const { list_rating } of (await search(mailing, 'lists', { query: {} })).records) {
        expect([0, 1, 2, 3, 4, 5]).toContain(list_rating);
      }
      const users = (await search(notes, 'users', { query: {} })).records;
      expect(new Set(users.map((user) => user['object']))).toEqual(new Set(['user']));
      expect(new Set(users.map(({ type }) => type))).toEqual(new Set(['person', 'bot']));
      const people = await search(notes, 'users', { query: { filter: { eq: { type: 'person' } } } });
      expect(people.records).toEqual(users.filter(({ type }) => type === 'person'));
      const sources = (await search(notes, 'data_sources', { query: {} })).records;
      expect(new Set(sources.map((source) => source['object']))).toEqual(new Set(['data_source']));
    });
  });

  function md5(value: string): string {
    return createHash('md5').update(value).digest('hex');
  }
});

describe('search results', () => {
  const accounts = { [mailing]: sampleOf('email-marketing'), [notes]: sampleOf('workspace-notes') };

  // Proves specification 1.6, 2.6.2
  it.each([
    [mailing, 'email-marketing', ['lists', 'campaigns', 'reports', 'email_activity']],
    [notes, 'workspace-notes', ['users', 'pages', 'data_sources', 'blocks']],
  ] as const)('finds in the store of %s (%s) exactly what the account has', async (id, name, entities) => {
    const searchable = searchableEntities(definitionNamed(name));
    const { stores } = api.service;
    expect(searchable.map((entity) => entity.name)).toEqual(expect.arrayContaining([...entities]));
    for (const entity of searchable) {
      // In several pages.
      const found = await searchAll(stores, id, entity.name, { limit: 70 });
      for (const record of found) expect(Object.keys(record)).toEqual([...entity.searchable.keys()]);
      const expected = expectedRecords(entity, accounts[id]);
      expect(asTexts(found), entity.name).toEqual(asTexts(expected));
      const status = stores.status(id).entities.find((one) => one.entity === entity.name);
      expect(status?.records).toBe(expected.length);
    }
  });

  // Proves specification 2.6.3
  it('has one row for each action, with what only the recipient knows', async () => {
    const truth = [...sampleTruth(accounts[mailing], 'email_activity')].find(
      ({ record }) => Array.isArray(record['activity']) && record['activity'].length > 1,
    );
    const { campaign_id, email_id, list_is_active, activity } = truth?.record ?? {};
    const found = await searchAll(api.service.stores, mailing, 'email_activity', {
      query: { filter: { eq: { campaign_id: campaign_id ?? null, email_id: email_id ?? null } } },
    });
    expect(found).toHaveLength(Array.isArray(activity) ? activity.length : -1);
    for (const row of found) expect(row).toMatchObject({ campaign_id, email_id, list_is_active });
  });

  // Proves specification 2.8.2
  it('shows the properties of a page as a list of names and values', async () => {
    const [page] = [...sampleTruth(accounts[notes], 'pages')].map(({ record }) => record);
    const query = { filter: { eq: { id: page?.['id'] ?? null } } };
    const body = { entity: 'pages', action: 'search', params: { query } };
    const answer = await api.execute(notes, { ...body, select_fields: ['properties'] });
    expect(answer.body['result']).toMatchObject({
      data: [{ properties: pairs(page?.['properties'] ?? null) }],
      meta: { has_more: false, cursor: null },
    });
  });

  it('says which part of a query cannot be asked', async () => {
    const asked = api.service.stores.search(
      notes,
      'users',
      { query: { filter: { eq: { nonsense: 1 } } } },
      never,
    );
    await expect(asked).rejects.toMatchObject({
      status: 400,
      body: {
        errors: [
          { error_code: 'search_invalid', field: expect.stringMatching(/^params\.query\.filter/) as string },
        ],
      },
    });
    const other = api.service.stores.search(notes, 'comments', { query: {} }, never);
    await expect(other).rejects.toMatchObject({
      status: 400,
      body: { errors: [{ error_code: 'unknown_entity' }] },
    });
  });
});
