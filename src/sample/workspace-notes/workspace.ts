import type { JsonObject } from '../../core/json.ts';
import { textOf } from '../text-of.ts';
import { growBlockTree, originalOf } from './block-tree.ts';
import { commentsById } from './comment-records.ts';
import type { NotesPlan } from './notes-plan.ts';
import { dataSourceRecord, pageRecord } from './page-records.ts';
import { userRecords } from './user-records.ts';

/** All records of a workspace, written out: a few thousand at most. By id, in the order in which they were made. */
export interface Workspace {
  readonly users: ReadonlyMap<string, JsonObject>;
  /** Trashed ones included. */
  readonly pages: ReadonlyMap<string, JsonObject>;
  /** Trashed ones included. */
  readonly dataSources: ReadonlyMap<string, JsonObject>;
  readonly blocks: ReadonlyMap<string, JsonObject>;
  /** Of every page, and of every block with blocks in it: what stands there, top to bottom. */
  readonly childIds: ReadonlyMap<string, readonly string[]>;
  /** Open ones by the page or block that they are on, oldest first. */
  readonly comments: ReadonlyMap<string, readonly JsonObject[]>;
}

/** The workspace before all revisions. */
export function openWorkspace(plan: NotesPlan): Workspace {
  const tree = growBlockTree(plan);
  return {
    users: byId(userRecords(plan)),
    pages: byId(plan.pages.map((page) => pageRecord(plan, page))),
    dataSources: byId(plan.databases.map((database) => dataSourceRecord(plan, database))),
    ...tree,
    comments: commentsById(plan, tree),
  };
}

/** The blocks that a list of this page or block shows, in document order; null for an id that is neither. */
export function childrenOf(
  { blocks, childIds }: Pick<Workspace, 'blocks' | 'childIds'>,
  id: string,
): readonly JsonObject[] | null {
  const block = blocks.get(id);
  // A copy shows the original's children: the same ids, whose parent is the original.
  const shown = childIds.get(id) ?? (block === undefined ? undefined : childIds.get(originalOf(block) ?? ''));
  if (shown === undefined) return block === undefined ? null : [];
  return shown.flatMap((childId) => {
    const child = blocks.get(childId);
    return child === undefined ? [] : [child];
  });
}

function byId(records: readonly JsonObject[]): ReadonlyMap<string, JsonObject> {
  return new Map(records.map((record) => [textOf(record['id']), record]));
}
