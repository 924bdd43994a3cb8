import { createHash } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { JsonObject, JsonValue } from '../../src/core/json.ts';
import type { EntityName } from '../../src/core/names.ts';
import type { Entity } from '../../src/definitions/definition.ts';
import { createSampleAccount, listPage } from '../../src/sample/sample-service.ts';
import { sampleTruth } from '../support/sample-truth.ts';
import {
  mailing,
  object,
  objects,
  sampleAccounts,
  serveApi,
  type ServedApi,
  text,
  notes,
  definitions,
} from '../support/service/served-api.ts';
import { isLong } from '../support/trials.ts';

describe('mailing filters', () => {
  let api: ServedApi;
  let list_id = '';
  let members: readonly JsonObject[] = [];
  beforeAll(async () => {
    api = await serveApi({ accounts: sampleAccounts('small') });
    list_id = text((await api.list(mailing, 'lists')).records[2]?.['id']);
    members = await all('list_members', { list_id });
  });
  afterAll(() => api.service.close());

  const all = async (entity: string, params: JsonObject = {}): Promise<readonly JsonObject[]> =>
    (await api.list(mailing, entity, { count: 1000, ...params })).records;
  const at = (record: JsonObject, path: string): JsonValue | undefined =>
    path.split('.').reduce<JsonValue | undefined>((value, name) => object(value)[name], record);

  /** Filtering on the server and filtering the whole list here are the same, and neither keeps all or nothing. */
  async function expectFilter(
    entity: string,
    params: JsonObject,
    keep: (record: JsonObject) => boolean,
  ): Promise<void> {
    const parent = entity === 'list_members' ? { list_id } : {};
    const whole = entity === 'list_members' ? members : await all(entity);
    const expected = whole.filter(keep);
    expect(expected.length).toBeGreaterThan(0);
    expect(expected.length).toBeLessThan(whole.length);
    expect(await all(entity, { ...parent, ...params })).toEqual(expected);
  }

  describe('times', () => {
    // Proves specification 4.7.6
    it.each([
      ['lists', 'date_created', 'date_created'],
      ['lists', 'campaign_last_sent', 'stats.campaign_last_sent'],
      ['campaigns', 'create_time', 'create_time'],
      ['campaigns', 'send_time', 'send_time'],
      ['reports', 'send_time', 'send_time'],
      ['automations', 'create_time', 'create_time'],
      ['automations', 'start_time', 'start_time'],
    ])(
      '%s: since_%s and before_%s include the bound and leave out records without a time',
      async (entity, name, path) => {
        const timeOf = (record: JsonObject): string => text(at(record, path));
        const times = (await all(entity)).map(timeOf).filter((time) => time !== '');
        const bound = times.toSorted()[Math.floor(times.length / 2)] ?? '';
        await expectFilter(entity, { [`since_${name}`]: bound }, (one) => timeOf(one) >= bound);
        const isBefore = (time: string): boolean => time !== '' && time <= bound;
        await expectFilter(entity, { [`before_${name}`]: bound }, (one) => isBefore(timeOf(one)));
      },
    );

    // Proves specification 4.7.5
    it('are taken in any ISO 8601 form of the same instant', async () => {
      const bound = text(members[300]?.['last_changed']);
      const ms = Date.parse(bound);
      const forms = [
        new Date(ms).toISOString(),
        `${new Date(ms + 7_200_000).toISOString().slice(0, 19)}+02:00`,
      ];
      const since = async (since_last_changed: string) =>
        await all('list_members', { list_id, since_last_changed });
      for (const form of forms) expect(await since(form)).toEqual(await since(bound));
    });
  });

  describe('values', () => {
    // Proves specification 4.7.7
    it.each<[entity: string, param: string, path: string, ...values: readonly string[]]>([
      ['campaigns', 'status', 'status', 'save', 'paused', 'schedule', 'sending', 'sent'],
      ['campaigns', 'type', 'type', 'regular', 'plaintext', 'absplit', 'rss', 'variate'],
      ['campaigns', 'list_id', 'recipients.list_id', 'of the list'],
      ['campaigns', 'folder_id', 'settings.folder_id', 'folder2'],
      [
        'list_members',
        'status',
        'status',
        ...'subscribed unsubscribed cleaned pending transactional archived'.split(' '),
      ],
      ['list_members', 'email_type', 'email_type', 'text'],
    ])('filter %s by %s', async (entity, param, path, ...values) => {
      for (const value of values.map((one) => (one === 'of the list' ? list_id : one))) {
        await expectFilter(entity, { [param]: value }, (record) => at(record, path) === value);
      }
    });

    // Proves specification 4.7.7, 4.7.8
    it('filter members by vip and unique id, and by several values together', async () => {
      await expectFilter('list_members', { vip_only: true }, (one) => one['vip'] === true);
      expect(await all('list_members', { list_id, vip_only: false })).toEqual(members);
      const unique_email_id = members[17]?.['unique_email_id'] ?? null;
      expect(await all('list_members', { list_id, unique_email_id })).toEqual([members[17]]);
      const bound = text(members[200]?.['last_changed']);
      const params = { status: 'subscribed', since_last_changed: bound, email_type: 'html' };
      await expectFilter(
        'list_members',
        params,
        (one) =>
          one['status'] === 'subscribed' &&
          one['email_type'] === 'html' &&
          text(one['last_changed']) >= bound,
      );
    });

    // Proves specification 4.7.9
    it('filter members by interests, any, all or none of them', async () => {
      const category = (await all('interest_categories', { list_id }))[0];
      const interest_category_id = category?.['id'] ?? null;
      const interests = await all('interests', { list_id, interest_category_id });
      const ids = interests.slice(0, 2).map(({ id }) => text(id));
      const params = { interest_category_id, interest_ids: ids.join(',') };
      const countOf = (one: JsonObject): number =>
        ids.filter((id) => object(one['interests'])[id] === true).length;
      for (const [interest_match, isMatch] of [
        ['any', (count: number) => count > 0],
        ['all', (count: number) => count === 2],
        ['none', (count: number) => count === 0],
      ] as const) {
        await expectFilter('list_members', { ...params, interest_match }, (one) => isMatch(countOf(one)));
      }
    });

    // Proves specification 4.7.10
    it('find lists by the address of a member, in any case', async () => {
      const email = text(members[12]?.['email_address']);
      const found = await all('lists', { email: email.toUpperCase() });
      expect(found.map(({ id }) => id)).toContain(list_id);
      expect(found.length).toBeLessThan(6);
      expect(await all('lists', { email: 'nobody@example.test' })).toEqual([]);
    });

    // Proves specification 4.7.10
    it('find tags by the beginning of their name', async () => {
      const found = await all('tags', { list_id, name: 'INFL' });
      expect(found.map(({ name }) => name)).toEqual(['Influencer']);
    });

    // Proves specification 4.7.11
    it('of since shorten the activity of every recipient and keep the row', async () => {
      const [report] = await all('reports', { since_send_time: '2023-01-01' });
      const campaign_id = report?.['id'] ?? null;
      const whole = await all('email_activity', { campaign_id });
      const times = whole.flatMap((row) => objects(row['activity']).map(({ timestamp }) => text(timestamp)));
      const since = times.toSorted()[Math.floor(times.length / 2)] ?? '';
      const shortened = whole.map((row) => ({
        ...row,
        activity: objects(row['activity']).filter(({ timestamp }) => text(timestamp) >= since),
      }));
      expect(shortened).not.toEqual(whole);
      expect(await all('email_activity', { campaign_id, since })).toEqual(shortened);
    });
  });

  describe('order', () => {
    const order = async (
      entity: string,
      field: string,
      dir: string,
      parent: JsonObject = {},
    ): Promise<readonly string[]> =>
      (await all(entity, { ...parent, sort_field: field, sort_dir: dir })).map((record) =>
        text(record[field]),
      );

    // Proves specification 4.7.13
    it.each([
      ['lists', 'date_created'],
      ['campaigns', 'create_time'],
      ['campaigns', 'send_time'],
    ])('sorts %s by %s', async (entity, field) => {
      const times = (await all(entity)).map((record) => text(record[field])).sort();
      expect(await order(entity, field, 'ASC')).toEqual(times);
      expect(await order(entity, field, 'DESC')).toEqual(times.toReversed());
    });
  });

  describe('get', () => {
    // Proves specification 4.7.14
    it('finds a member by the MD5 hash of the lower-case address', async () => {
      const shouting = members.find(
        ({ email_address }) => text(email_address) !== text(email_address).toLowerCase(),
      );
      const email = text(shouting?.['email_address']).toLowerCase();
      const subscriber_hash = createHash('md5').update(email).digest('hex');
      const answer = await api.execute(mailing, {
        entity: 'list_members',
        action: 'get',
        params: { list_id, subscriber_hash },
      });
      expect(answer.body['result']).toEqual(shouting);
    });
  });
});

describe('notes search', () => {
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
      const oldest = edits(
        await walk('pages', { ...only('page'), sort: { ...sort, direction: 'ascending' } }),
      );
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
});

describe('paging', () => {
  let api: ServedApi;
  beforeAll(async () => {
    api = await serveApi({ accounts: sampleAccounts('small') });
  });
  afterAll(() => api.service.close());

  const account = (definitionName: string) => createSampleAccount({ definitionName, seed: 7, size: 'small' });

  /** Every page of one list, at the size that is asked for. */
  async function wholeList(
    connector: string,
    entity: Entity,
    params: JsonObject,
    size: number,
  ): Promise<JsonObject[]> {
    const records: JsonObject[] = [];
    const { pagination } = entity;
    for (let token: JsonObject = {}; ;) {
      const paging: JsonObject =
        pagination.kind === 'single' ? {} : { [pagination.sizeParam ?? '']: size, ...token };
      const page = await api.list(connector, entity.name, { ...params, ...paging });
      records.push(...page.records);
      if (pagination.kind === 'single') return records;
      if (pagination.kind === 'offset') {
        if (page.records.length < size) return records;
        token = { [pagination.offsetParam]: records.length };
        continue;
      }
      if (pagination.kind !== 'pageToken') throw new Error('expected offsets or tokens');
      if (page.metadata['has_more'] !== true) return records;
      token = { [pagination.tokenParam]: page.metadata['next_cursor'] ?? null };
    }
  }

  describe.each([
    [mailing, 'email-marketing'],
    [notes, 'workspace-notes'],
  ])('%s', (connector, definitionName) => {
    const entities = [...(definitions.get(definitionName)?.entities.values() ?? [])];

    // Proves specification 4.4.6, 4.7.15, 4.8.9
    it.each(entities.map((entity) => [entity.name, entity] as const))(
      '%s: page by page over all parents brings the truth, each record once and in order',
      async (_name, entity) => {
        const expected = new Map<string, { params: JsonObject; records: JsonObject[] }>();
        for (const { record, params } of sampleTruth(account(definitionName), entity.name)) {
          // A block's place is no parameter.
          const { page_id: _page, depth: _depth, position: _position, ...parent } = params;
          const list = expected.get(JSON.stringify(parent)) ?? { params: parent, records: [] };
          const filled = [...entity.filledFrom].map(([field, source]) => [field, record[source] ?? null]);
          list.records.push({ ...record, ...Object.fromEntries(filled) } as JsonObject);
          expected.set(JSON.stringify(parent), list);
        }
        expect(expected.size).toBeGreaterThan(0);
        const lists = [...expected.values()];
        // All of them: `npm run test:long`.
        const walked = isLong || lists.length < 10 ? lists : lists.filter((_, index) => index % 5 === 0);
        for (const { params, records } of walked) {
          // A size that does not divide the lists' lengths, so that last pages are short.
          const size = records.length > 1_000 ? 1_000 : 97;
          expect(await wholeList(connector, entity, params, size)).toEqual(records);
        }
      },
    );
  });

  describe('offset paging', () => {
    const listId = (): string => text(account('email-marketing').list('lists', {}).slice(0, 1)[0]?.['id']);

    // Proves specification 8.1
    it('answers with ten records when no count is given', async () => {
      expect((await api.list(mailing, 'list_members', { list_id: listId() })).records).toHaveLength(10);
      expect((await api.list(mailing, 'campaigns')).records).toHaveLength(10);
    });

    // Proves specification 8.1
    it('caps count at 1000 silently', async () => {
      const capped = await api.list(mailing, 'list_members', { list_id: listId(), count: 5_000 });
      expect(capped.records).toHaveLength(1_000);
      expect(Object.keys(capped.metadata)).toEqual(['links']);
    });

    // Proves specification 4.7.15
    it('answers an offset past the end with an empty page', async () => {
      expect((await api.list(mailing, 'list_members', { list_id: listId(), offset: 2_300 })).records).toEqual(
        [],
      );
      expect((await api.list(mailing, 'lists', { offset: 2 ** 40 })).records).toEqual([]);
    });
  });

  describe('page tokens', () => {
    const filter = { property: 'object', value: 'page' };
    const tokenOf = async (params: JsonObject): Promise<string> =>
      text((await api.list(notes, 'pages', { filter, ...params })).metadata['next_cursor']);
    const statusOf = async (entity: string, params: JsonObject): Promise<number> =>
      (await api.execute(notes, { entity, action: 'list', params })).status;

    // Proves specification 4.8.10
    it('hold for the list they were given for, at any page size', async () => {
      const start_cursor = await tokenOf({ page_size: 10 });
      expect(await statusOf('pages', { filter, start_cursor, page_size: 7 })).toBe(200);
      expect(await statusOf('pages', { start_cursor })).toBe(400);
      expect(await statusOf('users', { start_cursor })).toBe(400);
    });

    it('are refused when one character is changed', async () => {
      const token = await tokenOf({ page_size: 10 });
      for (const at of [0, 20, token.length - 1]) {
        const changed = token.slice(0, at) + (token[at] === 'A' ? 'B' : 'A') + token.slice(at + 1);
        expect(await statusOf('pages', { filter, start_cursor: changed })).toBe(400);
      }
    });

    // Proves specification 4.8.10
    it('do not outlive the service that gave them', async () => {
      await using other = await serveApi({ accounts: sampleAccounts('small') });
      const token = text((await other.list(notes, 'users', { page_size: 5 })).metadata['next_cursor']);
      expect(await statusOf('users', { start_cursor: token })).toBe(400);
    });
  });

  it('refuses a way of paging that no definition with sample data has', () => {
    const campaigns = definitions.get('email-marketing')?.entities.get('campaigns' as EntityName);
    if (campaigns === undefined) throw new Error('no campaigns');
    const keys = { flagKeys: [], totalKeys: [] } as const;
    const pagination = {
      kind: 'page',
      pageParam: 'page',
      first: 1,
      sizeParam: null,
      maxSize: 4,
      ...keys,
    } as const;
    const request = {
      entity: { ...campaigns, pagination },
      params: {},
      signal: new AbortController().signal,
    };
    expect(() => listPage(account('email-marketing'), request, 'c1', Buffer.alloc(32))).toThrow(
      "Sample accounts page by offset or by token, not as 'campaigns' does ('page').",
    );
  });
});
