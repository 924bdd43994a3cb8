import type { JsonObject } from '../../core/json.ts';
import {
  blockRecord,
  type Comment,
  commentRecord,
  commentsOnBlock,
  commentsOnPage,
  databaseAsBlock,
  dataSourceRecord,
  discussedBlock,
  pageAsBlock,
  pageRecord,
} from './note-records.ts';
import { type NotesPlan, userRecord } from './notes-plan.ts';
import { type Block, blocksOf } from './page-blocks.ts';

/** A plan with what stands on its pages. Revisions change all of it in place. */
export interface NotesWork {
  readonly plan: NotesPlan;
  /** By page: top to bottom, without the pages and databases below it. */
  readonly blocks: Map<string, Block[]>;
  /** Open ones by the page or block that they are on, oldest first. */
  readonly comments: Map<string, Comment[]>;
}

export function startWork(plan: NotesPlan): NotesWork {
  const work: NotesWork = { plan, blocks: new Map(), comments: new Map() };
  for (const page of plan.pages) {
    const blocks = blocksOf(plan, page);
    work.blocks.set(page.id, blocks);
    work.comments.set(page.id, commentsOnPage(plan, page));
    const discussed = discussedBlock(page, blocks);
    if (discussed !== undefined) work.comments.set(discussed.id, commentsOnBlock(plan, page));
  }
  return work;
}

/** All records of a workspace, written out: a few thousand at most. */
export interface Workspace {
  readonly users: readonly JsonObject[];
  /** By id; trashed ones included, as they are among the data sources. */
  readonly pages: ReadonlyMap<string, JsonObject>;
  readonly dataSources: ReadonlyMap<string, JsonObject>;
  readonly blocks: ReadonlyMap<string, JsonObject>;
  /** By page and by block: ids of what a list of it shows, top to bottom. */
  readonly children: ReadonlyMap<string, readonly string[]>;
  readonly comments: ReadonlyMap<string, readonly JsonObject[]>;
}

export function writeWorkspace({ plan, blocks, comments }: NotesWork): Workspace {
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
    pages: new Map(pages.map((page) => [page.id, pageRecord(plan, page)])),
    dataSources: new Map(plan.databases.map((one) => [one.dataSourceId, dataSourceRecord(plan, one)])),
    blocks: records,
    children,
    comments: shownComments,
  };
}

function originalOf(synced: unknown): string | null {
  const from = (synced as { synced_from?: { block_id: string } | null } | undefined)?.synced_from;
  return from?.block_id ?? null;
}
