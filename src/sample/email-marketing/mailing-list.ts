import type { JsonObject } from '../../core/json.ts';
import type { Dice } from '../dice.ts';
import { dayMs, dayOf, isThere, lastTurn, madeAndThere, makingRevisions, revisionTime } from '../writing.ts';

export interface MailingList {
  readonly seed: number;
  readonly revision: number;
  readonly index: number;
  readonly id: string;
  readonly name: string;
  /** Of those that were there from the beginning. */
  readonly memberCount: number;
  /** The number of the first one's person; the others follow. */
  readonly firstPerson: number;
  /** The first of those whom a revision brings moves on to another list with the next one. */
  readonly isPassedThrough: boolean;
  readonly createdAt: number;
  /** When the first members came, all at once, and within what time the others did. */
  readonly importedAt: number;
  readonly spanMs: number;
  readonly tags: readonly Tag[];
  readonly segments: readonly Segment[];
  readonly categories: readonly InterestCategory[];
}

export type Tag = ReturnType<typeof planTags>[number];
export type Segment = ReturnType<typeof planSegments>[number];
export type InterestCategory = ReturnType<typeof planCategories>[number];

/** Shorter lists stay as they are in all revisions. */
export const fewestMembers = 10;

/** One kind of thing each, so that no two share their chances. */
export const kind = {
  list: 1,
  member: 2,
  campaign: 3,
  report: 4,
  activity: 5,
  automation: 6,
  interest: 8,
  unsubscribe: 9,
} as const;

const tagNames = ['2022', 'Influencer', 'VIP', 'Müde Leser', '常連'];
export const slotCount = 20;

/** A tag sits on the members of its slots. */
export function planTags(dice: Dice, count: number) {
  return tagNames.slice(0, count).map((name) => ({
    id: 13_000_000 + dice.below(900_000),
    name,
    // Of all statuses: an unsubscribed member keeps its tags.
    slots: Array.from({ length: slotCount }, (_, slot) => slot).filter(() => dice.chance(25)),
  }));
}

/**
 * A static segment for every tag, under the tag's id (that is what a tag is), and saved searches beside them. Revisions
 * rename a search, and the first list gets another tag and search, which are deleted and restored.
 */
export function planSegments(
  dice: Dice,
  tags: readonly Tag[],
  list: Pick<MailingList, 'index' | 'revision' | 'createdAt'>,
) {
  const { index, revision } = list;
  if (tags.length === 0) return [];
  // Members come, go and change with every revision.
  const updatedIn = revision === 0 ? 0 : revisionTime(revision);
  const segment = (id: number, name: string, slots: readonly number[], position: number) => {
    const createdAt = list.createdAt + position * dayMs + dice.below(dayMs / 1000) * 1000;
    const updatedAt = Math.max(createdAt + (position % 2) * 9 * dayMs, updatedIn);
    const isTag = position < tags.length;
    return {
      id,
      name,
      type: isTag ? 'static' : 'saved',
      createdAt,
      updatedAt,
      slots,
      options: isTag ? tagOptions(id) : searchOptions,
    };
  };
  const renamed = lastTurn(revision, 0, 3);
  const since = renamed === 0 ? 'in the last 30 days' : `since ${dayOf(renamed)}`;
  const statics = tags.map(({ id, name, slots }, position) => segment(id, name, slots, position));
  return [
    ...statics,
    segment(14_000_000 + dice.below(900_000), `Active ${since}`, [0, 3, 5], tags.length),
    segment(15_000_000 + dice.below(900_000), 'Bought twice in December', [], tags.length + 1),
    ...(index === 0 ? madeAndThere(revision).flatMap((madeIn) => newSegments(madeIn, revision)) : []),
  ];
}

function newSegments(madeIn: number, revision: number) {
  const times = { createdAt: revisionTime(madeIn), updatedAt: revisionTime(revision) };
  const [id, searchId] = [16_000_000 + madeIn, 17_000_000 + madeIn];
  const day = dayOf(madeIn);
  return [
    { id, name: `Open house ${day}`, type: 'static', ...times, slots: [], options: tagOptions(id) },
    { id: searchId, name: `Clicked on ${day}`, type: 'saved', ...times, slots: [7], options: searchOptions },
  ];
}

function tagOptions(id: number): JsonObject {
  return {
    match: 'any',
    conditions: [{ condition_type: 'StaticSegment', field: 'static_segment', op: 'static_is', value: id }],
  };
}

const searchOptions: JsonObject = {
  match: 'all',
  conditions: [
    { condition_type: 'Aim', field: 'aim', op: 'open', value: 'any' },
    { condition_type: 'TextMerge', field: 'FNAME', op: 'blank_not' },
  ],
};

const categories = [
  { title: 'Product Preferences', type: 'checkboxes', interests: ['Donating', 'Volunteering', 'Événements'] },
  { title: 'How often?', type: 'radio', interests: ['Weekly', 'Monthly'] },
  { title: '言語', type: 'dropdown', interests: ['日本語', 'English', 'Українська', 'Français', 'Türkçe'] },
];
const strides = [2, 4, 5, 8, 10, 20, 25];

/**
 * Revisions rename a category with its first interest, and the first list gets another one that no member has chosen.
 */
export function planCategories(
  dice: Dice,
  count: number,
  { index, revision }: Pick<MailingList, 'index' | 'revision'>,
) {
  const suffix = (place: number): string => {
    const renamed = lastTurn(revision, place + 1, 3);
    return renamed === 0 ? '' : ` (${dayOf(renamed)})`;
  };
  /** Every `stride`-th member of the list is interested; null: none is. */
  const interest = (name: string, stride: number | null) => ({ id: dice.hex(10), name, stride });
  const planned = categories.slice(0, count).map(({ title, type, interests }, place) => ({
    id: dice.hex(10),
    title: `${title}${suffix(place)}`,
    type,
    interests: interests.map((name, position) =>
      interest(position === 0 ? `${name}${suffix(place)}` : name, strides[place + position] ?? 2),
    ),
  }));
  const made = index === 0 && count > 0 ? makingRevisions(revision) : [];
  const added = made.map((madeIn) => ({
    madeIn,
    id: dice.hex(10),
    title: `Which event in ${dayOf(madeIn).split(' ')[1]} suits you?`,
    type: 'radio',
    interests: ['Evenings', 'Weekends'].map((name) => interest(name, null)),
  }));
  return [...planned, ...added.filter(({ madeIn }) => isThere(madeIn, revision))];
}

const base = 'https://us10.api.example.test/3.0';

export function apiLink(rel: 'self' | 'parent', path: string) {
  return { rel, href: `${base}${path}`, method: 'GET' };
}

/** The `_links` of a record. */
export function selfLinks(path: string): readonly JsonObject[] {
  return [apiLink('self', path)];
}

/** All that the email connector says about a list: no total, no flag for another page. */
export function listLinks(path: string): JsonObject {
  return {
    links: [
      { ...apiLink('self', path), targetSchema: `${base}/Definitions/CollectionResponse.json` },
      apiLink('parent', '/'),
    ],
  };
}
