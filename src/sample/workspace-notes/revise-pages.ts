import type { JsonObject } from '../../core/json.ts';
import { growPage, titleOf } from './block-tree.ts';
import { editBlock, editPage, placePage, setTrashed, unplacePage } from './edit-work.ts';
import { diceFor } from '../dice.ts';
import { notesKind, type Page } from './notes-plan.ts';
import {
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
import { pageRecord } from './page-records.ts';
import { richText } from './rich-text.ts';

/** Numbers of pages that come with revisions, which also decide details of their records. */
const firstNewIndex = 1_000;
const mostNewOfRevision = 10;
/** So many pages that may be deleted are left, or no page is. */
const fewestLeft = 3;

/** Pages are restored, brought back, added, edited, moved, put into the trash and deleted: one in a hundred of each. */
export function revisePages(work: NotesWork, underWay: NotesRevision): void {
  const share = Math.max(1, Math.round(shownPages(work).length / 100));
  const each = (act: (work: NotesWork, underWay: NotesRevision) => void): void => {
    for (let count = 0; count < share; count += 1) act(work, underWay);
  };
  each(restore);
  each(bringBack);
  for (let count = 0; count < share; count += 1) addPage(work, underWay, count);
  each(editTitle);
  each(editProperty);
  each(movePage);
  each(trash);
  each(deletePage);
}

/** A page that this revision has not touched, by what may happen to it. */
function choose(
  work: NotesWork,
  { revision, busy }: NotesRevision,
  fits: (page: JsonObject, id: string) => boolean,
): string | undefined {
  const fitting = shownPages(work).filter((id) => {
    const page = work.pages.get(id);
    return !busy.has(id) && page !== undefined && fits(page, id);
  });
  const [chosen] = shuffled(fitting, revisionDice(work, revision, busy.size));
  if (chosen !== undefined) busy.add(chosen);
  return chosen;
}

/** Nothing but its own text stands on it: no other page, database or synced block would miss it. */
function isLeaf(work: NotesWork, id: string): boolean {
  const kept = new Set<unknown>(['child_page', 'child_database', 'synced_block']);
  return idsBelow(work, id).every((blockId) => !kept.has(work.blocks.get(blockId)?.['type']));
}

function restore(work: NotesWork, { revision, clock, busy }: NotesRevision): void {
  const lost = takeLost(work, 'trashed page', revision - 3);
  if (lost === undefined) return;
  busy.add(lost.id);
  const at = clock.next();
  setTrashed(work, lost.id, at, false);
  placePage(work, lost.id, at);
}

function bringBack(work: NotesWork, { revision, clock, busy }: NotesRevision): void {
  const lost = takeLost(work, 'page', revision - 2);
  if (lost === undefined) return;
  busy.add(lost.id);
  const at = clock.next();
  work.gone.delete(lost.id);
  editPage(work, lost.id, at);
  placePage(work, lost.id, at);
}

/** At the top, on another page or in a database, in turns; with blocks on it. */
function addPage(work: NotesWork, { revision, clock, busy }: NotesRevision, count: number): void {
  const { plan } = work;
  const at = clock.next();
  const index = firstNewIndex + revision * mostNewOfRevision + count;
  const id = diceFor(plan.seed, notesKind.page, index).uuid();
  const dice = revisionDice(work, revision, index);
  const [parentId] = shuffled(
    shownPages(work).filter((candidate) => !busy.has(candidate)),
    dice,
  );
  const database = plan.databases[revision % plan.databases.length];
  const places: readonly Page['place'][] = [
    { kind: 'workspace' },
    ...(parentId === undefined ? [] : [{ kind: 'page' as const, parentIndex: -1, parentId }]),
    ...(database === undefined ? [] : [{ kind: 'database' as const, database }]),
  ];
  const page: Page = {
    index,
    id,
    title: `Written in revision ${revision}`,
    place: places[(revision + count) % places.length] ?? { kind: 'workspace' },
    createdAt: at,
    editedAt: at,
    creatorId: dice.pick(plan.userIds),
    editorId: dice.pick(plan.userIds),
    isTrashed: false,
  };
  busy.add(id);
  work.pages.set(id, pageRecord(plan, page));
  growPage(plan, page, work);
  placePage(work, id, at);
}

/** A page on another one shows its title there too, which changes that page with it. */
function editTitle(work: NotesWork, underWay: NotesRevision): void {
  const id = choose(work, underWay, () => true);
  const page = work.pages.get(id ?? '');
  if (id === undefined || page === undefined) return;
  const at = underWay.clock.next();
  const [before = ''] = titleOf(page).split(' (edited');
  const title = `${before} (edited ${underWay.revision})`.trim();
  const properties = withMember(page['properties'], {});
  const name = properties['Name'] === undefined ? 'title' : 'Name';
  const edited = { ...properties, [name]: withMember(properties[name], { title: richText(title) }) };
  editPage(work, id, at, { properties: edited });
  if (parentIdOf(page) !== '') editBlock(work, id, at, { child_page: { title } });
}

function editProperty(work: NotesWork, underWay: NotesRevision): void {
  const hasEffort = ({ properties }: JsonObject): boolean =>
    withMember(properties, {})['Effort'] !== undefined;
  const id = choose(work, underWay, hasEffort);
  const page = work.pages.get(id ?? '');
  if (id === undefined || page === undefined) return;
  const properties = withMember(page['properties'], {});
  const effort = withMember(properties['Effort'], { number: 1_000 + underWay.revision });
  editPage(work, id, underWay.clock.next(), { properties: { ...properties, Effort: effort } });
}

/** To another page, or, every second revision, from a page to the top of the workspace if one lies so. */
function movePage(work: NotesWork, underWay: NotesRevision): void {
  const isUp =
    underWay.revision % 2 === 0 &&
    shownPages(work).some((id) => parentIdOf(work.pages.get(id)) !== '' && isLeaf(work, id));
  const id = choose(work, underWay, (page, candidate) => {
    if (!isLeaf(work, candidate)) return false;
    return isUp ? parentIdOf(page) !== '' : withMember(page['parent'], {})['type'] !== 'data_source_id';
  });
  const page = work.pages.get(id ?? '');
  if (id === undefined || page === undefined) return;
  const target = isUp
    ? undefined
    : choose(work, underWay, (_page, candidate) => candidate !== parentIdOf(page));
  if (!isUp && target === undefined) return;
  const at = underWay.clock.next();
  unplacePage(work, id, at);
  const parent =
    target === undefined ? { type: 'workspace', workspace: true } : { type: 'page_id', page_id: target };
  editPage(work, id, at, { parent });
  placePage(work, id, at);
}

function chooseToLose(work: NotesWork, underWay: NotesRevision): string | undefined {
  const leaves = shownPages(work).filter((id) => isLeaf(work, id));
  if (leaves.length <= fewestLeft) return undefined;
  return choose(work, underWay, (_page, id) => isLeaf(work, id));
}

function trash(work: NotesWork, underWay: NotesRevision): void {
  const id = chooseToLose(work, underWay);
  if (id === undefined) return;
  const at = underWay.clock.next();
  unplacePage(work, id, at);
  setTrashed(work, id, at, true);
  lostOf(work, 'trashed page').push({ revision: underWay.revision, id });
}

function deletePage(work: NotesWork, underWay: NotesRevision): void {
  const id = chooseToLose(work, underWay);
  if (id === undefined) return;
  unplacePage(work, id, underWay.clock.next());
  work.gone.add(id);
  lostOf(work, 'page').push({ revision: underWay.revision, id });
}
