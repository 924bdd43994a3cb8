import { isJsonObject, type JsonObject } from '../../core/json.ts';
import { diceFor } from '../dice.ts';
import { textOf } from '../text-of.ts';
import { notesTime } from '../times.ts';
import { editPage } from './edit-work.ts';
import { notesKind } from './notes-plan.ts';
import {
  hostOf,
  lostOf,
  revisionDice,
  shownPages,
  shuffled,
  takeLost,
  type NotesRevision,
  type NotesWork,
} from './notes-work.ts';
import { user } from './page-records.ts';
import { chooseBlock } from './revise-blocks.ts';
import { richText } from './rich-text.ts';

/**
 * Comments are reopened, added (where there are some, where there were none, and on a block), edited and resolved. All of
 * it edits the page that they are on.
 */
export function reviseComments(work: NotesWork, underWay: NotesRevision): void {
  const { revision, clock } = underWay;
  const dice = revisionDice(work, revision, 900);
  const pages = shuffled(shownPages(work), dice);
  const commentsOn = (id: string): number => work.comments.get(id)?.length ?? 0;
  const discussed = pages.find((id) => commentsOn(id) > 1) ?? pages.find((id) => commentsOn(id) > 0);
  const silent = pages.find((id) => commentsOn(id) === 0);

  reopen(work, underWay);
  if (discussed !== undefined) {
    resolveLast(work, revision, discussed, clock.next());
    editFirst(work, revision, discussed, clock.next());
  }
  const block = revision % 2 === 0 ? chooseBlock(work, underWay, dice) : undefined;
  for (const [place, id] of [discussed, silent, block].entries()) {
    if (id !== undefined) addComment(work, revision, place, id, clock.next());
  }
}

function reopen(work: NotesWork, { revision, clock }: NotesRevision): void {
  const shown = new Set(shownPages(work));
  const lost = takeLost(work, 'comment', revision - 1, ({ parentId = '' }) => shown.has(parentId));
  if (lost?.record === undefined || lost.parentId === undefined) return;
  const comments = [...(work.comments.get(lost.parentId) ?? []), lost.record];
  const createdAt = (comment: JsonObject): number => Date.parse(textOf(comment['created_time']));
  comments.sort((left, right) => createdAt(left) - createdAt(right));
  work.comments.set(lost.parentId, comments);
  editPage(work, lost.parentId, clock.next());
}

function addComment(work: NotesWork, revision: number, place: number, id: string, at: number): void {
  const dice = diceFor(work.plan.seed, notesKind.comment, 100_000 + revision, place);
  const comments = work.comments.get(id) ?? [];
  const comment: JsonObject = {
    object: 'comment',
    id: dice.uuid(),
    parent: work.pages.has(id) ? { type: 'page_id', page_id: id } : { type: 'block_id', block_id: id },
    discussion_id: comments[0]?.['discussion_id'] ?? dice.uuid(),
    created_time: notesTime(at),
    last_edited_time: notesTime(at),
    created_by: user(dice.pick(work.plan.userIds)),
    rich_text: richText(`Said in revision ${revision}`),
  };
  work.comments.set(id, [...comments, comment]);
  editPage(work, work.pages.has(id) ? id : hostOf(work, id), at);
}

function editFirst(work: NotesWork, revision: number, id: string, at: number): void {
  const [first, ...others] = work.comments.get(id) ?? [];
  if (!isJsonObject(first)) return;
  const rich_text = richText(`Said better in revision ${revision}`);
  work.comments.set(id, [{ ...first, last_edited_time: notesTime(at), rich_text }, ...others]);
  editPage(work, id, at);
}

function resolveLast(work: NotesWork, revision: number, id: string, at: number): void {
  const comments = work.comments.get(id) ?? [];
  const record = comments.at(-1);
  if (record === undefined) return;
  work.comments.set(id, comments.slice(0, -1));
  lostOf(work, 'comment').push({ revision, id: textOf(record['id']), parentId: id, record });
  editPage(work, id, at);
}
