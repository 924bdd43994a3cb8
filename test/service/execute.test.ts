import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { JsonObject, JsonValue } from '../../src/core/json.ts';
import {
  mailing,
  notes,
  object,
  objects,
  serveApi,
  type ServedApi,
  text,
} from '../support/service/served-api.ts';

let api: ServedApi;
let listId = '';
beforeAll(async () => {
  api = await serveApi();
  listId = text((await api.list(mailing, 'lists')).records[0]?.['id']);
});
afterAll(() => api.service.close());

const refusal = async (
  connectorId: string,
  body: JsonObject,
): Promise<readonly [number, JsonValue | undefined]> => {
  const answer = await api.execute(connectorId, body);
  expect(Object.keys(answer.body).sort()).toEqual(['errors', 'message']);
  return [answer.status, answer.body['message']];
};

describe('the envelope', () => {
  // Proves specification 1.3, 2.2.1, 2.2.2, 2.2.6, 2.2.7, 4.4.1
  it('of a list carries records, metadata and whose they are', async () => {
    const { status, body } = await api.execute(mailing, { entity: 'lists', action: 'list', params: {} });
    expect(status).toBe(200);
    expect(body).toEqual({
      status: 'success',
      result: [expect.objectContaining({ id: listId }), expect.any(Object)],
      connector_metadata: { links: expect.arrayContaining([expect.objectContaining({ rel: 'self' })]) },
      execution_metadata: {
        connector_instance_id: 'source_id:mail-1',
        execution_time_ms: expect.toSatisfy(Number.isInteger) as number,
      },
    });
  });

  // Proves specification 1.3, 2.2.2, 2.2.4
  it('of a get carries one object and no metadata', async () => {
    const { body } = await api.execute(mailing, {
      entity: 'lists',
      action: 'get',
      params: { list_id: listId },
    });
    expect(object(body['result'])['id']).toBe(listId);
    expect(body['connector_metadata']).toBeNull();
  });

  // Proves specification 2.7.2
  it('of workspace notes says whether more follows', async () => {
    const first = await api.list(notes, 'users', { page_size: 3 });
    expect(first.metadata).toEqual({ next_cursor: expect.any(String), has_more: true });
    const last = await api.list(notes, 'users', {
      page_size: 3,
      start_cursor: first.metadata['next_cursor'] ?? null,
    });
    expect(last.metadata).toEqual({ next_cursor: null, has_more: false });
  });

  // Proves specification 2.1.3
  it('comes for absent and for null params alike', async () => {
    expect((await api.execute(notes, { entity: 'users', action: 'list' })).status).toBe(200);
    expect((await api.execute(notes, { entity: 'users', action: 'list', params: null })).status).toBe(200);
  });
});

describe('a field that the third party calls otherwise', () => {
  // Proves specification 2.5.6
  it('comes in lists and by get, beside what it is filled from', async () => {
    const likes = { recipient_likes: 0, unique_likes: 0, facebook_likes: 0 };
    const { records } = await api.list(mailing, 'reports');
    const campaign_id = text(records[0]?.['id']);
    const got = await api.execute(mailing, { entity: 'reports', action: 'get', params: { campaign_id } });
    expect(records.length).toBeGreaterThan(1);
    for (const record of [...records, object(got.body['result'])]) {
      expect(record).toMatchObject({ social_likes: likes, facebook_likes: likes });
    }
    const selected = { entity: 'reports', action: 'list', select_fields: ['social_likes.unique_likes'] };
    expect(objects((await api.execute(mailing, selected)).body['result'])[0]).toEqual({
      social_likes: { unique_likes: 0 },
    });
  });
});

describe('parameters', () => {
  // Proves specification 4.4.2, 4.4.3, 4.7.5, 4.8.1, 7.2, 8.2, 8.3
  it.each([
    [
      'an unknown entity',
      mailing,
      'nope',
      'list',
      {},
      "Entity 'nope' not found in connector. Available entities: ['lists', ",
    ],
    [
      'an unsupported action',
      mailing,
      'tags',
      'get',
      {},
      "Action 'get' not supported for entity 'tags'. Supported actions: ['list']",
    ],
    [
      'an action that only the service itself has',
      notes,
      'comments',
      'get',
      { comment_id: 'c' },
      "Action 'get' not supported for entity 'comments'. Supported actions: ['list']",
    ],
    ['a name every object has', mailing, 'constructor', 'list', {}, "Entity 'constructor' not found"],
    [
      'a bad enum',
      mailing,
      'campaigns',
      'list',
      { sort_field: 'nope' },
      "Invalid value 'nope' for parameter 'sort_field'; expected one of: ['create_time', 'send_time']",
    ],
    [
      'a missing parent',
      mailing,
      'list_members',
      'list',
      { x: 1 },
      "Missing required path parameter 'list_id' for path 'list_members/list'. Provided parameters: ['x']",
    ],
    [
      'an empty parent',
      mailing,
      'list_members',
      'list',
      { list_id: '' },
      "Path parameter 'list_id' cannot be None or empty string",
    ],
    [
      'a parent of null',
      mailing,
      'list_members',
      'list',
      { list_id: null },
      "Path parameter 'list_id' cannot be None or empty string",
    ],
    [
      'a wrong type',
      mailing,
      'lists',
      'list',
      { count: 'ten' },
      "Invalid value 'ten' for parameter 'count'; expected type: integer",
    ],
    [
      'half a record',
      mailing,
      'lists',
      'list',
      { offset: 1.5 },
      "parameter 'offset'; expected type: integer",
    ],
    ['a count below one', mailing, 'lists', 'list', { count: 0 }, "parameter 'count'; expected at least 1"],
    [
      'an offset below zero',
      mailing,
      'lists',
      'list',
      { offset: -1 },
      "parameter 'offset'; expected at least 0",
    ],
    [
      'a time that is none',
      mailing,
      'lists',
      'list',
      { since_date_created: 'yesterday' },
      "parameter 'since_date_created'; expected an ISO 8601 time",
    ],
    [
      'a text for a boolean',
      mailing,
      'list_members',
      'list',
      { list_id: 'x', vip_only: 'true' },
      "parameter 'vip_only'; expected type: boolean",
    ],
    [
      'a cursor where none is declared',
      mailing,
      'lists',
      'list',
      { cursor: 'abc' },
      "Parameter 'cursor' is not supported for entity 'lists'",
    ],
    [
      'a cursor of workspace notes',
      notes,
      'users',
      'list',
      { cursor: 'abc' },
      "Parameter 'cursor' is not supported for entity 'users'",
    ],
    [
      'a page_size above the limit',
      notes,
      'users',
      'list',
      { page_size: 101 },
      "parameter 'page_size'; expected at most 100",
    ],
    [
      'a page_size above the limit, of blocks',
      notes,
      'blocks',
      'list',
      { block_id: 'x', page_size: 101 },
      "parameter 'page_size'; expected at most 100",
    ],
    [
      'a page_size above the limit, of comments',
      notes,
      'comments',
      'list',
      { block_id: 'x', page_size: 101 },
      "parameter 'page_size'; expected at most 100",
    ],
    [
      'an unknown page token',
      notes,
      'users',
      'list',
      { start_cursor: 'abc' },
      'start_cursor provided is invalid',
    ],
    [
      'a filter on something else',
      notes,
      'pages',
      'list',
      { filter: { property: 'title', value: 'page' } },
      "Invalid value 'title' for parameter 'filter.property'",
    ],
    ['comments of nothing', notes, 'comments', 'list', {}, "Missing required path parameter 'block_id'"],
    [
      'a search while the store is not ready',
      mailing,
      'lists',
      'context_store_search',
      { query: {} },
      'The context store of this connector is not ready',
    ],
    [
      'the old name of search',
      mailing,
      'lists',
      'search',
      { query: {} },
      'The context store of this connector is not ready',
    ],
    [
      'a search of an entity without one',
      mailing,
      'tags',
      'context_store_search',
      {},
      "Action 'context_store_search' not supported",
    ],
  ] as const)('refuse %s with 400', async (_name, connector, entity, action, params, message) => {
    const [status, text] = await refusal(connector, { entity, action, params });
    expect(status).toBe(400);
    expect(text).toContain(message);
  });

  // Proves specification 4.4.3
  it('that are not declared are ignored, except cursor', async () => {
    const page = await api.list(mailing, 'campaigns', { limit: 1, bogus: { a: [] }, toString: 'x' });
    expect(page.records).toHaveLength(5);
  });

  // Proves specification 4.7.3
  it('may name an id by its digits or its number', async () => {
    const [segment] = (await api.list(mailing, 'segments', { list_id: listId })).records;
    const id = segment?.['id'] ?? null;
    const asNumber = await api.list(mailing, 'segment_members', { list_id: listId, segment_id: id });
    const asText = await api.list(mailing, 'segment_members', {
      list_id: listId,
      segment_id: text(id),
    });
    expect(asNumber.records).toEqual(asText.records);
  });

  // Proves specification 2.1.1, 2.1.2, 2.1.4
  it.each([
    ['no entity', { action: 'list' }],
    ['an entity that is no text', { entity: 7, action: 'list' }],
    ['no action', { entity: 'lists' }],
    ['an action that is no text', { entity: 'lists', action: 7 }],
    ['params that are a list', { entity: 'lists', action: 'list', params: [] }],
    ['select_fields that are a text', { entity: 'lists', action: 'list', select_fields: 'id' }],
    ['a long intent', { entity: 'lists', action: 'list', intent: 'x'.repeat(513) }],
  ])('answer a body with %s with 422', async (_name, body) => {
    expect((await refusal(mailing, body))[0]).toBe(422);
  });
});

describe('things that do not exist', () => {
  // Proves specification 4.4.2, 7.4
  it.each([
    ['a connector', 'nobody', 'lists', 'list', {}],
    ['a list', mailing, 'list_members', 'list', { list_id: 'nope' }],
    ['the tags of a list', mailing, 'tags', 'list', { list_id: 'nope' }],
    ['a record', mailing, 'lists', 'get', { list_id: 'nope' }],
    ['a campaign', mailing, 'email_activity', 'list', { campaign_id: 'nope' }],
    ['a report', mailing, 'reports', 'get', { campaign_id: 'nope' }],
    ['a page', notes, 'pages', 'get', { page_id: '00000000-0000-4000-a000-000000000000' }],
    ['the blocks of a page', notes, 'blocks', 'list', { block_id: 'nope' }],
    ['the comments of a page', notes, 'comments', 'list', { block_id: 'nope' }],
  ])('%s: 404', async (_name, connector, entity, action, params) => {
    expect((await refusal(connector, { entity, action, params }))[0]).toBe(404);
  });

  // Proves specification 4.7.12
  it('have drafts among them: no report and no activity, 404', async () => {
    const { records } = await api.list(mailing, 'campaigns', { status: 'save' });
    expect(records.length).toBeGreaterThan(0);
    const campaign_id = records[0]?.['id'] ?? null;
    for (const [entity, action] of [
      ['reports', 'get'],
      ['email_activity', 'list'],
      ['unsubscribes', 'list'],
    ] as const) {
      expect((await refusal(mailing, { entity, action, params: { campaign_id } }))[0]).toBe(404);
    }
  });
});

describe('shaping a result', () => {
  const marker = '... [truncated — use `get` action with the record id to retrieve the full value]';
  const longTexts = (value: JsonValue): readonly string[] => {
    if (typeof value === 'string') return Array.from(value).length > 200 ? [value] : [];
    return typeof value === 'object' && value !== null ? Object.values(value).flatMap(longTexts) : [];
  };
  const pageBlocks = async (extra: JsonObject): Promise<readonly JsonObject[]> => {
    const pages = await api.list(notes, 'pages', { filter: { property: 'object', value: 'page' } });
    const found: JsonObject[] = [];
    for (const page of pages.records) {
      const { body } = await api.execute(notes, {
        entity: 'blocks',
        action: 'list',
        params: { block_id: page['id'] ?? null },
        ...extra,
      });
      found.push(...objects(body['result']));
    }
    return found;
  };

  // Proves specification 2.1.4
  it('leaves long texts whole unless skip_truncation is false, then cuts them at any depth', async () => {
    const whole = await pageBlocks({});
    expect(await pageBlocks({ skip_truncation: true })).toEqual(whole);
    const full = longTexts([...whole]);
    expect(full.length).toBeGreaterThan(0);
    expect(full.some((text) => text.includes(marker))).toBe(false);
    const cut = longTexts([...(await pageBlocks({ skip_truncation: false }))]);
    expect(cut).toEqual(full.map((text) => Array.from(text).slice(0, 200).join('') + marker));
  });

  // Proves specification 2.1.4
  it('never cuts what get returns', async () => {
    const block = (await pageBlocks({})).find((record) => longTexts(record).length > 0);
    const { body } = await api.execute(notes, {
      entity: 'blocks',
      action: 'get',
      params: { block_id: block?.['id'] ?? null },
      skip_truncation: false,
    });
    expect(longTexts(body['result'] ?? null)).toEqual(longTexts(block ?? null));
  });

  // Proves specification 2.1.4
  it('selects and excludes by dotted paths, and select wins', async () => {
    const result = async (extra: JsonObject): Promise<JsonObject> => {
      const { body } = await api.execute(mailing, {
        entity: 'lists',
        action: 'list',
        params: { count: 1 },
        ...extra,
      });
      return objects(body['result'])[0] ?? {};
    };
    expect(await result({ select_fields: ['id', 'stats.member_count'], exclude_fields: ['id'] })).toEqual({
      id: listId,
      stats: { member_count: expect.any(Number) },
    });
    const rest = await result({ exclude_fields: ['_links', 'contact.city'], intent: 'test' });
    expect(rest).not.toHaveProperty('_links');
    expect(object(rest['contact'])).not.toHaveProperty('city');
    expect(object(rest['contact'])).toHaveProperty('zip');
  });
});
