import { randomUUID } from 'node:crypto';
import { isJsonObject, type JsonObject, type JsonValue } from '../core/json.ts';
import type { Params } from '../core/records.ts';
import { notFound } from '../service/api-error.ts';
import { accountOf, computedListing, firstAdded, remembered, Things } from './sample-account.ts';
import type { Listing, SampleAccount, SampleSize, Thing } from './sample-account.ts';
import { dayMs, dayOf, Dice, diceFor, personAt, templatesOf, textOf, titleAt } from './sample-values.ts';

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
  const account = accountOf({
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
  });
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

const template = templatesOf(`
users: { object: user, id: $id, name: $text, avatar_url: $avatar, type: person, person: { email: $email } }
bots: { object: user, id: $id, name: $text, avatar_url: $avatar, type: bot,
  bot: { owner: { type: workspace, workspace: true }, workspace_name: Example workspace } }
pages: { object: page, id: $id, created_time: $created, last_edited_time: $edited, created_by: $creator,
  last_edited_by: $editor, cover: $cover, icon: $icon, parent: $parent, archived: $trashed, in_trash: $trashed,
  is_archived: $trashed, is_locked: $locked, properties: $properties, public_url: $public,
  url: "https://notes.example.test/$slug$bare" }
data_sources: { object: data_source, id: $id, created_time: $created, last_edited_time: $edited, created_by: $creator,
  last_edited_by: $editor, title: $rich, description: $description, icon: { type: emoji, emoji: ✏️ }, cover: $link,
  is_inline: $odd,
  parent: { type: database_id, database_id: $database }, database_parent: $parent, properties: $properties,
  url: "https://notes.example.test/$bare", public_url: null, archived: $trashed, in_trash: $trashed,
  is_archived: $trashed, is_locked: $locked }
blocks: { object: block, id: $id, parent: $parent, created_time: $created, last_edited_time: $edited,
  created_by: $creator, last_edited_by: $editor, archived: $trashed, in_trash: $trashed }
comments: { object: comment, id: $id, parent: $parent, created_time: $created, last_edited_time: $edited,
  created_by: $creator, discussion_id: $discussion, rich_text: $rich, attachments: $attachments,
  display_name: { type: user, resolved_name: Editor } }
properties:
  Last Edited Time: { id: 0AiB, type: last_edited_time, last_edited_time: $edited }
  Created By: { id: "F%5D)%3F", type: created_by, created_by: $creator }
  Type: { id: "_%7B%5C7", type: select, select: $option }
  Tags: { id: "tGs%3A", type: multi_select, multi_select: [$option] }
  Participants: { id: "b%3AeA", type: people, people: [$creator] }
  Effort: { id: eFrt, type: number, number: <50 }
  Due: { id: "dUe%5B", type: date, date: { start: 2024-05-02 | 2024-06-11, end: null, time_zone: null } }
  Done: { id: d0nE, type: checkbox, checkbox: maybe }
  Remarks: { id: rEm, type: rich_text, rich_text: $description }
  Attachments: { id: aTt, type: files, files: [{ name: Protokoll.pdf, type: file, file: $file }] }
  Name: { id: title, type: title, title: $rich }
`);

const contents = templatesOf(`{
other: { rich_text: $rich, color: default }, to_do: { rich_text: $rich, color: default, checked: $odd },
heading_1: { rich_text: $rich, color: default, is_toggleable: false },
callout: { icon: { type: emoji, emoji: 💡 }, color: gray_background, rich_text: [
  { type: text, text: { content: $text, link: null }, annotations: $plain, plain_text: $text, href: null },
  { type: mention, mention: { type: user, user: $creator }, annotations: $plain, plain_text: "@Ada", href: null },
  { type: equation, equation: { expression: n^2 }, annotations: $plain, plain_text: n^2, href: null }] },
code: { caption: [], rich_text: $rich, language: typescript }, table_of_contents: { color: gray },
bookmark: { caption: [], url: https://example.test/article }, embed: { caption: [], url: https://example.test/map },
image: { caption: [], type: file, file: $file }, file: { caption: [], type: file, file: $file, name: minutes.docx },
video: { caption: [], type: external, external: { url: https://media.example.test/talk.mp4 } },
pdf: { caption: [], type: external, external: { url: https://media.example.test/paper.pdf } },
audio: { caption: [], type: external, external: { url: https://media.example.test/1.mp3 } },
equation: { expression: n^2 }, link_preview: { url: https://example.test/pull/1 },
link_to_page: { type: page_id, page_id: $second }, column_list: {}, column: { width_ratio: 0.5 },
table: { table_width: 2, has_column_header: true, has_row_header: false }, table_row: { cells: [$rich, $rich] },
synced_block: { synced_from: $original }, divider: {}, breadcrumb: {}, unsupported: {},
transcription: { title: $rich, status: notes_ready }, meeting_notes: { title: $rich, status: notes_ready } }`);

function toRecord(notes: Things, thing: Thing): JsonObject {
  const { kind, index, type = '' } = thing;
  const values = valuesOf(notes, thing);
  const record = template(kind === 'users' && isBot(index) ? 'bots' : kind, values, notes.dice(thing, 1));
  if (kind !== 'blocks') return record;
  const has_children = isCopy(thing) || notes.of('blocks', thing).length > 0;
  return { ...record, has_children, type, [type]: contents(type, values, notes.dice(thing, 1)) };
}

/** A page or database as a block of the page that it lies on. Nothing that happens in a database changes the block. */
function asBlock(notes: Things, thing: Thing): JsonObject {
  const values = valuesOf(notes, thing);
  const isPage = thing.kind === 'pages';
  const shown = isPage
    ? values
    : { ...values, id: values.database, edited: values.created, editor: values.creator };
  const type = isPage ? 'child_page' : 'child_database';
  const content = { title: thing.text };
  return { ...template('blocks', shown, notes.dice(thing, 1)), has_children: true, type, [type]: content };
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
  const properties =
    kind === 'data_sources'
      ? schemasOf(thing)
      : parent?.kind === 'data_sources'
        ? template('properties', { ...values, option: optionOf(parent, index % 4) }, notes.dice(thing, 1))
        : { title: { id: 'title', type: 'title', title: values.rich } };
  return { ...values, properties };
}

/** Databases ask all their pages for the same properties. */
function schemasOf(database: Thing): JsonObject {
  const options = [0, 1, 2, 3].map((place) => optionOf(database, place));
  const settings: JsonObject = {
    select: { options },
    multi_select: { options },
    number: { format: 'number' },
  };
  return Object.fromEntries(
    Object.entries(template('properties', {}, new Dice(0))).map(([name, property]) => {
      const { id = null, type = '' } = isJsonObject(property) ? property : {};
      const kind = textOf(type);
      return [name, { id, name, type: kind, [kind]: settings[kind] ?? {} }];
    }),
  );
}

function optionOf(database: Thing | null, place: number): JsonObject {
  const [name = '', color = ''] =
    ['Standup green', 'Retro blue', '1:1 default', 'Планирование pink'][place]?.split(' ') ?? [];
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

/** Longer than what the API shows of a text when it shortens them. */
const longSentence =
  'Anything that is worth writing down is worth finding again, so this paragraph goes on for a while – über ' +
  'Umlaute, 日本語 and emoji 🎉 – until it is longer than two hundred characters, because that is where a ' +
  'shortened answer would have cut it off and left the reader with a marker.';
const sentences =
  'Nothing was decided.|Ship it on Friday 🚢|Ответить до вторника|来週まで|Zażółć gęślą jaźń'.split('|');
const textTypes = 'paragraph|bulleted_list_item|to_do|numbered_list_item|toggle|quote|callout'.split('|');

/** Lines of blocks as people leave them: texts, and lists with lists in them. See `addBlocks`. */
function everydayLines(dice: Dice, count: number, maxDepth: number): readonly string[] {
  let depth = 0;
  return Array.from({ length: count }, (_, line) => {
    depth = line > 0 && dice.chance(10) ? Math.min(depth + 1, maxDepth) : dice.below(depth + 1);
    return `${' '.repeat(depth)}${textTypes[dice.below(textTypes.length)]} ${sentences[dice.below(sentences.length)]}`;
  });
}

/** A list six levels deep. */
const deepLines =
  'toggle Before the trip|bulleted_list_item Papers|numbered_list_item Passport|to_do Renew it by April|' +
  'toggle For the office|paragraph Two photos and the old passport';

/** The first page shows every type of block, also by a synced block, which is the first, and a copy of it. */
const showcase = [
  'synced_block',
  ' paragraph Office hours: Monday to Thursday, 9 to 17',
  ' toggle Holidays',
  '  paragraph Closed between Christmas and New Year',
  'heading_1 Welcome ✨',
  `paragraph ${longSentence}`,
  'callout Change the title to include the date.',
  ...deepLines.split('|').map((line, depth) => ' '.repeat(depth) + line),
  ...'column_list| column|  paragraph What goes well| column|  paragraph What we try next'.split('|'),
  ...'table| table_row Name Größe| table_row 東京 14|template Agenda| to_do Write it|code const ü = 1;'.split(
    '|',
  ),
  ...'heading_2 heading_3 heading_4 quote divider table_of_contents bookmark image video file pdf embed'.split(
    ' ',
  ),
  ...'equation link_preview link_to_page breadcrumb unsupported audio transcription meeting_notes'.split(' '),
  'tab First tab',
  ' paragraph Behind the first tab',
];

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

const pageTitles = (
  'Company handbook|Reiseplan für Łódź|Meeting log|Roadmap||How we plan a release|Interview notes|' +
  'Notas de la reunión|週報 📝|Questions to the team|Daily standup|Идеи на потом|Onboarding|Retrospective|' +
  'Holiday calendar|Support playbook|Budget|Style guide for letters'
).split('|');
const databaseTitles = 'Meeting Notes|Aufgaben|Читательский дневник|在庫|CRM'.split('|');
const remarks = 'Single comment|Sollten wir das nicht löschen?|👍|Согласна|確認しました'.split('|');

function makeWorkspace(seed: number, size: keyof typeof shapes, revision: number): Things {
  const notes = new Things(seed, (_, dice) => dice.uuid(), ['pages', 'blocks']);
  const shape = shapes[size];
  for (let index = 0; index < shape.users; index += 1) addUser(notes, index);
  for (let index = 0; index < shape.databases; index += 1) {
    const createdAt = notesStart + index * dayMs;
    notes.add({ kind: 'data_sources', index, text: titleAt(databaseTitles, index), parent: null, createdAt });
  }
  const databases = notes.of('data_sources');
  const pages: Thing[] = [];
  for (let index = 0; index < shape.pages; index += 1) {
    // One of five pages lies at the top, two lie in a database, and two below the first.
    const [turn, database] = [index % 5, databases[Math.floor(index / 5) % databases.length]];
    const parent = (turn === 0 ? null : turn > 2 ? pages[index - turn] : database) ?? null;
    // Every tenth page was edited in the same minute as the one before it.
    const source = index % 10 === 9 ? index - 1 : index;
    const createdAt = notesStart + source * 173 * minuteMs;
    const editedAt = createdAt + diceFor(seed, source).below(700 * 24 * 60) * minuteMs;
    const text = titleAt(pageTitles, index);
    const page = notes.add({ kind: 'pages', index, text, parent, createdAt, editedAt });
    pages.push(page);
    addBlocks(notes, page, linesOf(notes, index, size), index * 300);
    if (index % 4 === 0) addComments(notes, page, size);
  }
  // Every other database stands on a page.
  for (const database of databases) {
    if (database.index % 2 === 0) notes.move(database, pages[database.index * 5] ?? null);
  }
  notes.play(revision, reviseNotes);
  return notes;
}

function addUser(notes: Things, index: number): void {
  const name = personAt(notes.seed, 5_000_000 + index).name;
  const text = isBot(index)
    ? titleAt(['Release bot', 'Import bot', 'Standup bot'], Math.floor(index / 12))
    : name;
  notes.add({ kind: 'users', index, text, parent: null });
}

/** The lines of a page before all revisions; see `addBlocks`. */
function linesOf(notes: Things, index: number, size: keyof typeof shapes): readonly string[] {
  const copy = `synced_block ${notes.idOf('blocks', 0)}`;
  const dice = diceFor(notes.seed, index, 1);
  const lines = size === 'small' ? everydayLines(dice, 3 + dice.below(12), 3) : everydayLines(dice, 3, 1);
  switch (index) {
    case 0:
      return [...showcase, copy];
    case 4:
      return [];
    case 5:
      return [...lines, copy];
    case long.page:
      if (size === 'tiny') return lines;
      return Array.from(
        { length: long.blocks },
        (_, line) => `paragraph ${line + 1}. ${sentences[line % 5]}`,
      );
    default:
      return lines;
  }
}

/** Comments on a page, and on its first paragraph: those are listed for the block's id only. */
function addComments(notes: Things, page: Thing, size: keyof typeof shapes): void {
  const { index, createdAt } = page;
  const count = size === 'small' && index === long.commented ? long.comments : 1 + (index % 3);
  const paragraphs = notes.of('blocks', page).filter(({ type }) => type === 'paragraph');
  const hosts = [
    ...Array.from({ length: count }, () => page),
    ...paragraphs.slice(0, 1),
    ...paragraphs.slice(0, 1),
  ];
  for (const [place, parent] of hosts.entries()) {
    const text = remarks[(index + place) % remarks.length] ?? '';
    const minutes = createdAt + place * 11 * minuteMs;
    notes.add({ kind: 'comments', index: index * 300 + place, text, parent, createdAt: minutes });
  }
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
  const title = titleAt(databaseTitles, revision);
  notes.comeAndGo('data_sources', () => notes.addNew('data_sources', null, title), 'trashed');
  if (revision % 3 === 1) notes.take(pageInTurn(notes, 2), 2, 'trashed');
  if (revision % 3 === 2) notes.take(pageInTurn(notes, 3));
  if (revision % 3 === 0) notes.move(pageInTurn(notes, 4), revision % 2 === 0 ? null : pageInTurn(notes, 0));
  const places = [null, pageInTurn(notes, 0), notes.turn('data_sources')];
  const page = notes.addNew('pages', places[revision % 3] ?? null, `Minutes of ${dayOf(revision)}`);
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
  notes.edit(page, `${page.text.split(' – ')[0]} – ${dayOf(revision)}`);
  const texts = notes
    .of('blocks', page)
    .filter(({ type = '', index }) => textTypes.includes(type) && index !== agendaIndex);
  const [edited, moved, deleted] = [0, 1, 2].map((place) => texts[(revision + place) % texts.length]);
  if (texts.length > 2) {
    notes.move(moved, page);
    notes.take(deleted);
  }
  notes.edit(edited, `Changed on ${dayOf(revision)}: see the minutes`);
  addBlocks(
    notes,
    page,
    [`bulleted_list_item Agreed on ${dayOf(revision)}`, ' paragraph By everybody'],
    firstAdded + revision * 10 + 5,
  );
}

/** One comment is resolved, and reopened later, one edited and one added. */
function reviseComments(notes: Things, page: Thing | undefined): void {
  if (page === undefined) return;
  const [first, ...others] = notes.of('comments', page);
  notes.take(others.at(-1));
  notes.edit(first, `Changed on ${dayOf(notes.revision)}`);
  notes.addNew('comments', page, remarks[notes.revision % remarks.length] ?? '');
}
