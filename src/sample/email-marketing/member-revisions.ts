import { memberOrders, type MemberOrders } from './member-orders.ts';
import type { MemberStatus } from './member-slots.ts';

/** What revisions made of one member. Its index stays, whatever happens to it. */
export interface MemberState {
  /** A deleted member is in no list and in no count. */
  readonly isThere: boolean;
  /** Milliseconds since the epoch. */
  readonly changedAt: number;
  /** How often its merge fields were edited. */
  readonly edits: number;
  /** Null: the status of its slot. */
  readonly status: MemberStatus | null;
  /** Ids of the tags that it has besides those of its slot. */
  readonly tags: readonly number[];
}

/** A member that came with a revision: a new person, or one who left another list. */
export interface AddedMember {
  /** The number that `personAt` knows the person by. */
  readonly person: number;
  readonly joinedAt: number;
}

/** What all revisions so far did to a list's members; as large as what they touched, not as the list. */
export interface MemberRevisions {
  /** By member index: those that were touched, and all added ones. */
  readonly states: ReadonlyMap<number, MemberState>;
  /** They have the indexes after those of the members that were there from the beginning, oldest first. */
  readonly added: readonly AddedMember[];
  readonly orders: MemberOrders;
}

export function memberRevisions(
  memberCount: number,
  states: ReadonlyMap<number, MemberState>,
  added: readonly AddedMember[],
): MemberRevisions {
  return { states, added, orders: memberOrders(memberCount, states) };
}
