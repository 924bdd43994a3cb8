import { expect, it } from 'vitest';
import type { JsonObject } from '../../src/core/json.ts';
import { revisionHistory, type RevisionChanges } from '../support/revision-changes.ts';
import { revisionTime } from '../../src/sample/revision-time.ts';
import { createSampleAccount, type SampleAccount } from '../../src/sample/sample-account.ts';
import { sampleTruth } from '../support/sample-truth.ts';
import { object, objects, text } from './served-api.ts';

const options = { definitionName: 'email-marketing', seed: 7, size: 'small' } as const;
const open = (revision: number): SampleAccount => createSampleAccount({ ...options, revision });
const records = (account: SampleAccount, entity: string): readonly JsonObject[] =>
  Array.from(sampleTruth(account, entity), ({ record }) => record);
const histories = new Map(
  ['lists', 'reports'].map((entity) => [entity, [...revisionHistory(options, entity, 5)]]),
);
const changesOf = (entity: string, revision: number): RevisionChanges =>
  histories.get(entity)?.[revision - 1] ?? expect.fail(`no revision ${revision}`);
const byId = (account: SampleAccount, entity: string): ReadonlyMap<string, JsonObject> =>
  new Map(records(account, entity).map((record) => [text(record['id']), record]));
const eventsOf = (row: JsonObject): readonly JsonObject[] => objects(row['activity']);

it('gives a draft that a revision sends a report, activity and somebody who left', () => {
  const sent = changesOf('reports', 1).added.map(({ id }) => text(id));
  expect(sent).toHaveLength(1);
  const [campaign_id = ''] = sent;
  expect(byId(open(0), 'campaigns').get(campaign_id)).toMatchObject({ send_time: '', emails_sent: 0 });
  const account = open(1);
  const campaign = byId(account, 'campaigns').get(campaign_id);
  const sentAt = Date.parse(text(campaign?.['send_time']));
  expect([campaign?.['status'], sentAt > revisionTime(1)]).toEqual(['sent', true]);
  expect(() => open(0).list('email_activity', { campaign_id })).toThrow(/no report/);
  const rows = account.list('email_activity', { campaign_id }).slice(0, 1_000);
  const report = byId(account, 'reports').get(campaign_id);
  const opens = rows.flatMap(eventsOf).filter(({ action }) => action === 'open');
  expect(object(report?.['opens'])['opens_total']).toBe(opens.length);
  expect(opens.every(({ timestamp }) => Date.parse(text(timestamp)) >= sentAt)).toBe(true);
  const left = account.list('unsubscribes', { campaign_id }).slice(0, 99);
  expect([left.length, report?.['unsubscribed']]).toEqual([1, 1]);
});

it('adds activity of recipients with and without earlier activity, which since finds alone', () => {
  const since = `${new Date(revisionTime(4)).toISOString().slice(0, 19)}+00:00`;
  const before = open(3);
  const kinds = new Set<boolean>();
  let events = 0;
  for (const campaign_id of [...byId(before, 'reports').keys()].filter((id) =>
    byId(open(4), 'reports').has(id),
  )) {
    const old = before.list('email_activity', { campaign_id }).slice(0, 5_000);
    const whole = open(4).list('email_activity', { campaign_id }).slice(0, 5_000);
    const late = open(4).list('email_activity', { campaign_id, since }).slice(0, 5_000);
    expect(late).toEqual(
      whole.map((row) => ({
        ...row,
        activity: eventsOf(row).filter(({ timestamp }) => Date.parse(text(timestamp)) >= revisionTime(4)),
      })),
    );
    expect(whole.map(({ email_id }) => email_id)).toEqual(old.map(({ email_id }) => email_id));
    for (const [place, row] of late.entries()) {
      if (eventsOf(row).length > 0) kinds.add(eventsOf(old[place] ?? {}).length > 0);
      // What had happened stays, and what is new comes after it.
      expect(eventsOf(whole[place] ?? {})).toEqual([...eventsOf(old[place] ?? {}), ...eventsOf(row)]);
      events += eventsOf(row).length;
    }
  }
  expect(kinds).toEqual(new Set([true, false]));
  expect(events).toBeGreaterThan(2);
});

it('counts in every report what was done and who left', () => {
  for (const revision of [1, 5, 10]) {
    const account = open(revision);
    for (const report of records(account, 'reports')) {
      const campaign_id = report['id'] ?? null;
      const left = account.list('unsubscribes', { campaign_id }).slice(0, 5_000);
      expect(report['unsubscribed']).toBe(left.length);
      const { opens_total } = object(report['opens']);
      const campaign = account.get('campaigns', { campaign_id });
      expect(object(campaign?.['report_summary'])['opens']).toBe(opens_total);
    }
  }
});

it('edits campaigns and renames lists without another create or send time', () => {
  const edited = [1, 2, 3, 4, 5, 6, 7, 8].flatMap((revision) => {
    const before = byId(open(revision - 1), 'campaigns');
    return [...byId(open(revision), 'campaigns')].flatMap(([id, campaign]) => {
      const old = before.get(id);
      const title = (of: JsonObject | undefined): unknown => object(of?.['settings'])['title'];
      return old === undefined || title(old) === title(campaign) ? [] : [[old, campaign] as const];
    });
  });
  expect(edited.length).toBeGreaterThanOrEqual(8);
  for (const [old, campaign] of edited) expect(campaign['create_time']).toBe(old['create_time']);

  const [before, after] = [byId(open(3), 'lists'), byId(open(4), 'lists')];
  const renamed = [...after].filter(([id, { name }]) => before.get(id)?.['name'] !== name);
  expect(renamed).toHaveLength(1);
  const [id, list] = renamed[0] ?? ['', {}];
  expect(list['date_created']).toBe(before.get(id)?.['date_created']);
  for (const campaign of records(open(4), 'campaigns')) {
    const { list_id, list_name } = object(campaign['recipients']);
    if (list_id === id) expect(list_name).toBe(list['name']);
  }
});

it('deletes a list with everything below it, and brings it back with everything', () => {
  const gone = changesOf('lists', 3).deleted.map(({ id }) => text(id));
  const back = changesOf('lists', 5).revived.map(({ id }) => text(id));
  expect([gone.length, back]).toEqual([1, gone]);
  const [list_id = ''] = gone;
  const below = ['list_members', 'tags', 'segments', 'interest_categories'];
  const sizes = (revision: number): readonly number[] =>
    below.map((entity) => open(revision).list(entity, { list_id }).slice(0, 5_000).length);
  expect(sizes(2)[0]).toBeGreaterThan(0);
  for (const entity of below) expect(() => open(3).list(entity, { list_id })).toThrow(/no list/);
  expect(open(3).get('lists', { list_id })).toBeNull();
  const lists = new Set(records(open(4), 'list_members').map((member) => member['list_id']));
  expect(lists.has(list_id)).toBe(false);
  expect(sizes(5)[0]).toBeGreaterThanOrEqual(sizes(2)[0] ?? 0);
  const speaking = records(open(3), 'campaigns').map(({ recipients }) => object(recipients));
  const active = (own: boolean) =>
    new Set(speaking.filter((to) => (to['list_id'] === list_id) === own).map((to) => to['list_is_active']));
  expect([active(true), active(false)]).toEqual([new Set([false]), new Set([true])]);
});

it('deletes a campaign that was sent with all that was below it, and brings it back', () => {
  const [gone] = changesOf('reports', 3).deleted;
  const campaign_id = gone?.['id'] ?? null;
  expect(open(3).get('campaigns', { campaign_id })).toBeNull();
  expect(open(3).get('reports', { campaign_id })).toBeNull();
  expect(() => open(4).list('email_activity', { campaign_id })).toThrow(/no report/);
  const rows = (revision: number): number =>
    open(revision).list('email_activity', { campaign_id }).slice(0, 5_000).length;
  expect([rows(2) > 10, rows(5)]).toEqual([true, rows(2)]);
});
