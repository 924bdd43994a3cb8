import type { MailingList } from './mailing-plan.ts';
import type { MemberState } from './member-revisions.ts';
import { originalStatusOf, slotOf } from './member-slots.ts';
import type { Segment } from './plan-segments.ts';

/** Whether a member is in a segment: subscribed, and in one of its slots or under its tag. */
export function isInSegment(
  list: MailingList,
  segment: Segment,
  index: number,
  state: MemberState | undefined = list.revised.states.get(index),
): boolean {
  if (state?.isThere === false) return false;
  if ((state?.status ?? originalStatusOf(list, index)) !== 'subscribed') return false;
  return segment.slots.includes(slotOf(list, index)) || state?.tags.includes(segment.id) === true;
}
