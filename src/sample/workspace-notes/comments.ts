import { diceFor } from '../dice.ts';
import { notesKind, type NotesPlan, type Page } from './notes-plan.ts';
import type { Block } from './page-blocks.ts';

/** An open comment. Revisions change it in place. */
export interface Comment {
  readonly id: string;
  readonly discussionId: string;
  readonly createdAt: number;
  editedAt: number;
  readonly authorId: string;
  text: string;
}

export const remarks = [
  'Single comment',
  'Sollten wir das nicht löschen?',
  '👍',
  'Согласна',
  '確認しました',
] as const;

/** Every fourth page is talked about, one of them (in `small`) more than fits into one page of a listing. */
export function commentsOnPage(plan: NotesPlan, { index, createdAt }: Page): Comment[] {
  const isLong = plan.size === 'small' && index === 8;
  const count = isLong ? 130 : index % 4 === 0 ? 1 + (index % 3) : 0;
  return Array.from({ length: count }, (_, position) =>
    planComment(plan, index * 2, position, createdAt + position * 11 * 60_000),
  );
}

/** The block of such a page that is talked about, too: those comments are listed for the block's id only. */
export function discussedBlock({ index }: Page, blocks: readonly Block[]): Block | undefined {
  return index % 4 === 0 ? blocks.find(({ type }) => type === 'paragraph') : undefined;
}

export function commentsOnBlock(plan: NotesPlan, { index, createdAt }: Page): Comment[] {
  return [0, 1].map((position) =>
    planComment(plan, index * 2 + 1, position, createdAt + position * 11 * 60_000),
  );
}

export function planComment(
  { seed, userIds }: NotesPlan,
  discussion: number,
  position: number,
  createdAt: number,
): Comment {
  const dice = diceFor(seed, notesKind.comment, discussion, position + 1);
  return {
    id: dice.uuid(),
    discussionId: diceFor(seed, notesKind.comment, discussion).uuid(),
    createdAt,
    editedAt: createdAt + dice.below(200) * 60_000,
    authorId: dice.pick(userIds),
    text: dice.pick(remarks),
  };
}
