import { randomUUID } from 'node:crypto';
import { isJsonObject, type JsonObject, type JsonValue } from '../core/json.ts';
import type { Params } from '../core/records.ts';
import { notFound } from '../service/api-error.ts';
import { accountOf, computedListing, firstAdded, remembered, Things } from './sample-account.ts';
import type { Listing, SampleAccount, SampleSize, Thing } from './sample-account.ts';
import { dayMs, dayOf, Dice, diceFor, personAt, readSample, textOf } from './sample-values.ts';

const sample = readSample('workspace-notes');
const [sentences, textTypes] = [sample.texts('sentences'), sample.texts('types')];

/** The workspace behind a workspace-notes connector. */
export function openNotesAccount(seed: number, size: SampleSize, revision: number): SampleAccount {
  const notes = makeWorkspace(seed, size === 'small' ? 'small' : 'tiny', revision);
  const named = (kind: string, id: JsonValue | undefined): Thing | undefined => notes.named(kind, toId(id));
  // Blocks are met again and again on a walk.
  const record = remembered((thing: Thing) => toRecord(notes, thing));
  const listed = (things: readonly Thing[]): Listing => computedListing(things, record);
  const found = (kind: string, id: JsonValue | undefined): JsonObject | undefined => {
    const thing = named(kind, id);
    return thing && record(thing);
  };
  // Both are one search of the third party: the filter alone decides which kind comes back.
  const search = (params: Params): Listing => listed(searched(notes, params));
  /** Throws 404 where there is no such page or block. */
  const parentIn = ({ block_id: id }: Params): Thing => {
    const thing = named('pages', id) ?? named('blocks', id);
    if (thing !== undefined) return thing;
    const advice = 'Make sure the relevant pages and databases are shared with your integration.';
    throw notFound(`Could not find block with ID: ${toId(id).slice(0, 40)}. ${advice}`);
  };
  const account = accountOf(
    Object.entries({
      users: { list: () => listed(notes.of('users')), get: ({ user_id: id }) => found('users', id) },
      pages: { list: search, get: ({ page_id: id }) => found('pages', id) },
      data_sources: { list: search, get: ({ data_source_id: id }) => found('data_sources', id) },
      blocks: {
        list: (params) => {
          const shown = childrenOf(notes, parentIn(params));
          return computedListing(shown, (one) => (one.kind === 'blocks' ? record(one) : asBlock(notes, one)));
        },
        get: ({ block_id: id }) => found('blocks', id) ?? hostedNamed(notes, toId(id)),
      },
      comments: {
        list: (params) => listed(notes.of('comments', parentIn(params))),
        get: ({ comment_id: id }) => found('comments', id),
      },
    }),
  );
  return {
    ...account,
    get(entity, params) {
      const answer = account.get(entity, params);
      // Another one in every answer, as in the live service: nothing to tell records apart by.
      return answer === null ? null : { ...answer, request_id: randomUUID() };
    },
  };
}

/** Ids are taken with and without dashes, in any case. */
function toId(value: JsonValue | undefined): string {
  const hex = textOf(value).replaceAll('-', '').toLowerCase();
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join('-');
}

/** Newest edit first unless `sort` says otherwise; trashed pages and data sources are not found. */
function searched(notes: Things, { filter, sort }: Params): readonly Thing[] {
  const wanted = isJsonObject(filter) ? filter['value'] : undefined;
  const sign = isJsonObject(sort) && sort['direction'] === 'ascending' ? 1 : -1;
  const minute = ({ editedAt }: Thing): number => Math.floor(editedAt / minuteMs);
  return [
    ...(wanted === 'data_source' ? [] : notes.of('pages')),
    ...(wanted === 'page' ? [] : notes.of('data_sources')),
  ]
    .filter((thing) => !isTrashed(thing))
    .sort((left, right) => sign * (minute(left) - minute(right)));
}

/** The list of a page or block, top to bottom: blocks, then the pages and databases on it. */
function childrenOf(notes: Things, thing: Thing): readonly Thing[] {
  // A copy shows the original's children: the same ids, whose parent is the original.
  if (isCopy(thing)) {
    const original = notes.named('blocks', thing.text);
    return original === undefined ? [] : childrenOf(notes, original);
  }
  const pages = notes.of('pages', thing).filter((page) => !isTrashed(page));
  return [...notes.of('blocks', thing), ...pages, ...notes.of('data_sources', thing)];
}

/** A page, or a database on one, as a block. */
function hostedNamed(notes: Things, id: string): JsonObject | undefined {
  const hosted = notes.of('data_sources').filter(({ parent }) => parent !== null);
  const shown = notes.named('pages', id) ?? hosted.find((database) => databaseId(notes, database) === id);
  return shown && asBlock(notes, shown);
}

function isTrashed({ away, parent }: Thing): boolean {
  return away === 'trashed' || (parent !== null && isTrashed(parent));
}

const minuteMs = 60_000;

/** Rounded down to the minute: `2021-10-19T13:33:00.000Z`. */
export function notesTime(ms: number): string {
  return `${new Date(ms).toISOString().slice(0, 16)}:00.000Z`;
}

function databaseId(notes: Things, database: Thing): string {
  return notes.dice(database, 1).uuid();
}

function toRecord(notes: Things, thing: Thing): JsonObject {
  const { kind, index, type = '' } = thing;
  const values = valuesOf(notes, thing);
  const template = kind === 'users' && isBot(index) ? 'bots' : kind;
  const record = sample.template(template, values, notes.dice(thing, 1));
  if (kind !== 'blocks') return record;
  const has_children = isCopy(thing) || notes.of('blocks', thing).length > 0;
  return { ...record, has_children, type, [type]: sample.template(type, values, notes.dice(thing, 1)) };
}

/** A page or database as a block of the page that it lies on. Nothing that happens in a database changes the block. */
function asBlock(notes: Things, thing: Thing): JsonObject {
  const values = valuesOf(notes, thing);
  const isPage = thing.kind === 'pages';
  const shown = isPage
    ? values
    : { ...values, id: values.database, edited: values.created, editor: values.creator };
  const type = isPage ? 'child_page' : 'child_database';
  const block = sample.template('blocks', shown, notes.dice(thing, 1));
  return { ...block, has_children: true, type, [type]: { title: thing.text } };
}

/** Values of the names in the templates. */
function valuesOf(notes: Things, thing: Thing) {
  const { id, index, kind, text, createdAt, editedAt, editedIn, parent } = thing;
  const dice = notes.dice(thing, 2);
  const url = `https://files.example.test/${id}/file.png?signature=5f6e7d8c`;
  const file = { url, expiry_time: '2024-03-01T10:00:00.000Z' };
  const bare = id.replaceAll('-', '');
  const created = notesTime(createdAt);
  const description =
    editedIn === 0 ? (index === 2 ? 'Wer, was, bis wann' : '') : `As agreed on ${dayOf(editedIn)}`;
  const values = {
    id,
    text,
    bare,
    plain,
    rich: richText(text),
    created,
    edited: notesTime(editedAt),
    file,
    odd: index % 2 === 1,
    locked: index % 11 === 4,
    trashed: isTrashed(thing),
    parent: parentOf(notes, parent),
    creator: personOf(notes, dice),
    editor: personOf(notes, notes.dice(thing, 3 + editedIn)),
    database: databaseId(notes, thing),
    second: notes.idOf('pages', 1),
    description: richText(description),
    original: text === '' ? null : { type: 'block_id', block_id: text },
    slug: (text.match(/[A-Za-z0-9]+/g) ?? []).map((word) => `${word}-`).join(''),
    cover: index % 6 === 1 ? { type: 'file', file } : null,
    icon: index % 4 === 1 ? { type: 'emoji', emoji: '📌' } : index % 7 === 2 ? { type: 'file', file } : null,
    link: index === 1 ? { type: 'external', external: { url: 'https://cdn.example.test/cover.png' } } : null,
    public: index % 9 === 8 ? `https://public.example.test/${bare}` : null,
    discussion: parent === null ? null : notes.dice(parent, 1).uuid(),
    attachments: id.startsWith('1') ? [{ category: 'image', file }] : undefined,
    avatar: index % 3 === 1 ? null : `https://static.example.test/${6246757 + index}.png`,
    email: index === 2 ? undefined : personAt(notes.seed, 5e6 + index).email,
  };
  const option = optionOf(parent, index % 4);
  const properties =
    kind === 'data_sources'
      ? schemasOf(thing)
      : parent?.kind === 'data_sources'
        ? sample.template('properties', { ...values, option }, notes.dice(thing, 1))
        : { title: { id: 'title', type: 'title', title: values.rich } };
  return { ...values, properties };
}

/** Databases ask all their pages for the same properties. */
function schemasOf(database: Thing): JsonObject {
  const options = [0, 1, 2, 3].map((place) => optionOf(database, place));
  const choice = { options };
  const settings: JsonObject = { select: choice, multi_select: choice, number: { format: 'number' } };
  return Object.fromEntries(
    Object.entries(sample.template('properties', {}, new Dice(0))).map(([name, property]) => {
      const { id = null, type = '' } = isJsonObject(property) ? property : {};
      const kind = textOf(type);
      return [name, { id, name, type: kind, [kind]: settings[kind] ?? {} }];
    }),
  );
}

function optionOf(database: Thing | null, place: number): JsonObject {
  const [name = '', color = ''] = sample.texts('options')[place]?.split(' ') ?? [];
  return { id: `${database?.id.slice(0, -1)}${place}`, name, color };
}

/** One of those who were there from the beginning: they write everything. */
function personOf(notes: Things, dice: Dice): JsonObject {
  return { object: 'user', id: notes.idOf('users', dice.below(shapes.tiny.users)) };
}

function isBot(index: number): boolean {
  return index % 12 === 3;
}

function parentOf(notes: Things, parent: Thing | null): JsonObject {
  if (parent === null) return { type: 'workspace', workspace: true };
  const { kind, id } = parent;
  if (kind === 'pages') return { type: 'page_id', page_id: id };
  if (kind === 'blocks') return { type: 'block_id', block_id: id };
  return { type: 'data_source_id', data_source_id: id, database_id: databaseId(notes, parent) };
}

const styles = { bold: false, italic: false, strikethrough: false, underline: false, code: false };
const plain = { ...styles, color: 'default' };

/** A text as the notes service writes it: an array of pieces. An empty text is an empty array. */
function richText(content: string): readonly JsonObject[] {
  const piece = { type: 'text', text: { content, link: null }, annotations: plain };
  return content === '' ? [] : [{ ...piece, plain_text: content, href: null }];
}

/** A synced copy: the children of the original, whose id its text is, are its own. */
function isCopy({ type, text }: Thing): boolean {
  return type === 'synced_block' && text !== '';
}

/** Lines of blocks as people leave them: texts, and lists with lists in them. See `addBlocks`. */
function everydayLines(dice: Dice, count: number, maxDepth: number): readonly string[] {
  let depth = 0;
  return Array.from({ length: count }, (_, line) => {
    depth = line > 0 && dice.chance(10) ? Math.min(depth + 1, maxDepth) : dice.below(depth + 1);
    const [type, text] = [textTypes, sentences].map((texts) => texts[dice.below(texts.length)]);
    return `${' '.repeat(depth)}${type} ${text}`;
  });
}

/** Adds a block for each line: as many spaces as it lies deep, its type, and its text. */
function addBlocks(notes: Things, page: Thing, lines: readonly string[], first: number): void {
  const { createdAt, editedAt } = page;
  const above: Thing[] = [];
  for (const [place, line] of lines.entries()) {
    const [, spaces = '', type = '', text = ''] = /^( *)(\S+) ?(.*)$/.exec(line) ?? [];
    const parent = above[spaces.length - 1] ?? page;
    const block = { kind: 'blocks', index: first + place, type, text, parent, createdAt, editedAt };
    above[spaces.length] = notes.add(block);
  }
}

const shapes = {
  small: { users: 25, databases: 5, pages: 120 },
  tiny: { users: 4, databases: 1, pages: 6 },
} as const;
/** In `small`: a page with more blocks than two pages of a listing hold, and one with as many comments. */
const long = { page: 2, blocks: 230, comments: 130, commented: 8 };
const notesStart = Date.UTC(2021, 9, 19, 13, 33, 0);

function makeWorkspace(seed: number, size: keyof typeof shapes, revision: number): Things {
  const notes = new Things(seed, sample, (_, dice) => dice.uuid(), ['pages', 'blocks']);
  const shape = shapes[size];
  for (let index = 0; index < shape.users; index += 1) addUser(notes, index);
  const databases = notes.fill('data_sources', shape.databases, (index) => ({
    createdAt: notesStart + index * dayMs,
  }));
  for (let index = 0; index < shape.pages; index += 1) {
    // One of five pages lies at the top, two lie in a database, and two below the first.
    const [turn, database] = [index % 5, databases[Math.floor(index / 5) % databases.length]];
    const parent = (turn === 0 ? null : turn > 2 ? notes.first('pages')[index - turn] : database) ?? null;
    // Every tenth page was edited in the same minute as the one before it.
    const source = index % 10 === 9 ? index - 1 : index;
    const createdAt = notesStart + source * 173 * minuteMs;
    const editedAt = createdAt + diceFor(seed, source).below(700 * 24 * 60) * minuteMs;
    const page = notes.add({ kind: 'pages', index, parent, createdAt, editedAt });
    addBlocks(notes, page, linesOf(notes, index, size), index * 300);
    if (index % 4 === 0) addComments(notes, page, size);
  }
  // Every other database stands on a page.
  for (const database of databases) {
    if (database.index % 2 === 0) notes.move(database, notes.first('pages')[database.index * 5] ?? null);
  }
  notes.play(revision, reviseNotes);
  return notes;
}

function addUser(notes: Things, index: number): void {
  const text = isBot(index)
    ? sample.textAt('bots', Math.floor(index / 12))
    : personAt(notes.seed, 5_000_000 + index).name;
  notes.add({ kind: 'users', index, text });
}

/** The lines of a page before all revisions; see `addBlocks`. */
function linesOf(notes: Things, index: number, size: keyof typeof shapes): readonly string[] {
  const copy = `synced_block ${notes.idOf('blocks', 0)}`;
  const dice = diceFor(notes.seed, index, 1);
  const lines = size === 'small' ? everydayLines(dice, 3 + dice.below(12), 3) : everydayLines(dice, 3, 1);
  switch (index) {
    case 0:
      return [...sample.texts('showcase'), copy];
    case 4:
      return [];
    case 5:
      return [...lines, copy];
    case long.page:
      if (size === 'tiny') return lines;
      return Array.from({ length: long.blocks }, (_, at) => `paragraph ${at + 1}. ${sentences[at % 5]}`);
    default:
      return lines;
  }
}

/** Comments on a page, and on its first paragraph: those are listed for the block's id only. */
function addComments(notes: Things, page: Thing, size: keyof typeof shapes): void {
  const { index, createdAt } = page;
  const count = size === 'small' && index === long.commented ? long.comments : 1 + (index % 3);
  const paragraphs = notes.of('blocks', page).filter(({ type }) => type === 'paragraph');
  const first = paragraphs.slice(0, 1);
  const hosts = [...Array.from({ length: count }, () => page), ...first, ...first];
  for (const [place, parent] of hosts.entries()) {
    const text = remarkAt(index + place);
    const minutes = createdAt + place * 11 * minuteMs;
    notes.add({ kind: 'comments', index: index * 300 + place, text, parent, createdAt: minutes });
  }
}

function remarkAt(index: number): string {
  const remarks = sample.texts('comments');
  return remarks[index % remarks.length] ?? '';
}

/** One of the pages of the beginning with these places among five, in turns. */
function pageInTurn(notes: Things, ...places: readonly number[]): Thing | undefined {
  return notes.turn('pages', 0, ({ index }) => places.includes(index % 5));
}

/**
 * Every revision edits a user and a database, adds a page, and puts one into the trash, deletes or moves one. On
 * another page it edits, moves, adds and deletes blocks, and on a third comments; one list goes from page to page.
 */
function reviseNotes(notes: Things): void {
  const { revision } = notes;
  notes.rename(notes.turn('users'));
  notes.comeAndGo('users', () => addUser(notes, firstAdded + revision * 12));
  notes.edit(notes.turn('data_sources'));
  notes.comeAndGo('data_sources', () => notes.addNew('data_sources', null), 'trashed');
  if (revision % 3 === 1) notes.take(pageInTurn(notes, 2), 2, 'trashed');
  if (revision % 3 === 2) notes.take(pageInTurn(notes, 3));
  if (revision % 3 === 0) notes.move(pageInTurn(notes, 4), revision % 2 === 0 ? null : pageInTurn(notes, 0));
  const places = [null, pageInTurn(notes, 0), notes.turn('data_sources')];
  const page = notes.addNew('pages', places[revision % 3] ?? null, `Minutes of ${notes.day}`);
  addBlocks(notes, page, everydayLines(notes.dice(page, 1), 4, 1), firstAdded + revision * 10);
  reviseBlocks(notes, pageInTurn(notes, 1));
  reviseComments(notes, pageInTurn(notes, 0));
  const agenda = notes.of('blocks').find(({ index }) => index === agendaIndex);
  const nextPage = notes.turn('pages', 3, ({ index }) => index % 5 < 2 && index > 0);
  if (agenda !== undefined) notes.move(agenda, nextPage);
  else if (nextPage !== undefined) {
    addBlocks(notes, nextPage, ['toggle For the next meeting', ' to_do Order the badges'], agendaIndex);
  }
}

/** The list that goes from page to page: nothing else happens to it, so that it is there once. */
const agendaIndex = 90_000;

function reviseBlocks(notes: Things, page: Thing | undefined): void {
  if (page === undefined) return;
  const { revision } = notes;
  notes.edit(page, `${page.text.split(' – ')[0]} – ${notes.day}`);
  const texts = notes
    .of('blocks', page)
    .filter(({ type = '', index }) => textTypes.includes(type) && index !== agendaIndex);
  const [edited, moved, deleted] = [0, 1, 2].map((place) => texts[(revision + place) % texts.length]);
  if (texts.length > 2) {
    notes.move(moved, page);
    notes.take(deleted);
  }
  notes.edit(edited, `Changed on ${notes.day}: see the minutes`);
  addBlocks(
    notes,
    page,
    [`bulleted_list_item Agreed on ${notes.day}`, ' paragraph By everybody'],
    firstAdded + revision * 10 + 5,
  );
}

/** One comment is resolved, and reopened later, one edited and one added. */
function reviseComments(notes: Things, page: Thing | undefined): void {
  if (page === undefined) return;
  const [first, ...others] = notes.of('comments', page);
  notes.take(others.at(-1));
  notes.edit(first, `Changed on ${notes.day}`);
  notes.addNew('comments', page, remarkAt(notes.revision));
}
