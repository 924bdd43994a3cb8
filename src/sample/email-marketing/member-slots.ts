import type { MailingList } from './mailing-plan.ts';

export type MemberStatus =
  'subscribed' | 'unsubscribed' | 'cleaned' | 'pending' | 'transactional' | 'archived';

/**
 * Members take turns in twenty slots, and the slot decides status and tags: so the members of a status, a tag or a
 * segment can be counted and found by arithmetic, however long the list is.
 */
export const slotCount = 20;
const step = 7;
/** 7 * 3 = 21, so multiplying by 3 undoes the step. */
const stepBack = 3;

const statusBySlot: readonly MemberStatus[] = [
  ...Array.from({ length: 13 }, () => 'subscribed' as const),
  'unsubscribed',
  'unsubscribed',
  'cleaned',
  'pending',
  'transactional',
  'archived',
  'subscribed',
];

export function slotOf(list: MailingList, index: number): number {
  return (index * step + list.index) % slotCount;
}

export function statusOf(list: MailingList, index: number): MemberStatus {
  return list.revised.states.get(index)?.status ?? originalStatusOf(list, index);
}

/** The status that a member joined with. */
export function originalStatusOf(list: MailingList, index: number): MemberStatus {
  return statusBySlot[slotOf(list, index)] ?? 'subscribed';
}

export function isSubscribedSlot(slot: number): boolean {
  return statusBySlot[slot] === 'subscribed';
}

export function slotsOfStatus(status: MemberStatus): readonly number[] {
  return statusBySlot.flatMap((candidate, slot) => (candidate === status ? [slot] : []));
}

/** Some of the numbers 0 to limit - 1: those whose remainder by `modulus` is one of `residues` (ascending). */
export interface Stride {
  readonly residues: readonly number[];
  readonly modulus: number;
  readonly limit: number;
}

/** The members (of the first `limit`) that sit in these slots. */
export function strideOfSlots(list: MailingList, slots: readonly number[], limit: number): Stride {
  const residues = slots.map(
    (slot) => ((slot - (list.index % slotCount) + slotCount) * stepBack) % slotCount,
  );
  return { residues: residues.sort((left, right) => left - right), modulus: slotCount, limit };
}

/** Every `turns`-th round of a stride, beginning with round `turn`. */
export function everyTurn(stride: Stride, turn: number, turns: number): Stride {
  return {
    residues: stride.residues.map((residue) => residue + turn * stride.modulus),
    modulus: stride.modulus * turns,
    limit: stride.limit,
  };
}

export function strideSize({ residues, modulus, limit }: Stride): number {
  return residues.reduce(
    (size, residue) => size + (residue < limit ? Math.floor((limit - 1 - residue) / modulus) + 1 : 0),
    0,
  );
}

/** The number at a position (from 0), ascending. */
export function strideAt({ residues, modulus }: Stride, position: number): number {
  const round = Math.floor(position / residues.length);
  return round * modulus + (residues[position % residues.length] ?? 0);
}
