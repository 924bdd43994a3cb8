import { isJsonObject, type JsonObject } from '../../../core/json.ts';
import { diceFor } from '../dice.ts';
import { notesTime } from '../times.ts';
import type { BlockSketch } from './block-content.ts';
import { notesKind, type NotesPlan, type Page } from './notes-plan.ts';
import { pageOutline } from './page-outline.ts';
import { user } from './page-records.ts';

export interface BlockTree {
  readonly blockById: ReadonlyMap<string, JsonObject>;
  /** The blocks that a list of this page or block shows, in document order; null for an id that is neither. */
  childrenOf(id: string): readonly JsonObject[] | null;
}

/** Writes every page's outline out into block records. A few thousand of them at most. */
export function growBlockTree(plan: NotesPlan): BlockTree {
  const blockById = new Map<string, JsonObject>();
  const childrenById = new Map<string, readonly JsonObject[]>();
  for (const page of plan.pages) growPage(plan, page, blockById, childrenById);

  return {
    blockById,
    childrenOf(id) {
      const children = childrenById.get(id);
      if (children !== undefined) return children;
      const block = blockById.get(id);
      if (block === undefined) return null;
      // A copy shows the original's children: the same ids, whose parent is the original.
      const originalId = originalOf(block);
      return originalId === null ? [] : (childrenById.get(originalId) ?? []);
    },
  };
}

function growPage(
  plan: NotesPlan,
  page: Page,
  blockById: Map<string, JsonObject>,
  childrenById: Map<string, readonly JsonObject[]>,
): void {
  let number = 0;
  const grow = (sketches: readonly BlockSketch[], parent: JsonObject): readonly JsonObject[] =>
    sketches.map((sketch) => {
      number += 1;
      const id = sketch.id ?? diceFor(plan.seed, notesKind.block, page.index, number).uuid();
      const hasChildren = sketch.children.length > 0 || sketch.hasChildrenElsewhere === true;
      const record = blockRecord(page, id, parent, sketch, hasChildren);
      blockById.set(id, record);
      if (sketch.children.length > 0) {
        childrenById.set(id, grow(sketch.children, { type: 'block_id', block_id: id }));
      }
      return record;
    });
  childrenById.set(page.id, grow(pageOutline(plan, page), { type: 'page_id', page_id: page.id }));
}

function blockRecord(
  page: Page,
  id: string,
  parent: JsonObject,
  { type, content }: BlockSketch,
  hasChildren: boolean,
): JsonObject {
  return {
    object: 'block',
    id,
    parent,
    created_time: notesTime(page.createdAt),
    last_edited_time: notesTime(page.editedAt),
    created_by: user(page.creatorId),
    last_edited_by: user(page.editorId),
    has_children: hasChildren,
    archived: page.isTrashed,
    in_trash: page.isTrashed,
    type,
    [type]: content,
  };
}

/** A page seen as a block, for pages that no other page shows. */
export function pageAsBlock(page: Page): JsonObject {
  const content = { type: 'child_page', content: { title: page.title }, children: [] };
  return blockRecord(page, page.id, { type: 'workspace', workspace: true }, content, true);
}

/** The id of the block that a synced copy shows; null for every other block. */
export function originalOf(block: JsonObject): string | null {
  const content = block['synced_block'];
  const from = isJsonObject(content) ? content['synced_from'] : null;
  const id = isJsonObject(from) ? from['block_id'] : null;
  return typeof id === 'string' ? id : null;
}
