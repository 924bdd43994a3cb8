import { describe, expect, it } from 'vitest';
import { isJsonObject, type JsonObject, type JsonValue } from '../../src/core/json.ts';
import type { Params } from '../../src/core/records.ts';
import { revisionHistory, type RevisionChanges } from '../support/revision-changes.ts';
import { revisionTime } from '../../src/sample/revision-time.ts';
import { createSampleAccount, type SampleAccount } from '../../src/sample/sample-account.ts';
import { sampleTruth, type TruthRecord } from '../support/sample-truth.ts';
import { object, text } from './served-api.ts';

const sizes = ['tiny', 'small'] as const;
const open = (revision: number, size: (typeof sizes)[number] = 'small'): SampleAccount =>
  createSampleAccount({ definitionName: 'workspace-notes', seed: 7, size, revision });
const rows = (account: SampleAccount, entity: string): readonly TruthRecord[] => [
  ...sampleTruth(account, entity),
];
const byId = (account: SampleAccount, entity: string): ReadonlyMap<string, JsonObject> =>
  new Map(rows(account, entity).map(({ record }) => [text(record['id']), record]));
const children = (account: SampleAccount, block_id: string): readonly JsonObject[] =>
  account.list('blocks', { block_id }).slice(0, 1_000);
const editedAt = (record: JsonObject | undefined): number => Date.parse(text(record?.['last_edited_time']));
const histories = new Map(
  ['pages', 'blocks'].map((entity) => [
    entity,
    [...revisionHistory({ definitionName: 'workspace-notes', seed: 7, size: 'small' }, entity, 9)],
  ]),
);
const changesOf = (entity: string, revision: number): RevisionChanges =>
  histories.get(entity)?.[revision - 1] ?? expect.fail(`no revision ${revision}`);
const idsOf = (keys: readonly JsonObject[]): readonly string[] => keys.map(({ id }) => text(id));

/** Page id -> everything that a walk of the page finds: blocks with their places, and comments. */
function contents(account: SampleAccount): ReadonlyMap<string, string> {
  const pageOfBlock = new Map<string, JsonValue>();
  const found = new Map<JsonValue, unknown[]>();
  const add = (page: JsonValue, row: TruthRecord): void => {
    found.set(page, [...(found.get(page) ?? []), row]);
  };
  for (const row of rows(account, 'blocks')) {
    pageOfBlock.set(text(row.record['id']), row.params['page_id'] ?? null);
    add(row.params['page_id'] ?? null, row);
  }
  for (const row of rows(account, 'comments')) {
    const parent = object(row.record['parent']);
    add(parent['page_id'] ?? pageOfBlock.get(text(parent['block_id'])) ?? null, row);
  }
  return new Map([...found].map(([page, all]) => [text(page), JSON.stringify(all)]));
}

describe.each(sizes)('a revision of a %s workspace', (size) => {
  it('edits every page, block and data source that it changes, and pages with what is on them', () => {
    for (let revision = 1; revision <= (size === 'tiny' ? 12 : 6); revision += 1) {
      const [before, after] = [open(revision - 1, size), open(revision, size)];
      const isLate = (record: JsonObject | undefined): boolean =>
        editedAt(record) >= revisionTime(revision) && editedAt(record) < revisionTime(revision + 1);
      for (const entity of ['pages', 'data_sources', 'blocks']) {
        const old = byId(before, entity);
        for (const [id, record] of byId(after, entity)) {
          const is = JSON.stringify(record);
          if (is === JSON.stringify(old.get(id))) continue;
          // A block that came back with its page, or below another block, was not edited itself.
          if (entity === 'blocks' && !old.has(id)) continue;
          expect([id, isLate(record)]).toEqual([id, true]);
        }
      }
      const pages = byId(after, 'pages');
      const old = contents(before);
      const now = contents(after);
      for (const [id, page] of pages) {
        if (now.get(id) !== old.get(id)) expect([id, isLate(page)]).toEqual([id, true]);
      }
    }
  });

  it('keeps search in the order of edits, in both directions and for both kinds', () => {
    for (const revision of [1, 2, 3, 10]) {
      const account = open(revision, size);
      for (const value of ['page', 'data_source']) {
        const list = (sort: JsonObject): readonly JsonObject[] =>
          account
            .list('pages', { filter: { property: 'object', value }, sort } satisfies Params)
            .slice(0, 1_000);
        const ascending = list({ timestamp: 'last_edited_time', direction: 'ascending' });
        const times = ascending.map(editedAt);
        expect(times).toEqual(times.toSorted((left, right) => left - right));
        expect(list({}).map(editedAt)).toEqual(times.toReversed());
        expect(new Set(ascending.map(({ object: kind }) => kind))).toEqual(new Set([value]));
        expect(ascending.every(({ in_trash }) => in_trash === false)).toBe(true);
        expect(new Set(ascending.map(({ id }) => id)).size).toBe(ascending.length);
      }
    }
  });

  it('keeps the tree whole: parents, has_children, child pages and synced copies', () => {
    for (let revision = 1; revision <= (size === 'tiny' ? 12 : 6); revision += 1) {
      const account = open(revision, size);
      const pages = byId(account, 'pages');
      const blocks = rows(account, 'blocks');
      let copies = 0;
      for (const { record, params } of blocks) {
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
        if (type === 'page_id') {
          expect(children(account, text(page_id)).map((block) => block['id'])).toContain(id);
        }
      }
    }
  });
});

describe('what a revision does to pages', () => {
  const revisions = [1, 2, 3, 4, 5, 6];

  it('puts one into the trash, where get and its blocks are still found, and restores it later', () => {
    for (const revision of revisions) {
      const [id = ''] = idsOf(changesOf('pages', revision).archived);
      const account = open(revision);
      expect(account.get('pages', { page_id: id })).toMatchObject({ in_trash: true, archived: true });
      expect(editedAt(account.get('pages', { page_id: id }) ?? undefined)).toBeGreaterThan(
        revisionTime(revision),
      );
      expect(children(account, id).every(({ in_trash }) => in_trash === true)).toBe(true);
      expect(children(account, id)).toHaveLength(children(open(revision - 1), id).length);
      expect(idsOf(changesOf('pages', revision + 3).revived)).toContain(id);
    }
  });

  it('deletes one with its blocks and comments, and brings it back with them', () => {
    for (const revision of revisions) {
      const [id = ''] = idsOf(changesOf('pages', revision).deleted);
      const account = open(revision);
      expect(account.get('pages', { page_id: id })).toBeNull();
      for (const entity of ['blocks', 'comments']) {
        expect(() => account.list(entity, { block_id: id })).toThrow(/Could not find block/);
      }
      for (const block of children(open(revision - 1), id)) {
        const now = account.get('blocks', { block_id: block['id'] ?? null });
        // Unless the block had moved away before.
        if (now !== null) expect(object(now['parent'])['page_id']).not.toBe(id);
      }
      expect(idsOf(changesOf('pages', revision + 2).revived)).toContain(id);
      const back = new Set(children(open(revision + 2), id).map((block) => block['id']));
      const old = children(open(revision - 1), id);
      // Two may have been deleted or moved since.
      expect(old.filter((block) => back.has(block['id'] ?? null)).length).toBeGreaterThanOrEqual(
        old.length - 2,
      );
    }
  });

  it('adds one with blocks, and moves one to another parent', () => {
    for (const revision of revisions) {
      const account = open(revision);
      for (const id of idsOf(changesOf('pages', revision).added)) {
        expect(children(account, id).length).toBeGreaterThan(2);
      }
      const moved = idsOf(changesOf('pages', revision).moved);
      expect(moved.length).toBeGreaterThan(0);
      const [before, after] = [byId(open(revision - 1), 'pages'), byId(account, 'pages')];
      for (const id of moved) expect(after.get(id)?.['parent']).not.toEqual(before.get(id)?.['parent']);
    }
  });
});

it('moves blocks within a page and to another one', () => {
  const kinds = new Set<boolean>();
  for (let revision = 1; revision <= 6; revision += 1) {
    const pages = (at: number): ReadonlyMap<string, JsonValue> =>
      new Map(
        rows(open(at), 'blocks').map(({ record, params }) => [text(record['id']), params['page_id'] ?? null]),
      );
    const [before, after] = [pages(revision - 1), pages(revision)];
    for (const id of idsOf(changesOf('blocks', revision).moved)) kinds.add(before.get(id) === after.get(id));
  }
  expect(kinds).toEqual(new Set([true, false]));
});
