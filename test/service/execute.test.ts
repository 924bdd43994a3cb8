import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { JsonObject, JsonValue } from '../../src/core/json.ts';
import { servedDefinition, type Entity } from '../../src/definitions/definition.ts';
import type { SampleAccount } from '../../src/sample/sample-account.ts';
import { createSampleAccount } from '../../src/sample/sample-service.ts';
import { sampleTruth, type TruthRecord } from '../support/sample-truth.ts';
import {
  mailing,
  notes,
  object,
  objects,
  serveApi,
  serveHere,
  type ServedApi,
  text,
  definitions,
  sampleAccounts,
} from '../support/service/served-api.ts';

describe('execute', () => {
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
    });
  });

  describe('parameters', () => {
    const ofLists: Record<string, readonly [JsonObject, string]> = {
      'a wrong type': [{ count: 'ten' }, "Invalid value 'ten' for parameter 'count'; expected type: integer"],
      'a count below one': [{ count: 0 }, "parameter 'count'; expected at least 1"],
      'an offset below zero': [{ offset: -1 }, "parameter 'offset'; expected at least 0"],
      'a time that is none': [
        { since_date_created: 'yesterday' },
        "parameter 'since_date_created'; expected an ISO 8601 time",
      ],
      'a cursor where none is declared': [
        { cursor: 'abc' },
        "Parameter 'cursor' is not supported for entity 'lists'",
      ],
    };
    // Proves specification 4.4.3, 7.2, 8.2
    it.each(Object.entries(ofLists))('refuse %s with 400', async (_name, [params, message]) => {
      const refused = await refusal(mailing, { entity: 'lists', action: 'list', params });
      expect(refused).toEqual([400, expect.stringContaining(message)]);
    });

    const notReady = 'The context store of this connector is not ready';
    // Proves specification 4.4.2, 4.7.5, 4.8.1, 7.2, 8.3
    it.each<[string, string, string, JsonObject, string]>([
      [mailing, 'nope', 'list', {}, "Entity 'nope' not found in connector. Available entities: ['lists', "],
      [mailing, 'constructor', 'list', {}, "Entity 'constructor' not found"],
      [
        mailing,
        'tags',
        'get',
        {},
        "Action 'get' not supported for entity 'tags'. Supported actions: ['list']",
      ],
      [mailing, 'tags', 'context_store_search', {}, "Action 'context_store_search' not supported"],
      [mailing, 'lists', 'context_store_search', { query: {} }, notReady],
      [mailing, 'lists', 'search', { query: {} }, notReady],
      [mailing, 'campaigns', 'list', { sort_field: 'nope' }, "expected one of: ['create_time', 'send_time']"],
      [mailing, 'list_members', 'list', { x: 1 }, "parameter 'list_id' for path 'list_members/list'"],
      [mailing, 'list_members', 'list', { x: 1 }, "Provided parameters: ['x']"],
      [mailing, 'list_members', 'list', { list_id: '' }, "'list_id' cannot be None or empty string"],
      [notes, 'users', 'list', { page_size: 101 }, "parameter 'page_size'; expected at most 100"],
      [notes, 'users', 'list', { start_cursor: 'abc' }, 'start_cursor provided is invalid'],
      [
        notes,
        'pages',
        'list',
        { filter: { property: 'title', value: 'page' } },
        "parameter 'filter.property'",
      ],
      [notes, 'comments', 'list', {}, "Missing required path parameter 'block_id'"],
    ])('of %s %s %s that do not fit are refused: %j', async (connector, entity, action, params, message) => {
      const refused = await refusal(connector, { entity, action, params });
      expect(refused).toEqual([400, expect.stringContaining(message)]);
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
      [
        'too many exclude_fields',
        { entity: 'lists', action: 'list', exclude_fields: Array.from({ length: 1_001 }, () => 'id') },
      ],
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

  // Proves specification 2.1.4
  it('selects and excludes by dotted paths, and select wins', async () => {
    const body = { entity: 'lists', action: 'list', params: { count: 1 } };
    const result = async (extra: JsonObject): Promise<JsonObject> =>
      objects((await api.execute(mailing, { ...body, ...extra })).body['result'])[0] ?? {};
    expect(await result({ select_fields: ['id', 'stats.member_count'], exclude_fields: ['id'] })).toEqual({
      id: listId,
      stats: { member_count: expect.any(Number) },
    });
    const whole = await result({});
    const { _links, contact, ...others } = whole;
    expect(_links).toBeDefined();
    const { city, ...ofContact } = object(contact);
    expect(city).toBeDefined();
    // A path into a text names nothing; a part of what another path names whole changes nothing.
    const exclude_fields = ['_links', '_links.x', 'contact.city', 'id.x'];
    expect(await result({ select_fields: [], exclude_fields })).toEqual({ ...others, contact: ofContact });
    expect(await result({ exclude_fields: null, skip_truncation: false, intent: 'test' })).toEqual(whole);
  });

  // Proves specification 2.1.4
  it('selects of one record as of a list', async () => {
    const select_fields = ['id', 'stats.member_count'];
    const got = await api.execute(mailing, {
      entity: 'lists',
      action: 'get',
      params: { list_id: listId },
      select_fields,
    });
    expect(Object.keys(object(got.body['result']))).toEqual(['id', 'stats']);
  });

  it('answers a thousand wrong values with a few entries', async () => {
    const select_fields = Array.from({ length: 1_000 }, () => 1);
    const { status, body } = await api.execute(mailing, { entity: 'lists', action: 'list', select_fields });
    expect([status, objects(body['errors']).length]).toEqual([422, 20]);
  });
});

it('writes an integer that a double cannot hold with all its digits', async () => {
  const api = await serveHere({
    accounts: sampleAccounts('tiny').map((account) => ({
      ...account,
      wrap: (inner) => ({
        ...inner,
        list: inner.list.bind(inner),
        get: (entity, params) => ({ ...inner.get(entity, params), web_id: 9_007_199_254_740_993n }),
      }),
    })),
  });
  const asked = { entity: 'lists', action: 'get', params: { list_id: 'any' } };
  const response = await api.send(mailing, asked);
  expect(response.status).toBe(200);
  expect(await response.text()).toContain('"web_id":9007199254740993');
});

describe('specified answers', () => {
  let api: ServedApi;
  beforeAll(async () => {
    api = await serveApi({
      accounts: types.map((definitionName) => ({
        connectorId: definitionName,
        workspace: 'default',
        definitionName,
        seed: 7,
        size: 'small' as const,
      })),
    });
  });
  afterAll(() => api.service.close());

  const types = ['email-marketing', 'workspace-notes', 'document-library'] as const;
  type ConnectorType = (typeof types)[number];

  const accounts = new Map<string, SampleAccount>();

  /** The first records that a complete walk of the entity finds, with the parameters that they are listed under. */
  function someOf(type: string, entity: string, count: number): readonly TruthRecord[] {
    const account =
      accounts.get(type) ?? createSampleAccount({ definitionName: type, seed: 7, size: 'small' });
    accounts.set(type, account);
    const found: TruthRecord[] = [];
    for (const one of sampleTruth(account, entity)) {
      if (found.push(one) === count) break;
    }
    return found;
  }

  /** A block's place is no parameter. */
  function listParams({ params }: TruthRecord): JsonObject {
    const { page_id: _page, depth: _depth, position: _position, ...rest } = params;
    return rest;
  }

  const entities = types.flatMap((type) =>
    [...(definitions.get(type)?.entities.values() ?? [])].map(
      (entity) => [type, entity.name, entity] as const,
    ),
  );

  const link: JsonObject = {
    rel: expect.any(String) as string,
    href: expect.stringMatching(/^https:/) as string,
    method: expect.any(String) as string,
  };

  /** The keys of the connector and no other ones, however long the list is. */
  function expectPaging(type: ConnectorType, metadata: JsonObject): void {
    switch (type) {
      case 'email-marketing': {
        expect(Object.keys(metadata)).toEqual(['links']);
        const links = objects(metadata['links']);
        expect(links.length).toBeGreaterThan(0);
        for (const one of links) expect(one).toMatchObject(link);
        return;
      }
      case 'workspace-notes':
        expect(metadata).toEqual(
          metadata['has_more'] === true
            ? { has_more: true, next_cursor: expect.any(String) as string }
            : { has_more: false, next_cursor: null },
        );
        return;
      case 'document-library':
        expect(metadata).toEqual(
          metadata['has_next_page'] === true
            ? { has_next_page: true, end_cursor: expect.any(String) as string }
            : { has_next_page: false, end_cursor: null },
        );
    }
  }

  /** Pages of one record, most of which others follow, and as large as may be. */
  function pageSizes({ pagination }: Entity): readonly JsonObject[] {
    if (pagination.kind === 'single' || pagination.sizeParam === null) return [{}];
    return [{ [pagination.sizeParam]: 1 }, { [pagination.sizeParam]: pagination.maxSize ?? 1_000 }];
  }

  describe('every list', () => {
    // Proves specification 2.2.3, 2.2.5, 2.5.3, 2.7.2
    it.each(entities)(
      'of %s %s carries the paging keys of its connector and no others',
      async (type, name, entity) => {
        const [first] = someOf(type, name, 1);
        expect(first).toBeDefined();
        const params = first === undefined ? {} : listParams(first);
        for (const page of pageSizes(entity)) {
          const { records, metadata } = await api.list(type, name, { ...params, ...page });
          expect(records.length).toBeGreaterThan(0);
          expectPaging(type, metadata);
        }
      },
    );
  });

  describe('get', () => {
    const gettable = entities.filter(([, , { actions }]) => actions.get('get')?.isDirectOnly === false);

    // Proves specification 4.7.1, 4.8.2
    it.each(gettable)('of %s %s brings the record that the list shows', async (type, name, entity) => {
      const records = someOf(type, name, 3);
      expect(records.length).toBeGreaterThan(0);
      for (const { record, params } of records) {
        const asked = getParams(entity, { ...params, ...record });
        const { status, body } = await api.execute(type, { entity: name, action: 'get', params: asked });
        expect([asked, status]).toEqual([asked, 200]);
        expect(object(body['result'])).toMatchObject(record);
      }
    });
  });

  function getParams(entity: Entity, record: JsonObject): JsonObject {
    const key = entity.actions.get('get')?.key ?? new Map<string, string>();
    return Object.fromEntries([...key].map(([param, field]) => [param, record[field] ?? null]));
  }

  describe('a rich text of workspace notes', () => {
    const isA = (kind: string, value: JsonValue | undefined): boolean =>
      typeof value === kind && !Array.isArray(value);

    // Proves specification 2.7.3
    it.each([
      ['data_sources', 'title'],
      ['data_sources', 'description'],
      ['comments', 'rich_text'],
    ])('is an array of what the specification names: %s %s', (entity, field) => {
      const items = someOf('workspace-notes', entity, 200).flatMap(({ record }) => objects(record[field]));
      expect(items.length).toBeGreaterThan(0);
      for (const { type, text, annotations, plain_text, href } of items) {
        // A piece that is no text (a mention, a formula) has its own member in place of `text`.
        expect([type, isA('object', text ?? {}), type !== 'text' || text !== undefined]).toEqual([
          expect.any(String),
          true,
          true,
        ]);
        expect([isA('object', annotations), isA('string', plain_text)]).toEqual([true, true]);
        expect(href === null || isA('string', href)).toBe(true);
      }
    });
  });
});

/**
 * Of every action of the definitions, which `test/definitions/built-in-definitions.test.ts` holds against the
 * specification.
 */
describe('specified params', () => {
  let api: ServedApi;
  beforeAll(async () => {
    api = await serveApi();
  });
  afterAll(() => api.service.close());

  const account = createSampleAccount({ definitionName: 'email-marketing', seed: 7, size: 'tiny' });
  const notesAccount = createSampleAccount({ definitionName: 'workspace-notes', seed: 7, size: 'tiny' });
  const paramsOf = (entity: string): JsonObject => [...sampleTruth(account, entity)][0]?.params ?? {};
  const idOf = (of: SampleAccount, entity: string): JsonValue =>
    [...sampleTruth(of, entity)][0]?.record['id'] ?? null;
  /** Values that name something that is there, for every required parameter. */
  const known: JsonObject = {
    ...paramsOf('interests'),
    ...paramsOf('segment_members'),
    ...paramsOf('unsubscribes'),
    interest_id: idOf(account, 'interests'),
    subscriber_hash: idOf(account, 'list_members'),
    user_id: idOf(notesAccount, 'users'),
    page_id: idOf(notesAccount, 'pages'),
    block_id: idOf(notesAccount, 'pages'),
    data_source_id: idOf(notesAccount, 'data_sources'),
    query: {},
  };

  const entities = [
    [mailing, 'email-marketing'],
    [notes, 'workspace-notes'],
  ].flatMap(([connector = '', name = '']) => {
    const definition = definitions.get(name);
    if (definition === undefined) throw new Error(`no definition ${name}`);
    return [...servedDefinition(definition).entities.values()].map(
      (entity) => [connector, entity.name, entity] as const,
    );
  });
  const operations = entities.flatMap(([connector, entity, { actions }]) =>
    [...actions].map(([action, { params }]) => [entity, action, { connector, params }] as const),
  );

  // Proves specification 2.1.2, 2.1.3, 3.4-6, 4.4.2, 4.6.2, 4.7.1, 4.7.2, 4.7.4, 4.8.1, 4.8.2
  it.each(operations)(
    '%s %s is answered with what it requires, and refuses every parameter that is missing or does not fit',
    async (entity, action, { connector, params }) => {
      const required = [...params].filter(([, param]) => param.required).map(([name]) => name);
      const whole = Object.fromEntries(required.map((name) => [name, known[name] ?? null]));
      const ask = async (given: JsonObject) => {
        const asked = { entity, action, params: { ...whole, ...given } };
        const { status, body } = await api.execute(connector, asked);
        const [error] = objects(body['errors'] ?? []);
        return { given, status, field: error?.['field'], code: error?.['error_code'] };
      };
      // No store is filled here: a valid search reports that.
      const [status, code] =
        action === 'context_store_search' ? [400, 'context_store_not_ready'] : [200, undefined];
      const taken = async (given: JsonObject): Promise<void> =>
        expect(await ask(given)).toMatchObject({ given, status, ...(code !== undefined && { code }) });
      const refused = async (name: string, value: JsonValue): Promise<void> =>
        expect(await ask({ [name]: value })).toMatchObject({ status: 400, field: `params.${name}` });

      await taken({});
      for (const [name, param] of params) {
        const { type } = param;
        if (param.required) {
          await refused(name, null);
          const { [name]: _left, ...others } = whole;
          const { body } = await api.execute(connector, { entity, action, params: others });
          expect(objects(body['errors'])[0]?.['field']).toBe(`params.${name}`);
        }
        for (const value of param.enum ?? []) await taken({ [name]: value });
        const [first = ''] = param.enum ?? [];
        const swapped = first === first.toUpperCase() ? first.toLowerCase() : first.toUpperCase();
        const outside = ['nope', '', swapped, `${first} `, `${first},${first}`];
        const typed: JsonObject = { integer: 7, boolean: true, object: {}, array: [], string: 'text' };
        const otherTypes = Object.entries(typed).flatMap(([one, value]) => (one === type ? [] : [value]));
        const wrong = [...(param.enum === null ? [] : outside), ...(type === 'string' ? [] : otherTypes)];
        for (const value of wrong) await refused(name, value);
      }
    },
  );

  /** What the hosted service offers of other connectors. */
  const foreign = ['create', 'update', 'delete', 'api_search', 'authorize', 'context_store_sql_query'];

  // Proves specification 4.4.10, 4.7.16
  it.each(entities)('%s %s has no other actions, so no writes', async (connector, name, { actions }) => {
    const offered = new Set<string>(actions.keys());
    for (const action of [...foreign, 'get', 'download'].filter((one) => !offered.has(one))) {
      const { status, body } = await api.execute(connector, { entity: name, action, params: known });
      const code = objects(body['errors'])[0]?.['error_code'];
      expect([action, status, code]).toEqual([action, 400, 'unsupported_action']);
    }
  });
});
