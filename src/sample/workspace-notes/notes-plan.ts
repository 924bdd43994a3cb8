import { dayMs } from '../times.ts';
import { diceFor } from '../dice.ts';
import { titleAt } from '../title-at.ts';

/** What is behind one workspace. Small enough to be kept: some hundred pages at most. */
export interface NotesPlan {
  readonly seed: number;
  readonly size: 'tiny' | 'small';
  readonly userIds: readonly [string, ...string[]];
  readonly databases: readonly Database[];
  /** Trashed ones included; they come last. */
  readonly pages: readonly Page[];
}

/** A database with the one data source in it. */
export interface Database {
  readonly index: number;
  readonly id: string;
  readonly dataSourceId: string;
  readonly title: string;
  /** The page that shows it as a block; null: it lies at the top of the workspace. */
  readonly hostIndex: number | null;
  readonly createdAt: number;
  readonly editedAt: number;
}

export interface Page {
  readonly index: number;
  readonly id: string;
  readonly title: string;
  readonly place:
    | { readonly kind: 'workspace' }
    | { readonly kind: 'page'; readonly parentIndex: number; readonly parentId: string }
    | { readonly kind: 'database'; readonly database: Database };
  readonly createdAt: number;
  readonly editedAt: number;
  readonly creatorId: string;
  readonly editorId: string;
  readonly isTrashed: boolean;
}

/** First throws of the dice, one per kind of thing. */
export const notesKind = {
  user: 21,
  database: 22,
  page: 23,
  block: 24,
  comment: 25,
  synced: 26,
  revision: 27,
} as const;

const shapes = {
  small: { users: 25, databases: 5, pages: 120, trashed: 3 },
  tiny: { users: 4, databases: 1, pages: 6, trashed: 1 },
} as const;

const notesStart = Date.UTC(2021, 9, 19, 13, 33, 0);
const minuteMs = 60_000;

export function planNotes(seed: number, size: 'tiny' | 'small'): NotesPlan {
  const shape = shapes[size];
  const firstUser = userId(seed, 0);
  const userIds = [
    firstUser,
    ...Array.from({ length: shape.users - 1 }, (_, at) => userId(seed, at + 1)),
  ] as const;
  const databases = Array.from({ length: shape.databases }, (_, index) => planDatabase(seed, index));
  const ids = Array.from({ length: shape.pages + shape.trashed }, (_, index) =>
    diceFor(seed, notesKind.page, index).uuid(),
  );
  const pages = ids.map((id, index): Page => {
    const dice = diceFor(seed, notesKind.page, index, 1);
    const times = pageTimes(seed, index);
    return {
      index,
      id,
      title: titleAt(pageTitles, index),
      place: index >= shape.pages ? { kind: 'workspace' } : placeOf(index, ids, databases),
      ...times,
      creatorId: dice.pick(userIds),
      editorId: dice.pick(userIds),
      isTrashed: index >= shape.pages,
    };
  });
  return { seed, size, userIds, databases, pages };
}

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

/** Of five pages one lies at the top, two in a database, and two below the first. */
function placeOf(index: number, ids: readonly string[], databases: readonly Database[]): Page['place'] {
  const turn = index % 5;
  if (turn === 0) return { kind: 'workspace' };
  const database = databases[Math.floor(index / 5) % databases.length];
  if (turn <= 2 && database !== undefined) return { kind: 'database', database };
  const parentIndex = index - turn;
  return { kind: 'page', parentIndex, parentId: ids[parentIndex] ?? '' };
}

/** Every tenth page was edited in the same minute as the one before it. */
function pageTimes(seed: number, index: number): { createdAt: number; editedAt: number } {
  const source = index % 10 === 9 ? index - 1 : index;
  const dice = diceFor(seed, notesKind.page, source, 2);
  const createdAt = notesStart + source * 173 * minuteMs;
  return { createdAt, editedAt: createdAt + dice.below(700 * 24 * 60) * minuteMs };
}

function planDatabase(seed: number, index: number): Database {
  const dice = diceFor(seed, notesKind.database, index);
  const createdAt = notesStart + index * dayMs;
  return {
    index,
    id: dice.uuid(),
    dataSourceId: dice.uuid(),
    title: ['Meeting Notes', 'Aufgaben', 'Читательский дневник', '在庫', 'CRM'][index % 5] ?? 'Meeting Notes',
    hostIndex: index % 2 === 0 ? index * 5 : null,
    createdAt,
    editedAt: createdAt + dice.below(900 * 24 * 60) * minuteMs,
  };
}

function userId(seed: number, index: number): string {
  return diceFor(seed, notesKind.user, index).uuid();
}
