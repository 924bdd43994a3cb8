import type { JsonObject } from '../../core/json.ts';
import { diceFor } from '../dice.ts';
import { notesTime } from '../times.ts';
import { pageAsBlock } from './block-tree.ts';
import { notesKind } from './notes-plan.ts';
import { hostOf, idsBelow, parentIdOf, withMember, type NotesWork } from './notes-work.ts';
import { user } from './page-records.ts';

/** Who edits at this time, and when: of pages, data sources and blocks. */
export function editedNow(work: NotesWork, at: number): JsonObject {
  const dice = diceFor(work.plan.seed, notesKind.revision, Math.floor(at / 60_000));
  return { last_edited_time: notesTime(at), last_edited_by: user(dice.pick(work.plan.userIds)) };
}

/** Changes a page, or only says that something on it changed. */
export function editPage(work: NotesWork, id: string, at: number, edit: JsonObject = {}): void {
  const page = work.pages.get(id);
  if (page === undefined) return;
  const edited = { ...page, ...edit, ...editedNow(work, at) };
  const properties = edited['properties'];
  const shown = withMember(properties, {});
  const stamp = shown['Last Edited Time'];
  work.pages.set(id, {
    ...edited,
    properties:
      stamp === undefined
        ? shown
        : { ...shown, 'Last Edited Time': withMember(stamp, { last_edited_time: notesTime(at) }) },
  });
}

/** Changes a block, and with it the page that it stands on. */
export function editBlock(work: NotesWork, id: string, at: number, edit: JsonObject = {}): void {
  const block = work.blocks.get(id);
  if (block === undefined) return;
  work.blocks.set(id, { ...block, ...edit, ...editedNow(work, at) });
  editPage(work, hostOf(work, id), at);
}

/** Puts a block on a page or into a block, at this place among what stands there. */
export function placeBlock(work: NotesWork, id: string, parentId: string, place: number, at: number): void {
  const children = work.childIds.get(parentId) ?? [];
  work.childIds.set(parentId, children.toSpliced(place, 0, id));
  if (work.pages.has(parentId)) {
    editBlock(work, id, at, { parent: { type: 'page_id', page_id: parentId } });
    return;
  }
  editBlock(work, id, at, { parent: { type: 'block_id', block_id: parentId } });
  if (children.length === 0) editBlock(work, parentId, at, { has_children: true });
}

/** Takes a block away from where it stands; its record stays, to be placed elsewhere or again. */
export function takeBlock(work: NotesWork, id: string, at: number): void {
  const parentId = parentIdOf(work.blocks.get(id));
  const children = (work.childIds.get(parentId) ?? []).filter((childId) => childId !== id);
  work.childIds.set(parentId, children);
  if (work.pages.has(parentId)) {
    editPage(work, parentId, at);
    return;
  }
  if (children.length > 0) {
    editPage(work, hostOf(work, parentId), at);
    return;
  }
  work.childIds.delete(parentId);
  editBlock(work, parentId, at, { has_children: false });
}

/** Shows a page as the last block of the page that it lies on, if there is one; else at the top of the workspace. */
export function placePage(work: NotesWork, id: string, at: number): void {
  const page = work.pages.get(id);
  const parentId = parentIdOf(page);
  if (page === undefined || parentId === '') return;
  const parent = work.pages.get(parentId);
  if (parent === undefined || parent['in_trash'] === true || work.gone.has(parentId)) {
    editPage(work, id, at, { parent: { type: 'workspace', workspace: true } });
    return;
  }
  work.blocks.set(id, pageAsBlock(page));
  placeBlock(work, id, parentId, work.childIds.get(parentId)?.length ?? 0, at);
}

/** Takes away the block that shows a page on another one, if there is such a block. */
export function unplacePage(work: NotesWork, id: string, at: number): void {
  if (parentIdOf(work.pages.get(id)) !== '') takeBlock(work, id, at);
}

/** Into the trash or out of it, with everything on the page. */
export function setTrashed(work: NotesWork, id: string, at: number, isTrashed: boolean): void {
  editPage(work, id, at, { archived: isTrashed, in_trash: isTrashed, is_archived: isTrashed });
  for (const blockId of idsBelow(work, id)) {
    const block = work.blocks.get(blockId);
    if (block !== undefined) work.blocks.set(blockId, { ...block, archived: isTrashed, in_trash: isTrashed });
  }
}
