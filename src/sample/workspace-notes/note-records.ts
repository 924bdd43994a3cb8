import type { JsonObject } from '../../core/json.ts';
import { diceFor } from '../dice.ts';
import { notesTime } from '../writing.ts';
import { type Database, notesKind, type NotesPlan, type Page, type Stamps } from './notes-plan.ts';
import type { Block } from './page-blocks.ts';
import { pageProperties, propertySchemas } from './page-properties.ts';
import { hostedFile, richText } from './rich-text.ts';

const workspace: JsonObject = { type: 'workspace', workspace: true };

export function pageRecord(plan: NotesPlan, page: Page): JsonObject {
  const bareId = page.id.replaceAll('-', '');
  return {
    object: 'page',
    id: page.id,
    ...stampFields(page),
    cover: page.index % 6 === 1 ? uploaded(page, 'cover.png') : null,
    icon: iconOf(page),
    parent: parentOf(page),
    archived: page.isTrashed,
    in_trash: page.isTrashed,
    is_archived: page.isTrashed,
    is_locked: page.index % 11 === 4,
    properties: pageProperties(plan, page),
    url: `https://notes.example.test/${slug(page.title)}${bareId}`,
    public_url: page.index % 9 === 8 ? `https://public.example.test/${bareId}` : null,
  };
}

function parentOf({ place }: Page): JsonObject {
  switch (place.kind) {
    case 'workspace':
      return workspace;
    case 'page':
      return { type: 'page_id', page_id: place.parentId };
    case 'database': {
      const { id, dataSourceId } = place.database;
      return { type: 'data_source_id', data_source_id: dataSourceId, database_id: id };
    }
  }
}

function iconOf(page: Page): JsonObject | null {
  if (page.index % 4 === 1) return { type: 'emoji', emoji: '📌' };
  return page.index % 7 === 2 ? uploaded(page, 'icon.png') : null;
}

function uploaded({ id }: Page, name: string): JsonObject {
  return { type: 'file', file: hostedFile(`${id}/${name}`, id.slice(0, 8)) };
}

function slug(title: string): string {
  const words = title.match(/[A-Za-z0-9]+/g);
  return words === null ? '' : `${words.join('-')}-`;
}

export function dataSourceRecord(plan: NotesPlan, database: Database): JsonObject {
  const { index, hostId, isTrashed } = database;
  const [first, second = first] = plan.userIds;
  return {
    object: 'data_source',
    id: database.dataSourceId,
    cover: index === 1 ? { type: 'external', external: { url: 'https://cdn.example.test/cover.png' } } : null,
    icon: index % 3 === 2 ? null : { type: 'emoji', emoji: '✏️' },
    created_time: notesTime(database.createdAt),
    created_by: user(first),
    last_edited_by: user(second),
    last_edited_time: notesTime(database.editedAt),
    title: richText(database.title),
    description: richText(database.description),
    is_inline: index % 2 === 1,
    properties: propertySchemas(plan.seed, database),
    parent: { type: 'database_id', database_id: database.id },
    database_parent: hostId === null ? workspace : { type: 'page_id', page_id: hostId },
    url: `https://notes.example.test/${database.id.replaceAll('-', '')}`,
    public_url: null,
    archived: isTrashed,
    in_trash: isTrashed,
    is_archived: isTrashed,
    is_locked: index === 3,
  };
}

export function blockRecord(block: Block, parent: JsonObject, isTrashed: boolean): JsonObject {
  return {
    ...blockFields(block, parent, isTrashed),
    has_children: block.children.length > 0 || block.isCopy,
    type: block.type,
    [block.type]: block.content,
  };
}

/** A page as a block of the page that it lies on. */
export function pageAsBlock(page: Page): JsonObject {
  const parent = page.place.kind === 'page' ? parentOf(page) : workspace;
  return {
    ...blockFields(page, parent, page.isTrashed),
    has_children: true,
    type: 'child_page',
    child_page: { title: page.title },
  };
}

export function databaseAsBlock(
  { userIds }: NotesPlan,
  { id, title, createdAt }: Database,
  parent: JsonObject,
): JsonObject {
  const [userId] = userIds;
  const block = { id, createdAt, editedAt: createdAt, creatorId: userId, editorId: userId };
  return {
    ...blockFields(block, parent, false),
    has_children: true,
    type: 'child_database',
    child_database: { title },
  };
}

function blockFields(block: Stamps & Pick<Block, 'id'>, parent: JsonObject, isTrashed: boolean): JsonObject {
  return {
    object: 'block',
    id: block.id,
    parent,
    ...stampFields(block),
    archived: isTrashed,
    in_trash: isTrashed,
  };
}

function stampFields({ createdAt, editedAt, creatorId, editorId }: Stamps): JsonObject {
  return {
    created_time: notesTime(createdAt),
    last_edited_time: notesTime(editedAt),
    created_by: user(creatorId),
    last_edited_by: user(editorId),
  };
}

export function commentRecord(comment: Comment, parent: JsonObject): JsonObject {
  return {
    object: 'comment',
    id: comment.id,
    parent,
    discussion_id: comment.discussionId,
    created_time: notesTime(comment.createdAt),
    last_edited_time: notesTime(comment.editedAt),
    created_by: user(comment.authorId),
    rich_text: richText(comment.text),
    display_name: { type: 'user', resolved_name: 'Editor' },
    ...(comment.id.startsWith('1') ? { attachments: [attachmentOf(comment)] } : {}),
  };
}

function attachmentOf({ id }: Comment): JsonObject {
  return { category: 'image', file: hostedFile(`${id}/photo.png`, id.slice(0, 8)) };
}

function user(id: string): JsonObject {
  return { object: 'user', id };
}

/** An open comment. Revisions change it in place. */
type Comment = ReturnType<typeof planComment>;

/** A plan with what stands on its pages. Revisions change all of it in place. */
export interface NotesWork {
  readonly plan: NotesPlan;
  /** By page: top to bottom, without the pages and databases below it. */
  readonly blocks: Map<string, Block[]>;
  /** Open ones by the page or block that they are on, oldest first. */
  readonly comments: Map<string, Comment[]>;
}

export const remarks = [
  'Single comment',
  'Sollten wir das nicht löschen?',
  '👍',
  'Согласна',
  '確認しました',
] as const;

/**
 * Every fourth page is talked about, one of them (in `small`) more than fits into one page of a listing, and so is its
 * first paragraph: those comments are listed for the block's id only. By the page or block that they are on.
 */
export function commentsOf(
  plan: NotesPlan,
  { id, index, createdAt }: Page,
  blocks: readonly Block[],
): readonly (readonly [string, Comment[]])[] {
  if (index % 4 !== 0) return [[id, []]];
  const count = plan.size === 'small' && index === 8 ? 130 : 1 + (index % 3);
  const onPage = discussion(plan, index * 2, count, createdAt);
  const paragraphs = blocks.filter(({ type }) => type === 'paragraph').slice(0, 1);
  const onBlock = discussion(plan, index * 2 + 1, 2, createdAt);
  return [[id, onPage], ...paragraphs.map((block) => [block.id, onBlock] as const)];
}

function discussion(plan: NotesPlan, number: number, count: number, from: number): Comment[] {
  return Array.from({ length: count }, (_, position) =>
    planComment(plan, number, position, from + position * 11 * 60_000),
  );
}

export function planComment(
  { seed, userIds }: NotesPlan,
  discussion: number,
  position: number,
  createdAt: number,
) {
  const dice = diceFor(seed, notesKind.comment, discussion, position + 1);
  const id = dice.uuid();
  const editedAt = createdAt + dice.below(200) * 60_000;
  const authorId = dice.pick(userIds);
  const text: string = dice.pick(remarks);
  const discussionId = diceFor(seed, notesKind.comment, discussion).uuid();
  return { id, discussionId, createdAt, editedAt, authorId, text };
}
