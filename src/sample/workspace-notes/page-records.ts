import type { JsonObject } from '../../core/json.ts';
import { notesTime } from '../times.ts';
import { pageProperties, propertySchemas } from './database-properties.ts';
import type { Database, NotesPlan, Page } from './notes-plan.ts';
import { richText } from './rich-text.ts';

export function pageRecord(plan: NotesPlan, page: Page): JsonObject {
  return {
    object: 'page',
    id: page.id,
    created_time: notesTime(page.createdAt),
    last_edited_time: notesTime(page.editedAt),
    created_by: user(page.creatorId),
    last_edited_by: user(page.editorId),
    cover: page.index % 6 === 1 ? uploaded(page, 'cover.png') : null,
    icon: iconOf(page),
    parent: parentOf(page),
    archived: page.isTrashed,
    in_trash: page.isTrashed,
    is_archived: page.isTrashed,
    is_locked: page.index % 11 === 4,
    properties: pageProperties(plan, page),
    url: `https://notes.example.test/${slug(page.title)}${page.id.replaceAll('-', '')}`,
    public_url: page.index % 9 === 8 ? `https://public.example.test/${page.id.replaceAll('-', '')}` : null,
  };
}

export function dataSourceRecord(plan: NotesPlan, database: Database): JsonObject {
  const { index, hostIndex } = database;
  const host = hostIndex === null ? undefined : plan.pages[hostIndex];
  return {
    object: 'data_source',
    id: database.dataSourceId,
    cover: index === 1 ? { type: 'external', external: { url: 'https://cdn.example.test/cover.png' } } : null,
    icon: index % 3 === 2 ? null : { type: 'emoji', emoji: '✏️' },
    created_time: notesTime(database.createdAt),
    created_by: user(plan.userIds[0]),
    last_edited_by: user(plan.userIds[1] ?? plan.userIds[0]),
    last_edited_time: notesTime(database.editedAt),
    title: richText(database.title),
    description: index === 2 ? richText('Wer, was, bis wann') : [],
    is_inline: index % 2 === 1,
    properties: propertySchemas(plan.seed, database),
    parent: { type: 'database_id', database_id: database.id },
    database_parent:
      host === undefined ? { type: 'workspace', workspace: true } : { type: 'page_id', page_id: host.id },
    url: `https://notes.example.test/${database.id.replaceAll('-', '')}`,
    public_url: null,
    archived: false,
    in_trash: false,
    is_archived: false,
    is_locked: index === 3,
  };
}

export function user(id: string): JsonObject {
  return { object: 'user', id };
}

function parentOf(page: Page): JsonObject {
  switch (page.place.kind) {
    case 'workspace':
      return { type: 'workspace', workspace: true };
    case 'page':
      return { type: 'page_id', page_id: page.place.parentId };
    case 'database':
      return {
        type: 'data_source_id',
        data_source_id: page.place.database.dataSourceId,
        database_id: page.place.database.id,
      };
  }
}

function iconOf(page: Page): JsonObject | null {
  if (page.index % 4 === 1) return { type: 'emoji', emoji: '📌' };
  return page.index % 7 === 2 ? uploaded(page, 'icon.png') : null;
}

function uploaded(page: Page, name: string): JsonObject {
  return {
    type: 'file',
    file: {
      url: `https://files.example.test/${page.id}/${name}?signature=${page.id.slice(0, 8)}`,
      expiry_time: '2024-03-01T10:00:00.000Z',
    },
  };
}

function slug(title: string): string {
  const words = title.match(/[A-Za-z0-9]+/g);
  return words === null ? '' : `${words.join('-')}-`;
}
