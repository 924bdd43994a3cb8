import { diceFor, type Dice } from '../dice.ts';
import { notesTime } from '../times.ts';
import { textBlock } from './block-content.ts';
import { editBlock, editPage, placeBlock, takeBlock } from './edit-work.ts';
import { notesKind } from './notes-plan.ts';
import {
  hostOf,
  idsBelow,
  lostOf,
  parentIdOf,
  revisionDice,
  shownPages,
  shuffled,
  takeLost,
  withMember,
  type NotesRevision,
  type NotesWork,
} from './notes-work.ts';
import { user } from './page-records.ts';
import { richText } from './rich-text.ts';

/** Blocks of text: the others hold together what a copy, a table or a page elsewhere needs. */
const textTypes = new Set<unknown>([
  'paragraph',
  'bulleted_list_item',
  'numbered_list_item',
  'to_do',
  'toggle',
  'quote',
]);

/**
 * Blocks are brought back, added, edited, deleted with what is in them, and moved: each at least once, and with what
 * stands below or after them about one in a hundred in all.
 */
export function reviseBlocks(work: NotesWork, underWay: NotesRevision): void {
  const { revision } = underWay;
  const dice = revisionDice(work, revision, 500);
  const blocks = shownPages(work).flatMap((id) => idsBelow(work, id)).length;
  const share = Math.max(1, Math.round(blocks / 1_000));
  for (let count = 0; count < share; count += 1) {
    bringBlockBack(work, underWay);
    addBlock(work, underWay, dice, count);
    editText(work, underWay, dice);
    deleteBlock(work, underWay, dice);
    moveOnPage(work, underWay, dice);
    moveToOtherPage(work, underWay, dice);
  }
}

/** A block of text on a shown page, which this revision has not touched. Long pages are not touched more than others. */
export function chooseBlock(
  work: NotesWork,
  { busy }: NotesRevision,
  dice: Dice,
  fits: (id: string) => boolean = () => true,
): string | undefined {
  for (const page of shuffled(shownPages(work), dice)) {
    const free = idsBelow(work, page).filter((id) => !busy.has(id) && isOrdinary(work, id) && fits(id));
    const chosen = free[dice.below(free.length)];
    if (chosen === undefined) continue;
    busy.add(chosen);
    return chosen;
  }
  return undefined;
}

function isOrdinary(work: NotesWork, id: string): boolean {
  const block = work.blocks.get(id);
  const parentId = parentIdOf(block);
  if (!textTypes.has(block?.['type'])) return false;
  return work.pages.has(parentId) || textTypes.has(work.blocks.get(parentId)?.['type']);
}

function bringBlockBack(work: NotesWork, { revision, clock, busy }: NotesRevision): void {
  const shown = new Set(shownPages(work));
  const lost = takeLost(work, 'block', revision - 1, ({ parentId = '' }) => shown.has(parentId));
  if (lost === undefined) return;
  busy.add(lost.id);
  placeBlock(work, lost.id, lost.parentId ?? '', 0, clock.next());
}

/** On a page, or every second time in a block that had none in it. */
function addBlock(work: NotesWork, underWay: NotesRevision, dice: Dice, count: number): void {
  const { revision, clock, busy } = underWay;
  const isNested = (revision + count) % 2 === 0;
  const parentId = isNested
    ? chooseBlock(work, underWay, dice, (id) => !work.childIds.has(id))
    : shuffled(shownPages(work), dice)[0];
  if (parentId === undefined) return;
  const at = clock.next();
  const id = diceFor(work.plan.seed, notesKind.block, 100_000 + revision, count).uuid();
  const { type, content } = textBlock('paragraph', `Added in revision ${revision}`);
  const author = user(dice.pick(work.plan.userIds));
  busy.add(id);
  work.blocks.set(id, {
    object: 'block',
    id,
    parent: null,
    created_time: notesTime(at),
    last_edited_time: notesTime(at),
    created_by: author,
    last_edited_by: author,
    has_children: false,
    archived: false,
    in_trash: false,
    type,
    [type]: content,
  });
  placeBlock(work, id, parentId, dice.below((work.childIds.get(parentId)?.length ?? 0) + 1), at);
}

function editText(work: NotesWork, underWay: NotesRevision, dice: Dice): void {
  const id = chooseBlock(work, underWay, dice);
  const type = work.blocks.get(id ?? '')?.['type'];
  if (id === undefined || typeof type !== 'string') return;
  const text = `Rewritten in revision ${underWay.revision}`;
  const content = withMember(work.blocks.get(id)?.[type], { rich_text: richText(text) });
  editBlock(work, id, underWay.clock.next(), { [type]: content });
}

/** With everything in it. If it stood on a page, and not in a block, it comes back there. */
function deleteBlock(work: NotesWork, underWay: NotesRevision, dice: Dice): void {
  const id = chooseBlock(work, underWay, dice);
  if (id === undefined) return;
  const parentId = parentIdOf(work.blocks.get(id));
  takeBlock(work, id, underWay.clock.next());
  lostOf(work, 'block').push({ revision: underWay.revision, id, parentId });
}

function moveOnPage(work: NotesWork, underWay: NotesRevision, dice: Dice): void {
  const siblings = (id: string): readonly string[] =>
    work.childIds.get(parentIdOf(work.blocks.get(id))) ?? [];
  const id = chooseBlock(work, underWay, dice, (candidate) => siblings(candidate).length > 2);
  if (id === undefined) return;
  const others = siblings(id);
  const place = (others.indexOf(id) + 1 + dice.below(others.length - 1)) % others.length;
  const parentId = parentIdOf(work.blocks.get(id));
  work.childIds.set(parentId, others.filter((other) => other !== id).toSpliced(place, 0, id));
  editBlock(work, id, underWay.clock.next());
}

/** With everything in it; both pages are edited by that. */
function moveToOtherPage(work: NotesWork, underWay: NotesRevision, dice: Dice): void {
  const id = chooseBlock(work, underWay, dice);
  if (id === undefined) return;
  const host = hostOf(work, id);
  const [target] = shuffled(
    shownPages(work).filter((page) => page !== host),
    dice,
  );
  if (target === undefined) return;
  const at = underWay.clock.next();
  takeBlock(work, id, at);
  placeBlock(work, id, target, dice.below((work.childIds.get(target)?.length ?? 0) + 1), at);
  editPage(work, host, at);
}
