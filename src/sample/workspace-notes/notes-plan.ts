import type { JsonObject } from '../../core/json.ts';
import { diceFor } from '../dice.ts';
import { personAt } from '../people.ts';
import type { SampleSize } from '../sample-account.ts';
import { dayMs, titleAt } from '../writing.ts';

/** What is behind one workspace: some hundred pages at most, written out as a whole. Revisions change it in place. */
export interface NotesPlan {
  readonly seed: number;
  readonly size: SampleSize;
  /** Those who were there from the beginning: they write everything. */
  readonly userIds: readonly [string, ...string[]];
  readonly users: User[];
  readonly databases: Database[];
  /** Trashed ones included. */
  readonly pages: Page[];
}

type User = ReturnType<typeof planUser>;
/** A database with the one data source in it. */
export type Database = ReturnType<typeof planDatabase>;

export interface Page extends ReturnType<typeof planPage> {
  /** Of a page in a database: the effort entered last. */
  effort?: number;
}

/** When a page, block or the like was made and edited, and by whom. */
export interface Stamps {
  readonly createdAt: number;
  editedAt: number;
  readonly creatorId: string;
  editorId: string;
}

export type Place =
  | { readonly kind: 'workspace' }
  | { readonly kind: 'page'; readonly parentId: string }
  | { readonly kind: 'database'; readonly database: Database };

/** First throws of the dice, one per kind of thing. */
export const notesKind = { user: 21, database: 22, page: 23, block: 24, comment: 25, synced: 26 } as const;

const shapes = {
  small: { users: 25, databases: 5, pages: 120, trashed: 3 },
  tiny: { users: 4, databases: 1, pages: 6, trashed: 1 },
} as const;

const notesStart = Date.UTC(2021, 9, 19, 13, 33, 0);
const minuteMs = 60_000;

const pageTitles = [
  'Company handbook',
  'Reiseplan für Łódź',
  'Meeting log',
  'Roadmap',
  '',
  'How we plan a release',
  'Interview notes',
  'Notas de la reunión',
  '週報 📝',
  'Questions to the team',
  'Daily standup',
  'Идеи на потом',
  'Onboarding',
  'Retrospective',
  'Holiday calendar',
  'Support playbook',
  'Budget',
  'Style guide for letters',
];

/** The workspace before all revisions. */
export function planNotes(seed: number, size: SampleSize): NotesPlan {
  const shape = shapes[size === 'small' ? 'small' : 'tiny'];
  const ids = Array.from({ length: shape.pages + shape.trashed }, (_, index) => pageId(seed, index));
  const users = Array.from({ length: shape.users }, (_, index) => planUser(seed, index));
  const [first = '', ...others] = users.map(({ id }) => id);
  const userIds = [first, ...others] as const;
  const databases = Array.from({ length: shape.databases }, (_, index) =>
    planDatabase(seed, index, index % 2 === 0 ? (ids[index * 5] ?? null) : null),
  );
  const pages = ids.map((_, index) => {
    const isTrashed = index >= shape.pages;
    // Every tenth page was edited in the same minute as the one before it.
    const source = index % 10 === 9 ? index - 1 : index;
    const createdAt = notesStart + source * 173 * minuteMs;
    const minutes = diceFor(seed, notesKind.page, source, 2).below(700 * 24 * 60);
    const place = isTrashed ? ({ kind: 'workspace' } as const) : placeOf(index, ids, databases);
    const page = planPage({ seed, userIds }, index, titleAt(pageTitles, index), place, createdAt);
    return { ...page, editedAt: createdAt + minutes * minuteMs, isTrashed };
  });
  return { seed, size, userIds, users, databases, pages };
}

export function planPage(
  { seed, userIds }: Pick<NotesPlan, 'seed' | 'userIds'>,
  index: number,
  title: string,
  place: Place,
  createdAt: number,
) {
  const dice = diceFor(seed, notesKind.page, index, 1);
  return {
    index,
    id: pageId(seed, index),
    title,
    place,
    createdAt,
    editedAt: createdAt,
    creatorId: dice.pick(userIds),
    editorId: dice.pick(userIds),
    isTrashed: false,
    isDeleted: false,
  };
}

function pageId(seed: number, index: number): string {
  return diceFor(seed, notesKind.page, index).uuid();
}

/** Of five pages one lies at the top, two in a database, and two below the first. */
function placeOf(index: number, ids: readonly string[], databases: readonly Database[]): Place {
  const turn = index % 5;
  if (turn === 0) return { kind: 'workspace' };
  const database = databases[Math.floor(index / 5) % databases.length];
  if (turn <= 2 && database !== undefined) return { kind: 'database', database };
  return { kind: 'page', parentId: ids[index - turn] ?? '' };
}

const databaseTitles = ['Meeting Notes', 'Aufgaben', 'Читательский дневник', '在庫', 'CRM'];

/** `hostId`: the page that shows it as a block; null: it lies at the top of the workspace. */
export function planDatabase(
  seed: number,
  index: number,
  hostId: string | null,
  createdAt = notesStart + index * dayMs,
) {
  const dice = diceFor(seed, notesKind.database, index);
  return {
    index,
    id: dice.uuid(),
    dataSourceId: dice.uuid(),
    title: titleAt(databaseTitles, index),
    description: index === 2 ? 'Wer, was, bis wann' : '',
    hostId,
    createdAt,
    editedAt: createdAt + dice.below(900 * 24 * 60) * minuteMs,
    isTrashed: false,
  };
}

const botNames = ['Release bot', 'Import bot', 'Standup bot'];

export function planUser(seed: number, index: number) {
  const { first, last, email } = personAt(seed, 5_000_000 + index);
  const isBot = index % 12 === 3;
  const name = isBot ? titleAt(botNames, Math.floor(index / 12)) : `${first} ${last}`.trim();
  const id = diceFor(seed, notesKind.user, index).uuid();
  return { id, index, name, email, isBot, isGone: false };
}

export function userRecord(
  { seed, userIds }: NotesPlan,
  { id, index, name, email, isBot }: User,
): JsonObject {
  const avatarUrl = index % 3 === 1 ? null : `https://static.example.test/${6_246_757 + index}.png`;
  const record = { object: 'user', id, name, avatar_url: avatarUrl };
  // The address of one the integration may not see.
  if (!isBot) return { ...record, type: 'person', person: index === 2 ? {} : { email } };
  const owner = planUser(seed, 0);
  const person = {
    object: 'user',
    id: userIds[0],
    name: owner.name,
    avatar_url: 'https://static.example.test/6246757.png',
    type: 'person',
    person: { email: owner.email },
  };
  const bot = {
    owner: index === 3 ? { type: 'workspace', workspace: true } : { type: 'user', user: person },
    workspace_name: 'Example workspace',
  };
  return { ...record, type: 'bot', bot };
}
