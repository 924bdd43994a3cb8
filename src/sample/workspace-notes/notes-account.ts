import { randomUUID } from 'node:crypto';
import { isJsonObject, type JsonObject, type JsonValue } from '../../core/json.ts';
import type { Params } from '../../core/records.ts';
import { notFound } from '../../service/api-error.ts';
import {
  accountOf,
  type Listing,
  listingOf,
  type SampleAccount,
  type SampleSize,
} from '../sample-account.ts';
import { textOf } from '../writing.ts';
import {
  blockRecord,
  commentRecord,
  commentsOf,
  databaseAsBlock,
  dataSourceRecord,
  type NotesWork,
  pageAsBlock,
  pageRecord,
} from './note-records.ts';
import { type NotesPlan, planNotes, userRecord } from './notes-plan.ts';
import { type Block, blocksOf } from './page-blocks.ts';
import { reviseNotes } from './revise-notes.ts';

/** The workspace behind a workspace-notes connector. It is written out when something is first asked for. */
export function openNotesAccount(seed: number, size: SampleSize, revision: number): SampleAccount {
  let written: Workspace | null = null;
  const workspace = (): Workspace => (written ??= open(seed, size, revision));
  // Both are one search of the third party: what kind comes back is up to the filter alone.
  const found = (params: Params): Listing => listingOf(search(workspace(), params));
  const account = accountOf({
    users: {
      list: () => listingOf(workspace().users),
      get: ({ user_id: wanted }) => workspace().users.find(({ id }) => id === toId(wanted)),
    },
    pages: { list: found, get: ({ page_id: id }) => workspace().pages.get(toId(id)) },
    data_sources: { list: found, get: ({ data_source_id: id }) => workspace().dataSources.get(toId(id)) },
    blocks: {
      list: (params) => {
        const { blocks, children } = workspace();
        const ids = children.get(parentId(workspace(), params)) ?? [];
        return listingOf(ids.map((id) => blocks.get(id)).filter((block) => block !== undefined));
      },
      get: ({ block_id: id }) => workspace().blocks.get(toId(id)),
    },
    comments: {
      list: (params) => listingOf(workspace().comments.get(parentId(workspace(), params)) ?? []),
      get: ({ comment_id: wanted }) =>
        [...workspace().comments.values()].flat().find(({ id }) => id === toId(wanted)),
    },
  });
  return {
    ...account,
    get(entity, params) {
      const record = account.get(entity, params);
      // Another one in every answer, as in the live service: nothing to tell records apart by.
      return record === null ? null : { ...record, request_id: randomUUID() };
    },
  };
}

function open(seed: number, size: SampleSize, revision: number): Workspace {
  const work = startWork(planNotes(seed, size));
  reviseNotes(work, revision);
  return writeWorkspace(work);
}

/** Newest edit first unless `sort` says otherwise; trashed pages and data sources are not found. */
function search({ pages, dataSources }: Workspace, params: Params): readonly JsonObject[] {
  const wanted = memberOf(params['filter'], 'value');
  const sign = memberOf(params['sort'], 'direction') === 'ascending' ? 1 : -1;
  const records = [
    ...(wanted === 'data_source' ? [] : pages.values()),
    ...(wanted === 'page' ? [] : dataSources.values()),
  ].filter((record) => record['in_trash'] !== true);
  const editedAt = (record: JsonObject): number => Date.parse(textOf(record['last_edited_time']));
  return records.sort((left, right) => sign * (editedAt(left) - editedAt(right)));
}

/** Of a page or block that is there; throws 404 for any other. */
function parentId({ children }: Workspace, params: Params): string {
  const id = toId(params['block_id']);
  if (children.has(id)) return id;
  throw notFound(
    `Could not find block with ID: ${id.slice(0, 40)}. ` +
      'Make sure the relevant pages and databases are shared with your integration.',
  );
}

/** Ids are taken with and without dashes, in any case. */
function toId(value: JsonValue | undefined): string {
  const hex = textOf(value).replaceAll('-', '').toLowerCase();
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join('-');
}

function memberOf(value: JsonValue | undefined, name: string): JsonValue | undefined {
  return isJsonObject(value) ? value[name] : undefined;
}

function startWork(plan: NotesPlan): NotesWork {
  const work: NotesWork = { plan, blocks: new Map(), comments: new Map() };
  for (const page of plan.pages) {
    const blocks = blocksOf(plan, page);
    work.blocks.set(page.id, blocks);
    for (const [id, comments] of commentsOf(plan, page, blocks)) work.comments.set(id, comments);
  }
  return work;
}

/** All records of a workspace, written out: a few thousand at most. */
type Workspace = ReturnType<typeof writeWorkspace>;

function writeWorkspace({ plan, blocks, comments }: NotesWork) {
  const pages = plan.pages.filter(({ isDeleted }) => !isDeleted);
  const records = new Map<string, JsonObject>();
  const children = new Map<string, readonly string[]>();
  const shownComments = new Map<string, readonly JsonObject[]>();
  const addComments = (type: 'page_id' | 'block_id', id: string): void => {
    const own = (comments.get(id) ?? []).map((comment) => commentRecord(comment, { type, [type]: id }));
    shownComments.set(id, own);
  };
  for (const page of pages) {
    const write = (block: Block, parent: JsonObject): string => {
      records.set(block.id, blockRecord(block, parent, page.isTrashed));
      addComments('block_id', block.id);
      const within = { type: 'block_id', block_id: block.id };
      children.set(
        block.id,
        block.children.map((child) => write(child, within)),
      );
      return block.id;
    };
    const parent = { type: 'page_id', page_id: page.id };
    const own = (blocks.get(page.id) ?? []).map((block) => write(block, parent));
    const below = pages.filter(
      ({ place, isTrashed }) => !isTrashed && place.kind === 'page' && place.parentId === page.id,
    );
    records.set(page.id, pageAsBlock(page));
    const databases = plan.databases.filter(({ hostId }) => hostId === page.id);
    for (const database of databases) records.set(database.id, databaseAsBlock(plan, database, parent));
    children.set(page.id, [...own, ...[...below, ...databases].map(({ id }) => id)]);
    addComments('page_id', page.id);
  }
  // A copy shows the original's children: the same ids, whose parent is the original.
  for (const [id, { synced_block: synced }] of records) {
    const original = originalOf(synced);
    if (original !== null) children.set(id, children.get(original) ?? []);
  }
  return {
    users: plan.users.filter(({ isGone }) => !isGone).map((user) => userRecord(plan, user)),
    /** By id; trashed ones included, as they are among the data sources. */
    pages: new Map(pages.map((page) => [page.id, pageRecord(plan, page)])),
    dataSources: new Map(plan.databases.map((one) => [one.dataSourceId, dataSourceRecord(plan, one)])),
    blocks: records,
    /** By page and by block: ids of what a list of it shows, top to bottom. */
    children,
    comments: shownComments,
  };
}

function originalOf(synced: unknown): string | null {
  const from = (synced as { synced_from?: { block_id: string } | null } | undefined)?.synced_from;
  return from?.block_id ?? null;
}
