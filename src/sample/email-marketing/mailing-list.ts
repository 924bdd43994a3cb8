import type { JsonObject } from '../../core/json.ts';

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

/** A tag sits on the members of its slots. */
export interface Tag {
  readonly id: number;
  readonly name: string;
  readonly slots: readonly number[];
}

export interface Segment {
  readonly id: number;
  readonly name: string;
  readonly type: 'static' | 'saved';
  readonly createdAt: number;
  readonly updatedAt: number;
  /** Only subscribed members: the third party leaves the others out of a segment. */
  readonly slots: readonly number[];
  readonly options: JsonObject;
}

export interface InterestCategory {
  readonly id: string;
  readonly title: string;
  readonly type: string;
  readonly interests: readonly Interest[];
}

interface Interest {
  readonly id: string;
  readonly name: string;
  /** Every `stride`-th member of the list is interested; null: none is. */
  readonly stride: number | null;
}

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
