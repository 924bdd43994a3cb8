import { isJsonObject, type JsonObject, type JsonValue } from '../../core/json.ts';
import { diceFor } from '../dice.ts';
import { textOf } from '../text-of.ts';
import { notesTime } from '../times.ts';
import type { BlockSketch } from './block-content.ts';
import { notesKind, type NotesPlan, type Page } from './notes-plan.ts';
import { pageOutline } from './page-outline.ts';
import { user } from './page-records.ts';

export interface BlockTree {
  readonly blocks: Map<string, JsonObject>;
  /** What stands on every page, and in every block that has blocks in it. */
  readonly childIds: Map<string, readonly string[]>;
}

/** Writes every page's outline out into block records. A few thousand of them at most. */
export function growBlockTree(plan: NotesPlan): BlockTree {
  const tree: BlockTree = { blocks: new Map(), childIds: new Map() };
  for (const page of plan.pages) growPage(plan, page, tree);
  return tree;
}

/** Adds one page's blocks to the tree. */
export function growPage(plan: NotesPlan, page: Page, { blocks, childIds }: BlockTree): void {
  let number = 0;
  const grow = (sketches: readonly BlockSketch[], parent: JsonObject): readonly string[] =>
    sketches.map((sketch) => {
      number += 1;
      const id = sketch.id ?? diceFor(plan.seed, notesKind.block, page.index, number).uuid();
      const hasChildren = sketch.children.length > 0 || sketch.hasChildrenElsewhere === true;
      blocks.set(id, blockRecord(page, id, parent, sketch, hasChildren));
      if (sketch.children.length > 0) {
        childIds.set(id, grow(sketch.children, { type: 'block_id', block_id: id }));
      }
      return id;
    });
  childIds.set(page.id, grow(pageOutline(plan, page), { type: 'page_id', page_id: page.id }));
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

/** A page seen as a block, as it stands where it lies: on another page, or nowhere. */
export function pageAsBlock(
  page: JsonObject,
  parent: JsonObject = { type: 'workspace', workspace: true },
): JsonObject {
  const { id, created_time, last_edited_time, created_by, last_edited_by, archived, in_trash } = page;
  return {
    object: 'block',
    id: id ?? null,
    parent,
    created_time: created_time ?? null,
    last_edited_time: last_edited_time ?? null,
    created_by: created_by ?? null,
    last_edited_by: last_edited_by ?? null,
    has_children: true,
    archived: archived ?? false,
    in_trash: in_trash ?? false,
    type: 'child_page',
    child_page: { title: titleOf(page) },
  };
}

/** The text of the one property that is the title. */
export function titleOf(page: JsonObject): string {
  const properties = page['properties'];
  for (const property of isJsonObject(properties) ? Object.values(properties) : []) {
    const pieces = isJsonObject(property) && property['type'] === 'title' ? property['title'] : null;
    if (!Array.isArray(pieces)) continue;
    return pieces
      .map((piece: JsonValue) => (isJsonObject(piece) ? textOf(piece['plain_text']) : ''))
      .join('');
  }
  return '';
}

/** The id of the block that a synced copy shows; null for every other block. */
export function originalOf(block: JsonObject): string | null {
  const content = block['synced_block'];
  const from = isJsonObject(content) ? content['synced_from'] : null;
  const id = isJsonObject(from) ? from['block_id'] : null;
  return typeof id === 'string' ? id : null;
}
