import { beforeAll, describe, expect, it } from 'vitest';
import { sampleTruth } from '../../support/sample-truth.ts';
import { object, objects, text } from '../../support/service/served-api.ts';
import type { JsonObject } from '../../../src/core/json.ts';
import type { Params } from '../../../src/core/records.ts';
import { createSampleAccount } from '../../../src/sample/sample-service.ts';
import type { SampleAccount } from '../../../src/sample/sample-account.ts';
import { revisionTime } from '../../../src/sample/sample-values.ts';
import { isLong } from '../../support/trials.ts';

const revision = 10;
const options = { definitionName: 'email-marketing', seed: 7, size: 'small' } as const;
const open = (at: number): SampleAccount => createSampleAccount({ ...options, revision: at });
const everything = Number.POSITIVE_INFINITY;
let account: SampleAccount;
let listIds: readonly string[];
beforeAll(() => {
  account = open(revision);
  listIds = records('lists').map(({ id }) => text(id));
});

const records = (entity: string, at = account): readonly JsonObject[] =>
  Array.from(sampleTruth(at, entity), ({ record }) => record);
const keyOf = (member: JsonObject): string => `${text(member['list_id'])} ${text(member['id'])}`;
const idsOf = (of: readonly JsonObject[]): readonly string[] => of.map(({ id }) => text(id));
const members = (params: Params, at = account): readonly JsonObject[] =>
  at.list('list_members', params).slice(0, everything);
const times = (of: readonly JsonObject[], field: string): readonly string[] =>
  of.map((record) => text(record[field]));

describe('members of a revised account', () => {
  it('are changed behind all others, in the hours of the revision, some in the same second', () => {
    const [list_id = ''] = listIds;
    const byChange = members({ list_id, sort_field: 'last_changed' });
    expect(times(byChange, 'last_changed')).toEqual(times(byChange, 'last_changed').toSorted());
    const instants = times(byChange, 'last_changed').map((time) => Date.parse(time));
    const last = instants.filter((time) => time > revisionTime(revision));
    expect(last.length).toBeGreaterThan(20);
    expect(last.length).toBeLessThan(40);
    expect(Math.max(...last)).toBeLessThan(revisionTime(revision) + 10 * 3_600_000);
    expect(new Set(last).size).toBeLessThan(last.length);
  });

  it('change in no field without last_changed', () => {
    const shown = (at: number): ReadonlyMap<string, JsonObject> =>
      new Map(records('list_members', open(at)).map((member) => [keyOf(member), member]));
    let before = shown(0);
    for (let at = 1; at <= (isLong ? 6 : 2); at += 1) {
      const after = shown(at);
      const kept = [...after].filter(
        ([key, member]) => before.get(key)?.['last_changed'] === member['last_changed'],
      );
      expect(kept.length).toBeGreaterThan(3_500);
      const edited = kept.filter(
        ([key, member]) => JSON.stringify(before.get(key)) !== JSON.stringify(member),
      );
      expect(edited.map(([key]) => key)).toEqual([]);
      before = after;
    }
  });

  it.each(['last_changed', 'timestamp_opt', 'timestamp_signup'])('sort by %s, paged too', (field) => {
    for (const list_id of listIds) {
      const all = times(members({ list_id }), field).toSorted();
      const sort = { list_id, sort_field: field };
      expect(times(members({ ...sort, sort_dir: 'ASC' }), field)).toEqual(all);
      expect(times(members({ ...sort, sort_dir: 'DESC' }), field)).toEqual(all.toReversed());
      const pages = account.list('list_members', sort);
      const paged = Array.from({ length: Math.ceil(all.length / 97) }, (_, page) =>
        pages.slice(page * 97, 97),
      );
      expect(idsOf(paged.flat())).toEqual(idsOf(members(sort)));
    }
  });

  it('pass filters on times, values and both in every order', () => {
    for (const list_id of listIds.slice(isLong ? 2 : 3, 4)) {
      const all = members({ list_id });
      const changedAt = times(all, 'last_changed').toSorted();
      const bounds = [
        changedAt[Math.floor(all.length / 2)],
        changedAt.at(-9),
        changedAt.at(-1),
        '2030-01-01',
      ];
      for (const bound of bounds.map((time) => time ?? '')) {
        for (const field of ['last_changed', 'timestamp_opt']) {
          for (const [name, keeps] of [
            [`since_${field}`, (time: string) => time >= bound],
            [`before_${field}`, (time: string) => time <= bound],
          ] as const) {
            for (const sort_field of [undefined, 'last_changed', 'timestamp_opt', 'timestamp_signup']) {
              const params = { list_id, ...(sort_field === undefined ? {} : { sort_field }) };
              const expected = members(params).filter((member) => keeps(text(member[field])));
              expect(idsOf(members({ ...params, [name]: bound }))).toEqual(idsOf(expected));
              const subscribed = expected.filter(({ status }) => status === 'subscribed');
              expect(idsOf(members({ ...params, [name]: bound, status: 'subscribed' }))).toEqual(
                idsOf(subscribed),
              );
            }
          }
        }
      }
      for (const status of ['unsubscribed', 'archived', 'cleaned']) {
        expect(members({ list_id, status })).toEqual(all.filter((member) => member['status'] === status));
      }
      const [unique] = all.slice(-1);
      expect(members({ list_id, unique_email_id: unique?.['unique_email_id'] ?? null })).toEqual([unique]);
    }
  });

  it('are counted in lists, segments and interests as they are', () => {
    for (const at of isLong ? [1, 2, 3, 5, 9] : [3, 9]) {
      const now = open(at);
      const all = records('list_members', now);
      for (const list of records('lists', now)) {
        const own = all.filter(({ list_id }) => list_id === list['id']);
        const count = (status: string): number => own.filter((member) => member['status'] === status).length;
        expect(object(list['stats'])).toMatchObject({
          total_contacts: own.length,
          member_count: count('subscribed'),
          unsubscribe_count: count('unsubscribed'),
          cleaned_count: count('cleaned'),
        });
      }
      for (const interest of records('interests', now)) {
        const has = all.filter(({ interests }) => object(interests)[text(interest['id'])] === true);
        expect(interest['subscriber_count']).toBe(String(has.length));
      }
      const ids = new Map<string, Set<unknown>>();
      for (const { record, params } of sampleTruth(now, 'segment_members')) {
        expect(record['status']).toBe('subscribed');
        const segment = text(params['segment_id']);
        ids.set(segment, (ids.get(segment) ?? new Set()).add(record['id']));
      }
      for (const segment of records('segments', now)) {
        expect(ids.get(text(segment['id']))?.size ?? 0).toBe(segment['member_count']);
      }
      for (const { record: tag, params } of sampleTruth(now, 'tags')) {
        const tagged = all.filter(
          ({ list_id, status, tags }) =>
            list_id === params['list_id'] &&
            status === 'subscribed' &&
            objects(tags).some(({ id }) => id === tag['id']),
        );
        expect(ids.get(text(tag['id'])) ?? new Set()).toEqual(new Set(tagged.map(({ id }) => id)));
      }
    }
  });
});
