import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { isJsonObject, type JsonObject } from '../../src/core/json.ts';
import { createSampleAccount } from '../../src/sample/sample-service.ts';
import type { SampleAccount, SampleSize } from '../../src/sample/sample-account.ts';
import { sampleTruth, type TruthRecord } from '../support/sample-truth.ts';
import { definitions, object, objects, text } from '../support/service/served-api.ts';

const open = (definitionName: string, seed = 7, size: SampleSize = 'small'): SampleAccount =>
  createSampleAccount({ definitionName, seed, size });
const truth = (account: SampleAccount, entity: string): readonly TruthRecord[] => [
  ...sampleTruth(account, entity),
];
const records = (account: SampleAccount, entity: string): readonly JsonObject[] =>
  truth(account, entity).map(({ record }) => record);

describe('a sample account', () => {
  it.each([...definitions.keys()])('of %s is the same for the same seed and another for another', (name) => {
    for (const entity of definitions.get(name)?.entities.keys() ?? []) {
      const first = truth(open(name, 7, 'tiny'), entity);
      expect(truth(open(name, 7, 'tiny'), entity)).toEqual(first);
      expect(truth(open(name, 8, 'tiny'), entity)).not.toEqual(first);
    }
  });

  it('lies in the past, so that no watermark is capped', () => {
    const times = ['list_members', 'campaigns', 'email_activity'].flatMap((entity) =>
      [...JSON.stringify(records(open('email-marketing'), entity)).matchAll(/\d{4}-\d\d-\d\dT[\d:]{8}/g)].map(
        String,
      ),
    );
    expect(times.length).toBeGreaterThan(1_000);
    expect(times.toSorted().at(-1)?.localeCompare('2025-12-31T23:59:59')).toBe(-1);
  });
});

describe('the email account', () => {
  const account = open('email-marketing');

  it('has lists from empty to several pages, and people who are in more than one', () => {
    const sizes = records(account, 'lists').map((list) => object(list['stats'])['total_contacts']);
    expect(sizes).toEqual([2300, 900, 430, 57, 1, 0]);
    const ids = records(account, 'list_members').map(({ id }) => id);
    expect(new Set(ids).size).toBeLessThan(ids.length);
  });
});

describe('the workspace', () => {
  const account = open('workspace-notes');
  const blocks = truth(account, 'blocks');
  const listed = (id: unknown): readonly JsonObject[] =>
    account.list('blocks', { block_id: String(id) }).slice(0, 1_000);
  const copies = blocks.filter(({ record }) => {
    const synced = record['synced_block'];
    return isJsonObject(synced) && synced['synced_from'] !== null;
  });

  // Proves specification 2.7.4
  it('shows all 37 types of block, and lists six levels deep', () => {
    const entities = [...(definitions.get('workspace-notes')?.entities.values() ?? [])];
    const fields = entities.find(({ name }) => name === 'blocks')?.fields;
    const names = [...(fields?.keys() ?? [])];
    const types = new Set(names.slice(names.indexOf('paragraph'), names.indexOf('meeting_notes') + 1));
    expect(types.size).toBe(37);
    expect(new Set(blocks.map(({ record }) => record['type']))).toEqual(types);
    expect(Math.max(...blocks.map(({ params }) => Number(params['depth'])))).toBe(5);
    expect(blocks.every(({ record }) => isJsonObject(record[text(record['type'])]))).toBe(true);
  });

  it('shows the original’s children under a synced copy, with the same ids and the original as parent', () => {
    expect(copies.length).toBeGreaterThanOrEqual(2);
    for (const { record } of copies) {
      const from = object(object(record['synced_block'])['synced_from'])['block_id'];
      expect(record['has_children']).toBe(true);
      expect(listed(record['id'])).toEqual(listed(from));
      expect(listed(record['id']).length).toBeGreaterThan(0);
      expect(listed(record['id']).every(({ parent }) => object(parent)['block_id'] === from)).toBe(true);
    }
  });

  it('says has_children exactly where a list shows something, except for databases, whose pages lie elsewhere', () => {
    for (const { record } of blocks) {
      if (record['type'] === 'child_database') expect(record['has_children']).toBe(true);
      else if (record['type'] !== 'child_page') {
        expect([record['id'], record['has_children']]).toEqual([
          record['id'],
          listed(record['id']).length > 0,
        ]);
      }
    }
  });

  // Proves specification 4.8.3
  it('shows a page below a page as a block with the page’s id', () => {
    const below = records(account, 'pages').filter(({ parent }) => object(parent)['type'] === 'page_id');
    expect(below.length).toBeGreaterThan(10);
    for (const page of below) {
      const block = listed(object(page['parent'])['page_id']).find(({ id }) => id === page['id']);
      expect(block).toMatchObject({ type: 'child_page', has_children: true });
    }
  });

  // Proves specification 4.8.5
  it('keeps trashed pages out of lists and returns them by id', () => {
    const idsOf = (account: SampleAccount) => records(account, 'pages').map(({ id }) => text(id));
    const later = createSampleAccount({
      definitionName: 'workspace-notes',
      seed: 7,
      size: 'small',
      revision: 1,
    });
    const ids = new Set(idsOf(later));
    expect(new Set(idsOf(account)).size).toBe(120);
    const trashed = idsOf(account).filter((id) => !ids.has(id));
    expect(trashed.length).toBe(1);
    for (const id of trashed) {
      expect(later.get('pages', { page_id: id })).toMatchObject({ archived: true, in_trash: true });
    }
  });

  // Proves specification 4.8.3
  it('gives comments on a page for the page and those on a block for that block only', () => {
    const comments = truth(account, 'comments');
    const kinds = comments.map(({ record, params }) => {
      const parent = object(record['parent']);
      expect(parent[text(parent['type'])]).toBe(params['block_id']);
      return parent['type'];
    });
    expect(new Set(kinds)).toEqual(new Set(['page_id', 'block_id']));
    const onOnePage = (id: unknown): number =>
      comments.filter(({ params }) => params['block_id'] === id).length;
    const counts = comments.map(({ params }) => onOnePage(params['block_id']));
    expect(Math.max(...counts)).toBe(130);
  });

  // Proves specification 4.8.4
  it('takes ids without dashes and in capitals', () => {
    const [page] = records(account, 'pages');
    const id = text(page?.['id']);
    const bare = id.replaceAll('-', '').toUpperCase();
    expect(account.get('pages', { page_id: bare })).toMatchObject({ id });
    expect(listed(bare)).toEqual(listed(id));
  });

  it('has another request_id in every get and none in lists', () => {
    const [page] = records(account, 'pages');
    const get = (): unknown => account.get('pages', { page_id: page?.['id'] ?? null })?.['request_id'];
    expect(page).not.toHaveProperty('request_id');
    expect(get()).not.toBe(get());
  });
});

describe('the accounts of the demo', () => {
  const mailing = open('email-marketing', 1);
  const wiki = open('workspace-notes', 1);
  const readme = readFileSync('README.md', 'utf8');
  const picture = readFileSync('docs/demo.svg', 'utf8');

  it('have as many records as README.md and docs/demo.svg say', () => {
    const shown = (account: SampleAccount, entity: string): string =>
      records(account, entity).length.toLocaleString('en');
    expect(readme).toMatch(new RegExp(`list_members +[\\d,]+ +${shown(mailing, 'list_members')} `));
    expect(readme).toMatch(new RegExp(`lists +\\d+ +${shown(mailing, 'lists')} `));
    for (const entity of ['segment_members', 'email_activity', 'unsubscribes']) {
      expect(picture).toContain(`>${shown(mailing, entity)}</text>`);
    }
    for (const entity of ['users', 'pages']) expect(picture).toContain(`>${shown(wiki, entity)}</text>`);
  });

  it('have the opened and clicked campaigns that README.md shows', () => {
    const titles = new Map(
      records(mailing, 'reports').map(({ id, campaign_title: title }) => [id, text(title)]),
    );
    const counts = new Map<string, { open: number; click: number; bounce: number }>();
    for (const { campaign_id: id, activity } of records(mailing, 'email_activity')) {
      const title = titles.get(id ?? null) ?? '';
      const count = counts.get(title) ?? { open: 0, click: 0, bounce: 0 };
      for (const { action } of objects(activity)) count[action as keyof typeof count] += 1;
      counts.set(title, count);
    }
    const most = [...counts].sort(([, left], [, right]) => right.open - left.open).slice(0, 3);
    for (const [title, { open: opens, click }] of most) {
      expect(readme).toMatch(new RegExp(`${title} +${opens} +${click}\\n`));
    }
  });
});
