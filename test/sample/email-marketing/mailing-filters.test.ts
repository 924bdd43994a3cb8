import { createHash } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { JsonObject, JsonValue } from '../../../src/core/json.ts';
import {
  mailing,
  object,
  objects,
  sampleAccounts,
  serveApi,
  type ServedApi,
  text,
} from '../../support/service/served-api.ts';

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
  whole: readonly JsonObject[],
  params: JsonObject,
  keep: (record: JsonObject) => boolean,
  parent: JsonObject = {},
): Promise<void> {
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
      const whole = await all(entity);
      const times = whole.map((record) => text(at(record, path))).filter((time) => time !== '');
      const bound = times.toSorted()[Math.floor(times.length / 2)] ?? '';
      await expectFilter(
        entity,
        whole,
        { [`since_${name}`]: bound },
        (record) => text(at(record, path)) >= bound,
      );
      await expectFilter(
        entity,
        whole,
        { [`before_${name}`]: bound },
        (record) => text(at(record, path)) !== '' && text(at(record, path)) <= bound,
      );
    },
  );

  // Proves specification 4.7.6
  it('of members and segments are found the same way', async () => {
    for (const field of ['last_changed', 'timestamp_opt']) {
      const bound = text(members[300]?.[field]);
      await expectFilter(
        'list_members',
        members,
        { [`since_${field}`]: bound },
        (r) => text(r[field]) >= bound,
        { list_id },
      );
      await expectFilter(
        'list_members',
        members,
        { [`before_${field}`]: bound },
        (r) => text(r[field]) <= bound,
        { list_id },
      );
    }
    const segments = await all('segments', { list_id });
    for (const field of ['created_at', 'updated_at']) {
      const bound = text(segments.map((segment) => text(segment[field])).sort()[2]);
      await expectFilter(
        'segments',
        segments,
        { [`since_${field}`]: bound },
        (r) => text(r[field]) >= bound,
        { list_id },
      );
      await expectFilter(
        'segments',
        segments,
        { [`before_${field}`]: bound },
        (r) => text(r[field]) <= bound,
        { list_id },
      );
    }
  });

  // Proves specification 4.7.5
  it('are taken in any ISO 8601 form of the same instant', async () => {
    const bound = text(members[300]?.['last_changed']);
    const ms = Date.parse(bound);
    const forms = [
      bound,
      new Date(ms).toISOString(),
      `${new Date(ms + 7_200_000).toISOString().slice(0, 19)}+02:00`,
    ];
    const answers = await Promise.all(
      forms.map((since_last_changed) => all('list_members', { list_id, since_last_changed })),
    );
    expect(answers[1]).toEqual(answers[0]);
    expect(answers[2]).toEqual(answers[0]);
  });
});

describe('values', () => {
  // Proves specification 4.7.7
  it('filter campaigns by type, status, list and folder', async () => {
    const whole = await all('campaigns');
    for (const status of ['save', 'paused', 'schedule', 'sending', 'sent']) {
      await expectFilter('campaigns', whole, { status }, (record) => record['status'] === status);
    }
    for (const type of ['regular', 'plaintext', 'absplit', 'rss', 'variate']) {
      await expectFilter('campaigns', whole, { type }, (record) => record['type'] === type);
    }
    await expectFilter(
      'campaigns',
      whole,
      { list_id },
      (record) => at(record, 'recipients.list_id') === list_id,
    );
    await expectFilter(
      'campaigns',
      whole,
      { folder_id: 'folder2' },
      (record) => at(record, 'settings.folder_id') === 'folder2',
    );
  });

  // Proves specification 4.7.7
  it('filter reports, automations and segments', async () => {
    await expectFilter(
      'reports',
      await all('reports'),
      { type: 'rss' },
      (record) => record['type'] === 'rss',
    );
    await expectFilter(
      'automations',
      await all('automations'),
      { status: 'paused' },
      (r) => r['status'] === 'paused',
    );
    const segments = await all('segments', { list_id });
    await expectFilter('segments', segments, { type: 'saved' }, (r) => r['type'] === 'saved', { list_id });
  });

  // Proves specification 4.7.7, 4.7.8
  it('filter members by status, email type, vip and unique id, alone and together', async () => {
    const parent = { list_id };
    for (const status of ['subscribed', 'unsubscribed', 'cleaned', 'pending', 'transactional', 'archived']) {
      await expectFilter(
        'list_members',
        members,
        { status },
        (record) => record['status'] === status,
        parent,
      );
    }
    await expectFilter(
      'list_members',
      members,
      { email_type: 'text' },
      (r) => r['email_type'] === 'text',
      parent,
    );
    await expectFilter('list_members', members, { vip_only: true }, (r) => r['vip'] === true, parent);
    expect(await all('list_members', { list_id, vip_only: false })).toEqual(members);
    const unique_email_id = members[17]?.['unique_email_id'] ?? null;
    expect(await all('list_members', { list_id, unique_email_id })).toEqual([members[17]]);
    const bound = text(members[200]?.['last_changed']);
    await expectFilter(
      'list_members',
      members,
      { status: 'subscribed', since_last_changed: bound, email_type: 'html' },
      (r) => r['status'] === 'subscribed' && r['email_type'] === 'html' && text(r['last_changed']) >= bound,
      parent,
    );
  });

  // Proves specification 4.7.9
  it('filter members by interests, any, all or none of them', async () => {
    const category = (await all('interest_categories', { list_id }))[0];
    const interest_category_id = category?.['id'] ?? null;
    const interests = await all('interests', { list_id, interest_category_id });
    const ids = interests.slice(0, 2).map(({ id }) => text(id));
    const has = (record: JsonObject, id: string): boolean => object(record['interests'])[id] === true;
    const params = { interest_category_id, interest_ids: ids.join(','), list_id };
    await expectFilter('list_members', members, { ...params, interest_match: 'any' }, (r) =>
      ids.some((id) => has(r, id)),
    );
    await expectFilter('list_members', members, { ...params, interest_match: 'all' }, (r) =>
      ids.every((id) => has(r, id)),
    );
    await expectFilter(
      'list_members',
      members,
      { ...params, interest_match: 'none' },
      (r) => !ids.some((id) => has(r, id)),
    );
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
    (await all(entity, { ...parent, sort_field: field, sort_dir: dir })).map((record) => text(record[field]));

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

  it.each(['last_changed', 'timestamp_opt', 'timestamp_signup'])(
    'sorts members by %s, paged or filtered too',
    async (field) => {
      const times = members.map((record) => text(record[field])).sort();
      expect(await order('list_members', field, 'ASC', { list_id })).toEqual(times);
      expect(await order('list_members', field, 'DESC', { list_id })).toEqual(times.toReversed());
      const page = await order('list_members', field, 'DESC', { list_id, offset: 100, count: 50 });
      expect(page).toEqual(times.toReversed().slice(100, 150));
    },
  );
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

  it('returns what list does, for every entity that has it', async () => {
    const category = (await all('interest_categories', { list_id }))[0] ?? {};
    const interest_category_id = category['id'] ?? null;
    for (const [entity, parent, key] of [
      ['lists', {}, 'list_id'],
      ['campaigns', {}, 'campaign_id'],
      ['reports', {}, 'campaign_id'],
      ['interest_categories', { list_id }, 'interest_category_id'],
      ['interests', { list_id, interest_category_id }, 'interest_id'],
      ['segments', { list_id }, 'segment_id'],
    ] as const) {
      for (const record of (await all(entity, parent)).slice(0, 3)) {
        const params = { ...parent, [key]: text(record['id']) };
        expect((await api.execute(mailing, { entity, action: 'get', params })).body['result']).toEqual(
          record,
        );
      }
    }
  });
});
