import type { JsonObject } from '../../core/json.ts';
import { hourMs, lastTurn, revisionTime } from '../writing.ts';
import { fewestMembers, type MailingList, slotCount } from './mailing-list.ts';
import { remembered } from '../sample-account.ts';

export type MemberStatus =
  'subscribed' | 'unsubscribed' | 'cleaned' | 'pending' | 'transactional' | 'archived';

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
/** What a revision does to a member, in turns. A deleted one comes back two revisions later. */
const fates = ['edited', 'unsubscribed', 'deleted', 'archived', 'edited'] as const;

/** Decides status and tags; null for a member that came with a revision. */
export function slotOf(list: MailingList, index: number): number | null {
  return index < list.memberCount ? (index * 7 + list.index) % slotCount : null;
}

/** A revision touches every so many-th member: one in a hundred, and more where a list is short; 0: none. */
function gapOf({ memberCount }: MailingList): number {
  if (memberCount < fewestMembers) return 0;
  return memberCount >= 500 ? 100 : memberCount >= 100 ? 20 : 4;
}

function fateOf(list: MailingList, index: number, revision: number): (typeof fates)[number] {
  const gap = gapOf(list);
  return fates[(Math.floor(index / gap) + Math.floor(revision / gap)) % fates.length] ?? 'edited';
}

interface MemberState {
  readonly isThere: boolean;
  readonly status: MemberStatus;
  /** The revision that changed it last; 0: none. */
  readonly changedIn: number;
  readonly isEdited: boolean;
}

export function stateOf(list: MailingList, index: number): MemberState {
  const { revision } = list;
  const slot = slotOf(list, index);
  const newcomer = slot === null ? newcomerAt(list, index) : null;
  if (newcomer !== null) {
    const { joinedIn, place } = newcomer;
    const hasLeft = list.isPassedThrough && place === 0 && joinedIn < revision;
    return { isThere: !hasLeft, status: 'subscribed', changedIn: joinedIn, isEdited: false };
  }
  const status = statusBySlot[slot ?? 0] ?? 'subscribed';
  const gap = gapOf(list);
  const changedIn = gap === 0 ? 0 : lastTurn(revision, index, gap);
  const same = { isThere: true, status, changedIn, isEdited: false };
  if (changedIn === 0) return same;
  const fate = fateOf(list, index, changedIn);
  switch (fate) {
    case 'edited':
      return { ...same, isEdited: true };
    case 'deleted':
      return revision < changedIn + 2 ? { ...same, isThere: false } : { ...same, changedIn: changedIn + 2 };
    case 'unsubscribed':
    case 'archived':
      return { ...same, status: fate };
  }
}

/** Milliseconds since the epoch. */
export function changedAt(list: MailingList, index: number): number {
  const { changedIn } = stateOf(list, index);
  if (index >= list.memberCount) return optedInAt(list, index);
  return changedIn === 0 ? list.importedAt + elapsedMs(list, index) : touchedAt(list, index, changedIn);
}

function touchedAt(list: MailingList, index: number, revision: number): number {
  const gap = gapOf(list);
  const stepMs = Math.max(1, Math.floor((6 * 3_600 * 2 * gap) / (list.memberCount + 2 * gap))) * 1_000;
  return revisionTime(revision) + (1 + Math.floor(index / gap / 2)) * stepMs;
}

/** Grows with the index, at any revision. */
export function optedInAt(list: MailingList, index: number): number {
  if (index >= list.memberCount) {
    const { joinedIn, place } = newcomerAt(list, index);
    return revisionTime(joinedIn) + 7 * hourMs + Math.floor(place / 2) * 1_000;
  }
  // Who joined later also changed later: half the time between, in whole seconds.
  return list.importedAt + Math.floor(elapsedMs(list, index) / 2_000) * 1_000;
}

/**
 * The first members came with one import: they share one time, more of them than fit into a page where the list is long
 * enough. The others follow in groups of three to a second.
 */
function elapsedMs({ memberCount, spanMs }: MailingList, index: number): number {
  const imported = Math.min(1_100, Math.floor(memberCount * 0.6));
  if (index < imported) return 0;
  const groups = Math.max(1, Math.ceil((memberCount - imported) / 3));
  return (Math.floor((index - imported) / 3) + 1) * Math.max(1, Math.floor(spanMs / 1_000 / groups)) * 1_000;
}

/** Imported members have no time of a form. */
export function hasSignupTime(list: MailingList, index: number): boolean {
  return index < list.memberCount && index % 4 === 1;
}

export function isVip(list: MailingList, index: number): boolean {
  return index < list.memberCount && index % 50 === 7;
}

export function isText(list: MailingList, index: number): boolean {
  return index < list.memberCount && index % 10 === 4;
}

export function isInterested(list: MailingList, index: number, stride: number | null): boolean {
  return stride !== null && index < list.memberCount && index % stride === 0;
}

function newcomersEach({ memberCount }: MailingList): number {
  return memberCount < fewestMembers ? 0 : Math.max(1, Math.round(memberCount / 500));
}

function newcomerAt(list: MailingList, index: number): { joinedIn: number; place: number } {
  const each = newcomersEach(list);
  const number = index - list.memberCount;
  return { joinedIn: Math.floor(number / each) + 1, place: number % each };
}

/**
 * One and the same person may be in several lists. The first newcomer of a revision may have been in the list before.
 */
export function personNumberOf(list: MailingList, index: number): number {
  if (index < list.memberCount) return list.firstPerson + index;
  const { joinedIn, place } = newcomerAt(list, index);
  return place === 0 && joinedIn > list.index
    ? 50_000_000 + joinedIn - list.index
    : 20_000_000 + list.index * 2_000_000 + index - list.memberCount;
}

/** One more than the highest index that was ever given out. */
export function indexCount(list: MailingList): number {
  return list.memberCount + list.revision * newcomersEach(list);
}

/** Those who are in the list, as they joined: four bytes each. */
export const membersOf = remembered((list: MailingList) =>
  Uint32Array.from({ length: indexCount(list) }, (_, index) => index).filter(
    (index) => stateOf(list, index).isThere,
  ),
);

/** The same by their last change: an edited member stands behind all that were not edited since. */
export const changedMembersOf = remembered((list: MailingList) => {
  const isTouched = (index: number): boolean => stateOf(list, index).changedIn > 0;
  const touched = Array.from(membersOf(list).filter(isTouched), (index) => ({
    index,
    time: changedAt(list, index),
  }));
  touched.sort((left, right) => left.time - right.time || left.index - right.index);
  const untouched = membersOf(list).filter((index) => !isTouched(index));
  return Uint32Array.from([...untouched, ...touched.map(({ index }) => index)]);
});

/** Whom a revision made unsubscribe, of the first `limit`, and when. */
export function departuresIn(list: MailingList, revision: number, limit: number) {
  const gap = gapOf(list);
  if (gap === 0) return [];
  return Array.from({ length: Math.min(limit, list.memberCount) }, (_, index) => index)
    .filter((index) => index % gap === revision % gap && fateOf(list, index, revision) === 'unsubscribed')
    .map((index) => ({ index, at: touchedAt(list, index, revision) }));
}

/** What the third party sends where there is something to say. */
export function rareFields(index: number, since: string): JsonObject {
  const phone = { sms_phone_number: `+1555010${100 + (index % 900)}`, sms_subscription_status: 'subscribed' };
  switch (index % 16) {
    case 3:
      return { marketing_permissions: [{ marketing_permission_id: 'a1b2c3', text: 'Email', enabled: true }] };
    case 5:
      return { last_note: { note_id: index, created_at: since, created_by: 'Editor', note: 'Called back' } };
    case 9:
      return { ...phone, sms_subscription_last_updated: since };
    default:
      return {};
  }
}
