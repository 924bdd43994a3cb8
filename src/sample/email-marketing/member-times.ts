import { dayMs } from '../times.ts';
import type { MailingList } from './mailing-plan.ts';

/**
 * Times of a list's members, by member index, in milliseconds since the epoch. All of them grow (or stay) with the
 * index as long as no revision touched the list; `optedInAt` always does.
 */
export interface MemberTimes {
  readonly changedAt: (index: number) => number;
  /** What `changedAt` was before all revisions. */
  readonly firstChangedAt: (index: number) => number;
  readonly optedInAt: (index: number) => number;
}

const spanSeconds = (900 * dayMs) / 1000;
/** Members that change in one second, outside the import. */
const groupSize = 3;

/**
 * The first members came with one import: they share one `last_changed`, more of them than fit into a page where the
 * list is long enough. The others follow in groups of three to a second.
 */
export function memberTimes(list: MailingList): MemberTimes {
  const imported = Math.min(1_100, Math.floor(list.memberCount * 0.6));
  const importedAt = list.createdAt + dayMs;
  const groups = Math.max(1, Math.ceil((list.memberCount - imported) / groupSize));
  const stepMs = Math.max(1, Math.floor(spanSeconds / groups)) * 1000;
  const elapsed = (index: number): number =>
    index < imported ? 0 : (Math.floor((index - imported) / groupSize) + 1) * stepMs;
  const { states, added } = list.revised;
  const firstChangedAt = (index: number): number => importedAt + elapsed(index);
  return {
    changedAt: (index) => states.get(index)?.changedAt ?? firstChangedAt(index),
    firstChangedAt,
    // Whoever joined later also changed later: half the time between, in whole seconds.
    optedInAt: (index) =>
      added[index - list.memberCount]?.joinedAt ?? importedAt + Math.floor(elapsed(index) / 2000) * 1000,
  };
}

/** Members that came through a form have a time of their own for it; the imported ones have "". */
export function hasSignupTime(index: number): boolean {
  return index % 4 === 1;
}

/** The first number below `size` whose time is not below `bound` (`size` when there is none). */
export function firstIndexSince(timeAt: (index: number) => number, size: number, bound: number): number {
  let low = 0;
  let high = size;
  while (low < high) {
    const middle = Math.floor((low + high) / 2);
    if (timeAt(middle) < bound) low = middle + 1;
    else high = middle;
  }
  return low;
}
