import { diceFor } from '../dice.ts';
import { dayOf, revisionTime } from '../writing.ts';
import { type NotesWork, planComment, remarks } from './note-records.ts';
import { notesKind, type Page, type Place, planDatabase, planPage, planUser } from './notes-plan.ts';
import { type Block, everydayBlocks, placeBlocks, textBlock } from './page-blocks.ts';
import { richText } from './rich-text.ts';

/** Numbers of what revisions add, which also decide details of their records. */
const firstNewIndex = 1_000;

/** Applies so many revisions, one after the other. Whatever changes on a page edits the page. */
export function reviseNotes(work: NotesWork, revisions: number): void {
  const { userIds, databases } = work.plan;
  const pages = work.plan.pages.filter(({ isTrashed }) => !isTrashed);
  const shared = {
    ...work,
    lost: [],
    databaseCount: databases.length,
    pagesByTurn: [0, 1, 2, 3, 4].map((turn) => pages.filter(({ index }) => index % 5 === turn)),
  };
  for (let revision = 1; revision <= revisions; revision += 1) {
    const editorId = userIds[revision % userIds.length] ?? userIds[0];
    const underWay: UnderWay = { ...shared, revision, at: revisionTime(revision) + 60_000, editorId };
    for (const { since, restore } of underWay.lost) if (since === revision - 2) restore(underWay);
    reviseUsersAndDatabases(underWay);
    revisePlaces(underWay);
    reviseBlocks(underWay);
    moveOneBlock(underWay);
    reviseComments(underWay);
    addPage(underWay);
  }
}

interface UnderWay extends NotesWork {
  readonly revision: number;
  /** When all of it changes: milliseconds since the epoch. */
  readonly at: number;
  readonly editorId: string;
  /** What comes back two revisions after the one that took it away. */
  readonly lost: { readonly since: number; readonly restore: (now: UnderWay) => void }[];
  readonly databaseCount: number;
  /** Pages of the beginning by index modulo five: the first of five lies at the top, the last two lie on it. */
  readonly pagesByTurn: readonly (readonly Page[])[];
}

/** One of the pages whose index has this remainder, in turns. */
function pageInTurn({ pagesByTurn }: UnderWay, remainder: number, turn: number): Page | undefined {
  const pages = pagesByTurn[remainder] ?? [];
  return pages[turn % pages.length];
}

function edit({ at, editorId }: UnderWay, ...things: readonly (Page | Block | undefined)[]): void {
  for (const thing of things) if (thing !== undefined) Object.assign(thing, { editedAt: at, editorId });
}

/** Edits the page that a page lies on, too, if there is one. */
function editWithHost(underWay: UnderWay, page: Page): void {
  const { place } = page;
  const hostId = place.kind === 'page' ? place.parentId : null;
  edit(
    underWay,
    page,
    underWay.plan.pages.find(({ id }) => id === hostId),
  );
}

const cities = ['Berlin', 'Kyiv', 'Łódź', 'Lisbon'];

/** A user and a database are edited; in turns of three, one of each is added, goes and comes back. */
function reviseUsersAndDatabases({ plan, revision, at, databaseCount }: UnderWay): void {
  const { seed, users, userIds, databases } = plan;
  const renamed = users[revision % userIds.length];
  if (renamed !== undefined) renamed.name = `${renamed.name.split(' (')[0]} (${cities[revision % 4]})`;
  const described = databases[revision % databaseCount];
  if (described !== undefined) {
    described.description = `As agreed on ${dayOf(revision)}`;
    described.editedAt = at;
  }
  if (revision % 3 === 1) {
    users.push(planUser(seed, firstNewIndex + 12 * revision));
    databases.push({ ...planDatabase(seed, firstNewIndex + revision, null, at), editedAt: at });
    return;
  }
  for (const user of users.slice(-1)) user.isGone = revision % 3 === 2;
  for (const database of databases.slice(-1)) {
    database.isTrashed = revision % 3 === 2;
    database.editedAt = at;
  }
}

/** In turns of three: one page is put into the trash, one deleted, and one moved. The first two come back. */
function revisePlaces(underWay: UnderWay): void {
  const { revision, lost } = underWay;
  const kind = revision % 3;
  const turn = Math.floor((revision - 1) / 3);
  const page = pageInTurn(underWay, kind === 0 ? 4 : kind + 1, turn);
  if (page === undefined) return;
  if (kind !== 0) {
    const put = (isAway: boolean) => (now: UnderWay) => {
      page[kind === 1 ? 'isTrashed' : 'isDeleted'] = isAway;
      editWithHost(now, page);
    };
    put(true)(underWay);
    lost.push({ since: revision, restore: put(false) });
    return;
  }
  editWithHost(underWay, page);
  const host = pageInTurn(underWay, 0, revision);
  const isThere = page.place.kind === 'page' && page.place.parentId === host?.id;
  page.place = host === undefined || isThere ? { kind: 'workspace' } : { kind: 'page', parentId: host.id };
  editWithHost(underWay, page);
}

const textTypes = new Set([
  'paragraph',
  'bulleted_list_item',
  'numbered_list_item',
  'to_do',
  'toggle',
  'quote',
]);

/** On one page: another title and number, and blocks are added, edited, moved and deleted, which come back. */
function reviseBlocks(underWay: UnderWay): void {
  const { blocks, revision, lost } = underWay;
  const page = pageInTurn(underWay, 1, revision);
  if (page === undefined) return;
  const day = dayOf(revision);
  page.title = `${page.title.split(' – ')[0]} – ${day}`;
  page.effort = 10 + revision / 8;
  edit(underWay, page);
  const own = blocks.get(page.id) ?? [];
  const texts = own.filter(({ type }) => textTypes.has(type));
  const [changed, moved, deleted] = [0, 1, 2].map((place) => texts[(revision + place) % texts.length]);
  if (texts.length > 2 && moved !== undefined && deleted !== undefined) {
    own.push(...own.splice(own.indexOf(moved), 1));
    own.splice(own.indexOf(deleted), 1);
    edit(underWay, moved);
    const restore = (now: UnderWay): void => {
      own.unshift(deleted);
      edit(now, deleted, page);
    };
    lost.push({ since: revision, restore });
  }
  if (changed !== undefined) {
    const rich_text = richText(`Changed on ${day}: see the minutes`);
    changed.content = { ...changed.content, rich_text };
    edit(underWay, changed);
  }
  const sketch = textBlock('bulleted_list_item', `Agreed on ${day}`, [
    textBlock('paragraph', 'By everybody'),
  ]);
  own.push(...placeNew(underWay, page, sketch, 100_000 + revision * 10));
}

function placeNew(
  { plan, at }: UnderWay,
  page: Pick<Page, 'index' | 'creatorId' | 'editorId'>,
  sketch: ReturnType<typeof textBlock>,
  first: number,
): Block[] {
  return placeBlocks(plan, { ...page, createdAt: at, editedAt: at }, [sketch], first);
}

/** One block, with what is in it, goes from page to page. */
function moveOneBlock(underWay: UnderWay): void {
  const { blocks, revision, pagesByTurn } = underWay;
  const [hosts = [], edited = []] = pagesByTurn;
  const pages = [...edited, ...hosts.slice(1)];
  const [from, to] = [revision - 1, revision].map((turn) => pages[turn % pages.length]);
  if (from === undefined || to === undefined) return;
  const task = textBlock('to_do', 'Order the badges', [], { checked: false });
  const made = placeNew(underWay, { ...from, index: firstNewIndex }, textBlock('toggle', 'Later', [task]), 0);
  const own = blocks.get(from.id) ?? [];
  const place = own.findIndex(({ id }) => id === made[0]?.id);
  const [block] = place < 0 ? made : own.splice(place, 1);
  if (block !== undefined) blocks.get(to.id)?.push(block);
  edit(underWay, block, from, to);
}

/** On one page: one is resolved, and reopened later, one edited and one added. */
function reviseComments(underWay: UnderWay): void {
  const { plan, comments, revision, at, lost } = underWay;
  const page = pageInTurn(underWay, 0, revision);
  const own = comments.get(page?.id ?? '');
  if (page === undefined || own === undefined) return;
  const resolved = own.length > 1 ? own.pop() : undefined;
  if (resolved !== undefined) {
    const restore = (now: UnderWay): void => {
      own.push(resolved);
      own.sort((left, right) => left.createdAt - right.createdAt);
      edit(now, page);
    };
    lost.push({ since: revision, restore });
  }
  for (const comment of own.slice(0, 1)) {
    comment.text = `${remarks[revision % remarks.length]} (${dayOf(revision)})`;
    comment.editedAt = at;
  }
  own.push({ ...planComment(plan, page.index * 2, 1_000 + revision, at), editedAt: at });
  edit(underWay, page);
}

/** At the top, on another page or in a database, in turns; with blocks on it. */
function addPage(underWay: UnderWay): void {
  const { plan, blocks, revision, at, databaseCount } = underWay;
  const host = pageInTurn(underWay, 0, revision);
  const database = plan.databases[revision % databaseCount];
  const places: readonly Place[] = [
    { kind: 'workspace' },
    ...(host === undefined ? [] : [{ kind: 'page' as const, parentId: host.id }]),
    ...(database === undefined ? [] : [{ kind: 'database' as const, database }]),
  ];
  const index = firstNewIndex + revision * 5;
  const place = places[revision % places.length] ?? { kind: 'workspace' };
  const page = planPage(plan, index, `Minutes of ${dayOf(revision)}`, place, at);
  plan.pages.push(page);
  blocks.set(
    page.id,
    placeBlocks(plan, page, everydayBlocks(diceFor(plan.seed, notesKind.block, index), 4, 1)),
  );
  editWithHost(underWay, page);
}
