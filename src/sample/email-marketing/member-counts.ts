import { dayMs } from '../times.ts';
import type { MailingList } from './mailing-plan.ts';
import {
  originalStatusOf,
  slotsOfStatus,
  statusOf,
  strideOfSlots,
  strideSize,
  type MemberStatus,
} from './member-slots.ts';
import { memberTimes } from './member-times.ts';

/** How many members a list has of each status: counted by arithmetic, then corrected by what revisions touched. */
export function statusCounts(list: MailingList): (status: MemberStatus) => number {
  const corrections = new Map<MemberStatus, number>();
  const correct = (status: MemberStatus, by: number): void =>
    void corrections.set(status, (corrections.get(status) ?? 0) + by);
  for (const [index, { isThere }] of list.revised.states) {
    if (index < list.memberCount) correct(originalStatusOf(list, index), -1);
    if (isThere) correct(statusOf(list, index), 1);
  }
  return (status) =>
    strideSize(strideOfSlots(list, slotsOfStatus(status), list.memberCount)) + (corrections.get(status) ?? 0);
}

export function totalCount(list: MailingList): number {
  return list.revised.orders.areOne ? list.memberCount : list.revised.orders.joined().size;
}

/** How many members have an interest; null: nobody has. */
export function interestedCount(list: MailingList, stride: number | null): number {
  if (stride === null) return 0;
  let count = Math.ceil(list.memberCount / stride);
  for (const [index, { isThere }] of list.revised.states) {
    if (index % stride !== 0) continue;
    if (index < list.memberCount) count -= 1;
    if (isThere) count += 1;
  }
  return count;
}

/** When somebody unsubscribed last, in milliseconds since the epoch. */
export function lastUnsubscribed(list: MailingList): number {
  const original = memberTimes(list).firstChangedAt(list.memberCount - 1) + dayMs;
  let last = original;
  for (const { status, changedAt } of list.revised.states.values()) {
    if (status === 'unsubscribed') last = Math.max(last, changedAt);
  }
  return last;
}
