import { dayMs, sampleStart } from '../times.ts';
import { diceFor } from '../dice.ts';
import type { SampleSize } from '../sample-account.ts';
import { memberRevisions, type MemberRevisions } from './member-revisions.ts';
import { planAutomations, type Automation } from './plan-automations.ts';
import { planCampaigns, type Campaign } from './plan-campaigns.ts';
import { planSegments, planTags, type Segment, type Tag } from './plan-segments.ts';
import { kind } from './kinds.ts';
import { planCategories, type InterestCategory } from './plan-interests.ts';

/** What is behind one account: everything but the rows that grow with the members, which are computed when asked for. */
export interface MailingPlan {
  readonly seed: number;
  readonly lists: readonly MailingList[];
  readonly campaigns: readonly Campaign[];
  readonly automations: readonly Automation[];
}

export interface MailingList {
  readonly seed: number;
  readonly index: number;
  readonly id: string;
  readonly webId: number;
  readonly name: string;
  /** Of those that were there from the beginning. */
  readonly memberCount: number;
  readonly revised: MemberRevisions;
  /** False: the list was deleted, and only what it once got still speaks of it. */
  readonly isActive: boolean;
  readonly createdAt: number;
  readonly tags: readonly Tag[];
  readonly segments: readonly Segment[];
  readonly categories: readonly InterestCategory[];
}

interface Shape {
  readonly members: readonly number[];
  readonly campaigns: number;
  readonly automations: number;
  readonly tagsPerList: number;
  readonly categoriesPerList: number;
}

const smallShape: Shape = {
  members: [2300, 900, 430, 57, 1, 0],
  campaigns: 30,
  automations: 7,
  tagsPerList: 5,
  categoriesPerList: 3,
};
const tinyShape: Shape = {
  members: [23, 0],
  campaigns: 5,
  automations: 2,
  tagsPerList: 2,
  categoriesPerList: 1,
};

export function planMailing(seed: number, size: SampleSize): MailingPlan {
  const shape = shapeOf(size);
  const lists = shape.members.map((members, index) => planList(seed, index, members, shape));
  return {
    seed,
    lists,
    campaigns: planCampaigns(seed, lists, shape.campaigns),
    automations: planAutomations(lists, shape.automations),
  };
}

function shapeOf(size: SampleSize): Shape {
  if (size === 'small') return smallShape;
  if (size === 'tiny') return tinyShape;
  // Nearly all calls go to the members: that is what the size is for.
  return { members: [size.members], campaigns: 2, automations: 1, tagsPerList: 0, categoriesPerList: 1 };
}

const listNames = [
  'Customers',
  'Новости и скидки',
  'Frühaufsteher & Freunde',
  '読者の会',
  'Beta testers 🚀',
  'Nobody yet',
];

function planList(seed: number, index: number, memberCount: number, shape: Shape): MailingList {
  const dice = diceFor(seed, kind.list, index);
  const createdAt = sampleStart + index * 40 * dayMs;
  // The last lists have no tags and no categories at all.
  const tags = planTags(dice, memberCount > 0 ? Math.max(0, shape.tagsPerList - index) : 0);
  const categories = Math.max(0, shape.categoriesPerList - index);
  return {
    seed,
    index,
    id: dice.hex(10),
    webId: 900_000 + dice.below(90_000),
    name: listNames[index % listNames.length] ?? 'Customers',
    memberCount,
    revised: memberRevisions(memberCount, new Map(), []),
    isActive: true,
    createdAt,
    tags,
    segments: planSegments(dice, tags, createdAt),
    categories: planCategories(dice, categories),
  };
}

/** A list that was made after the others, without tags, segments and interests. */
export function planEmptyList(seed: number, index: number, createdAt: number): MailingList {
  return { ...planList(seed, index, 0, shapeOf({ members: 0 })), createdAt, categories: [] };
}
