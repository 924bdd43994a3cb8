import { describe, expect, it } from 'vitest';
import { sampleTruth, type TruthRecord } from '../../support/sample-truth.ts';
import { object, text } from '../../support/service/served-api.ts';
import { isJsonObject, type JsonObject } from '../../../src/core/json.ts';
import { createSampleAccount } from '../../../src/sample/sample-service.ts';
import type { SampleAccount } from '../../../src/sample/sample-account.ts';
import { revisionTime } from '../../../src/sample/sample-values.ts';

const sizes = ['tiny', 'small'] as const;
const last = { tiny: 12, small: 6 };
const accounts = new Map<string, SampleAccount>();
const open = (revision: number, size: (typeof sizes)[number]): SampleAccount => {
  const name = `${size} ${revision}`;
  const account =
    accounts.get(name) ?? createSampleAccount({ definitionName: 'workspace-notes', seed: 7, size, revision });
  accounts.set(name, account);
  return account;
};
const rows = (account: SampleAccount, entity: string): readonly TruthRecord[] => [
  ...sampleTruth(account, entity),
];
const byId = (account: SampleAccount, entity: string): ReadonlyMap<string, JsonObject> =>
  new Map(rows(account, entity).map(({ record }) => [text(record['id']), record]));
const children = (account: SampleAccount, block_id: string): readonly JsonObject[] =>
  account.list('blocks', { block_id }).slice(0, 1_000);
const editedAt = (record: JsonObject | undefined): number => Date.parse(text(record?.['last_edited_time']));

/** Page id -> everything that a walk of the page finds: blocks with their places, and comments. */
function contents(account: SampleAccount): ReadonlyMap<string, string> {
  const pageOfBlock = new Map<string, string>();
  const found = new Map<string, TruthRecord[]>();
  for (const row of rows(account, 'blocks')) {
    const page = text(row.params['page_id']);
    pageOfBlock.set(text(row.record['id']), page);
    found.set(page, [...(found.get(page) ?? []), row]);
  }
  for (const row of rows(account, 'comments')) {
    const parent = object(row.record['parent']);
    const page = text(parent['page_id']) || (pageOfBlock.get(text(parent['block_id'])) ?? '');
    found.set(page, [...(found.get(page) ?? []), row]);
  }
  return new Map([...found].map(([page, all]) => [page, JSON.stringify(all)]));
}

describe.each(sizes)('a revision of a %s workspace', (size) => {
  it('edits every page, block and data source that it changes, and pages with what is on them', () => {
    for (let revision = 1; revision <= last[size]; revision += 1) {
      const [before, after] = [open(revision - 1, size), open(revision, size)];
      const expectLate = (id: string, record: JsonObject | undefined): void => {
        const isLate =
          editedAt(record) >= revisionTime(revision) && editedAt(record) < revisionTime(revision + 1);
        expect([revision, id, isLate]).toEqual([revision, id, true]);
      };
      for (const entity of ['pages', 'data_sources', 'blocks']) {
        const old = byId(before, entity);
        for (const [id, record] of byId(after, entity)) {
          // A block that came back with its page was not edited itself.
          if (entity === 'blocks' && !old.has(id)) continue;
          if (JSON.stringify(record) !== JSON.stringify(old.get(id))) expectLate(id, record);
        }
      }
      const [old, now] = [contents(before), contents(after)];
      for (const [id, page] of byId(after, 'pages')) if (now.get(id) !== old.get(id)) expectLate(id, page);
    }
  });

  it('keeps the tree whole: parents, has_children, child pages and synced copies', () => {
    for (let revision = 1; revision <= last[size]; revision += 1) {
      const account = open(revision, size);
      const pages = byId(account, 'pages');
      let copies = 0;
      for (const { record, params } of rows(account, 'blocks')) {
        const id = text(record['id']);
        const parent = object(record['parent']);
        expect(parent[text(parent['type'])]).toBe(params['block_id']);
        if (record['type'] === 'child_page') {
          expect(object(pages.get(id)?.['parent'])['page_id']).toBe(params['page_id']);
        } else if (record['type'] !== 'child_database') {
          expect([id, record['has_children']]).toEqual([id, children(account, id).length > 0]);
        }
        const synced = record['synced_block'];
        const from = isJsonObject(synced) ? synced['synced_from'] : null;
        if (!isJsonObject(from)) continue;
        copies += 1;
        expect(children(account, id)).toEqual(children(account, text(from['block_id'])));
      }
      expect(copies).toBe(2);
      for (const [id, page] of pages) {
        const { type, page_id } = object(page['parent']);
        if (type !== 'page_id') continue;
        expect(children(account, text(page_id)).map((block) => block['id'])).toContain(id);
      }
    }
  });
});

it('puts a page into the trash, where get and its blocks are still found, and restores it later', () => {
  const [before, after, back] = [open(0, 'small'), open(1, 'small'), open(3, 'small')];
  const listed = byId(after, 'pages');
  const [id = ''] = [...byId(before, 'pages').keys()].filter((page) => !listed.has(page));
  expect(after.get('pages', { page_id: id })).toMatchObject({ in_trash: true, archived: true });
  expect(children(after, id)).toHaveLength(children(before, id).length);
  expect(children(after, id).every(({ in_trash }) => in_trash === true)).toBe(true);
  expect(byId(back, 'pages').has(id)).toBe(true);
});

it('deletes a page with its blocks and comments, and brings it back with them', () => {
  const [before, after, back] = [open(1, 'small'), open(2, 'small'), open(4, 'small')];
  const listed = byId(after, 'pages');
  const [id = ''] = [...byId(before, 'pages').keys()].filter((page) => !listed.has(page));
  expect(after.get('pages', { page_id: id })).toBeNull();
  expect(() => after.list('blocks', { block_id: id })).toThrow(/Could not find block/);
  expect(children(before, id).length).toBeGreaterThan(0);
  expect(children(back, id)).toEqual(children(before, id));
});
