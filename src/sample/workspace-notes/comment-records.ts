import type { JsonObject } from '../../core/json.ts';
import { diceFor } from '../dice.ts';
import { notesTime } from '../times.ts';
import type { BlockTree } from './block-tree.ts';
import { notesKind, type NotesPlan, type Page } from './notes-plan.ts';
import { user } from './page-records.ts';
import { richText } from './rich-text.ts';

/** Every fourth page is talked about, one of them (in `small`) more than fits into one page of a listing. */
function commentCount(plan: NotesPlan, page: Page): number {
  if (plan.size === 'small' && page.index === 8) return 130;
  return page.index % 4 === 0 ? 1 + (page.index % 3) : 0;
}

/** Open comments by the page or block they are on, oldest first. */
export function commentsById(plan: NotesPlan, tree: BlockTree): ReadonlyMap<string, readonly JsonObject[]> {
  const byId = new Map<string, readonly JsonObject[]>();
  for (const page of plan.pages) {
    const count = commentCount(plan, page);
    if (count > 0) byId.set(page.id, comments(plan, page, { type: 'page_id', page_id: page.id }, count, 0));
    // One block of such a page, too: those are listed for the block's id only.
    const isParagraph = (id: string): boolean => tree.blocks.get(id)?.['type'] === 'paragraph';
    const blockId = count > 0 ? tree.childIds.get(page.id)?.find(isParagraph) : undefined;
    if (blockId !== undefined) {
      byId.set(blockId, comments(plan, page, { type: 'block_id', block_id: blockId }, 2, 1));
    }
  }
  return byId;
}

const remarks = [
  'Single comment',
  'Sollten wir das nicht löschen?',
  '👍',
  'Согласна',
  '確認しました',
] as const;

function comments(
  plan: NotesPlan,
  page: Page,
  parent: JsonObject,
  count: number,
  place: number,
): readonly JsonObject[] {
  const discussion = page.index * 2 + place;
  const discussionId = diceFor(plan.seed, notesKind.comment, discussion).uuid();
  return Array.from({ length: count }, (_, position) => {
    const dice = diceFor(plan.seed, notesKind.comment, discussion, position + 1);
    const createdAt = page.createdAt + position * 11 * 60_000;
    return {
      object: 'comment',
      id: dice.uuid(),
      parent,
      discussion_id: discussionId,
      created_time: notesTime(createdAt),
      last_edited_time: notesTime(createdAt + dice.below(200) * 60_000),
      created_by: user(dice.pick(plan.userIds)),
      rich_text: richText(dice.pick(remarks)),
    };
  });
}
