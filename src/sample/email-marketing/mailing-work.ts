import type { RevisionClock } from '../revision-time.ts';
import type { MailingList, MailingPlan } from './mailing-plan.ts';
import { MemberBook } from './member-book.ts';
import type { Campaign } from './plan-campaigns.ts';

/** A list while revisions are applied: the plan's part is replaced, members are in the book. */
export interface ListInWork {
  list: MailingList;
  readonly book: MemberBook;
}

/** An account while revisions are applied to it, one after the other. */
export interface MailingWork {
  readonly seed: number;
  readonly lists: ListInWork[];
  campaigns: Campaign[];
  automations: MailingPlan['automations'];
  /** Ids of everything that is deleted and may come back: of lists, campaigns, tags and what else has an id. */
  readonly hidden: Set<string>;
  /** What the revision under way made, by kind: ids, for the following revisions to delete and to bring back. */
  readonly madeLast: Map<string, readonly string[]>;
}

/** One revision under way. */
export interface RevisionUnderWay {
  readonly revision: number;
  readonly clock: RevisionClock;
  /** Who unsubscribed in this revision, by list index. */
  readonly departures: { readonly listIndex: number; readonly index: number; readonly at: number }[];
}

export function startWork(plan: MailingPlan): MailingWork {
  return {
    seed: plan.seed,
    lists: plan.lists.map((list) => ({ list, book: new MemberBook(list) })),
    campaigns: [...plan.campaigns],
    automations: plan.automations,
    hidden: new Set(),
    madeLast: new Map(),
  };
}

/** Lists that are there. */
export function activeLists(work: MailingWork): readonly ListInWork[] {
  return work.lists.filter(({ list }) => !work.hidden.has(list.id));
}

/** Campaigns that are there. */
export function shownCampaigns(work: MailingWork): readonly Campaign[] {
  return work.campaigns.filter(({ id }) => !work.hidden.has(id));
}

export function replaceCampaign(work: MailingWork, campaign: Campaign): void {
  work.campaigns = work.campaigns.map((other) => (other.id === campaign.id ? campaign : other));
}

/**
 * What a revision does with things of its own making, in turns of three: it makes some, the next one deletes them, and
 * the one after brings them back.
 */
export function takeTurns(
  work: MailingWork,
  kind: string,
  revision: number,
  make: () => readonly string[],
): void {
  const made = work.madeLast.get(kind) ?? [];
  switch (revision % 3) {
    case 1:
      work.madeLast.set(kind, make());
      return;
    case 2:
      for (const id of made) work.hidden.add(id);
      return;
    default:
      for (const id of made) work.hidden.delete(id);
  }
}

/** The plan that the work has come to. */
export function finishWork(work: MailingWork): MailingPlan {
  const isShown = ({ id }: { readonly id: string | number }): boolean => !work.hidden.has(String(id));
  const lists = work.lists.map(({ list, book }): MailingList => ({
    ...list,
    isActive: isShown(list),
    revised: book.finish(),
    tags: list.tags.filter(isShown),
    segments: list.segments.filter(isShown),
    categories: list.categories
      .filter(isShown)
      .map((category) => ({ ...category, interests: category.interests.filter(isShown) })),
  }));
  // What was sent to a list and what is automated for it speaks of the list as it is now.
  const now = (list: MailingList): MailingList => lists[list.index] ?? list;
  return {
    seed: work.seed,
    lists: lists.filter(({ isActive }) => isActive),
    campaigns: work.campaigns.filter(isShown).map((campaign) => ({ ...campaign, list: now(campaign.list) })),
    automations: work.automations
      .filter(({ index }) => !work.hidden.has(`automation ${index}`))
      .map((automation) => ({
        ...automation,
        list: automation.list === null ? null : now(automation.list),
      })),
  };
}
