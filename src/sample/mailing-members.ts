import { hash } from 'node:crypto';
import type { JsonObject } from '../core/json.ts';
import type { Params } from '../core/records.ts';
import { computedListing, type Listing, remembered, timeTest } from './sample-account.ts';
import {
  type Dice,
  diceFor,
  hourMs,
  isoSeconds,
  type Person,
  personAt,
  revisionTime,
} from './sample-values.ts';

/** A mailing list whose members are computed from (seed, index, revision) when they are asked for. */
export interface MailingList {
  readonly seed: number;
  readonly revision: number;
  readonly index: number;
  readonly id: string;
  /** Members that were there from the beginning, and the number of the first one's person; the others follow. */
  readonly memberCount: number;
  readonly firstPerson: number;
  /** The first of those whom a revision brings moves on to the next list with the next revision. */
  readonly isPassedThrough: boolean;
  /** When the first members came, all at once, and within what time the others did. */
  readonly importedAt: number;
  readonly spanMs: number;
  /** A tag sits on the members of its slots. */
  readonly tags: readonly { readonly id: number; readonly name: string; readonly slots: readonly number[] }[];
  /** Every `stride`-th member is interested. */
  readonly interests: readonly {
    readonly id: string;
    readonly categoryId: string;
    readonly stride: number;
  }[];
}

const slotCount = 20;
const statuses = (
  'subscribed '.repeat(13) + 'unsubscribed unsubscribed cleaned pending transactional archived subscribed'
).split(' ');
/** Changes that revisions make to members, in turns. A deleted member comes back two revisions later. */
const fates = ['edited', 'unsubscribed', 'deleted', 'archived', 'edited'];

/** Decides status and tags of a member. Revisions bring members without one. */
export function slotOf({ memberCount, index: list }: MailingList, index: number): number | null {
  return index < memberCount ? (index * 7 + list) % slotCount : null;
}

/** Every so many-th member is touched by a revision; 0: none, as in short lists. */
function gapOf({ memberCount }: MailingList): number {
  return memberCount < 10 ? 0 : memberCount < 100 ? 4 : memberCount < 500 ? 20 : 100;
}

function fateIn(list: MailingList, index: number, revision: number): string {
  const gap = gapOf(list);
  return fates[(Math.floor(index / gap) + Math.floor(revision / gap)) % fates.length] ?? '';
}

/** `changedIn`: the revision that changed the member last; 0: none. */
export function stateOf(list: MailingList, index: number) {
  const { revision } = list;
  const slot = slotOf(list, index);
  if (slot === null) {
    const { joinedIn, place } = newcomerAt(list, index);
    const hasLeft = list.isPassedThrough && place === 0 && joinedIn < revision;
    return { isThere: !hasLeft, status: 'subscribed', changedIn: joinedIn, isEdited: false };
  }
  const gap = gapOf(list);
  const touchedIn = gap === 0 ? 0 : Math.max(0, revision - ((((revision - index) % gap) + gap) % gap));
  const fate = touchedIn === 0 ? '' : fateIn(list, index, touchedIn);
  const isBack = fate === 'deleted' && revision >= touchedIn + 2;
  return {
    isThere: fate !== 'deleted' || isBack,
    status: fate === 'unsubscribed' || fate === 'archived' ? fate : statusIn(list, index),
    changedIn: isBack ? touchedIn + 2 : touchedIn,
    isEdited: fate === 'edited',
  };
}

function changedAt(list: MailingList, index: number): number {
  if (index >= list.memberCount) return optedInAt(list, index);
  const { changedIn } = stateOf(list, index);
  return changedIn === 0 ? list.importedAt + elapsedMs(list, index) : touchedAt(list, index, changedIn);
}

/** Two members share a time. */
function touchedAt(list: MailingList, index: number, revision: number): number {
  return revisionTime(revision) + (1 + Math.floor(index / gapOf(list) / 2)) * 2_000;
}

/** Grows with the index, at any revision. */
export function optedInAt(list: MailingList, index: number): number {
  if (index < list.memberCount) return list.importedAt + Math.floor(elapsedMs(list, index) / 2_000) * 1_000;
  const { joinedIn, place } = newcomerAt(list, index);
  return revisionTime(joinedIn) + 7 * hourMs + Math.floor(place / 2) * 1_000;
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

function newcomersEach({ memberCount }: MailingList): number {
  return memberCount < 10 ? 0 : Math.max(1, Math.round(memberCount / 500));
}

function newcomerAt(list: MailingList, index: number) {
  const each = newcomersEach(list);
  const number = index - list.memberCount;
  return { joinedIn: Math.floor(number / each) + 1, place: number % each };
}

/** One and the same person may be in several lists; the first newcomer of a revision was in the list before. */
export function personOf(list: MailingList, index: number): Person {
  const { seed, memberCount, firstPerson, index: place } = list;
  if (index < memberCount) return personAt(seed, firstPerson + index);
  const newcomer = newcomerAt(list, index);
  const isPassedOn = newcomer.place === 0 && newcomer.joinedIn > place;
  const own = 20_000_000 + place * 2_000_000 + index - memberCount;
  return personAt(seed, isPassedOn ? 50_000_000 + newcomer.joinedIn - place : own);
}

/** One more than the highest index that was ever given out. */
export function indexCount(list: MailingList): number {
  return list.memberCount + list.revision * newcomersEach(list);
}

/** Indexes of those who are in the list, as they joined: four bytes each. */
export const membersOf = remembered((list: MailingList) =>
  Uint32Array.from({ length: indexCount(list) }, (_, index) => index).filter(
    (index) => stateOf(list, index).isThere,
  ),
);

/** The same by their last change: an edited member stands behind all that were not edited since. */
const changedMembersOf = remembered((list: MailingList) => {
  const touched = membersOf(list).filter((index) => stateOf(list, index).changedIn > 0);
  const times = new Map(Array.from(touched, (index) => [index, changedAt(list, index)]));
  touched.sort((left, right) => (times.get(left) ?? 0) - (times.get(right) ?? 0) || left - right);
  return Uint32Array.from([...membersOf(list).filter((index) => !times.has(index)), ...touched]);
});

/** The first time that a revision made a member unsubscribe, if one did. */
export function departureOf(list: MailingList, index: number): readonly { index: number; at: number }[] {
  const gap = gapOf(list);
  if (gap === 0) return [];
  for (let revision = index % gap || gap; revision <= list.revision; revision += gap) {
    if (fateIn(list, index, revision) === 'unsubscribed') {
      return [{ index, at: touchedAt(list, index, revision) }];
    }
  }
  return [];
}

/** Before all revisions. */
export function statusIn(list: MailingList, index: number): string {
  return statuses[slotOf(list, index) ?? 0] ?? '';
}

/** The members that a list was last asked for: the next pages are of the same ones. */
const lastAsked = new WeakMap<MailingList, { readonly name: string; readonly members: Uint32Array }>();

/** The members of a list: as they joined, or sorted. Only the records of a page are made. */
export function memberListing(list: MailingList, params: Params): Listing {
  const name = JSON.stringify({ ...params, offset: null, count: null });
  const last = lastAsked.get(list);
  const members = last?.name === name ? last.members : selectMembers(list, params);
  lastAsked.set(list, { name, members });
  return computedListing(members.length, (position) => memberRecord(list, members[position] ?? 0));
}

function selectMembers(list: MailingList, params: Params): Uint32Array {
  const { sort_field: field, sort_dir: direction } = params;
  const tests = memberTests(list, params);
  const sorted = field === 'last_changed' ? changedMembersOf(list) : membersOf(list);
  let members = sorted.filter((index) => tests.every((test) => test(index)));
  if (field === 'timestamp_signup') {
    // Members without a signup time have "", which sorts before every time.
    const timed = (wanted: boolean) => members.filter((index) => traitsOf(list, index).isForm === wanted);
    members = Uint32Array.from([...timed(false), ...timed(true)]);
  }
  return field !== undefined && direction === 'DESC' ? members.reverse() : members;
}

/** The filters that parameters ask for. */
function memberTests(list: MailingList, params: Params): readonly ((index: number) => boolean)[] {
  const { status, email_type: type, vip_only: isVipOnly, unique_email_id: uniqueId } = params;
  const times = Object.entries(params).flatMap(([name, value]) => {
    const timeOf = name.endsWith('_last_changed') ? changedAt : name.endsWith('_opt') ? optedInAt : null;
    if (timeOf === null) return [];
    const passes = timeTest(name, value);
    return [(index: number) => passes(timeOf(list, index))];
  });
  return [
    ...(status === undefined ? [] : [(index: number) => stateOf(list, index).status === status]),
    ...(type === undefined ? [] : [(index: number) => (type === 'text') === traitsOf(list, index).isText]),
    ...(isVipOnly === true ? [(index: number) => traitsOf(list, index).isVip] : []),
    ...(uniqueId === undefined ? [] : [(index: number) => diceOf(list, index).hex(10) === uniqueId]),
    ...interestTests(list, params),
    ...times,
  ];
}

/** `interest_ids` are separated by commas and must be in the category; `interest_match` is `any` unless it is given. */
function interestTests(list: MailingList, params: Params): readonly ((index: number) => boolean)[] {
  const { interest_category_id: category, interest_ids: ids, interest_match: match } = params;
  if (category === undefined && ids === undefined) return [];
  const wanted = typeof ids === 'string' ? ids.split(',').map((id) => id.trim()) : null;
  const interests = list.interests.filter(
    ({ id, categoryId }) =>
      (category === undefined || categoryId === category) && (wanted === null || wanted.includes(id)),
  );
  if (interests.length === 0) return [() => false];
  return [
    (index) => {
      const has = interests.map(({ stride }) => isInterested(list, index, stride));
      return match === 'all' ? has.every(Boolean) : has.some(Boolean) === (match !== 'none');
    },
  ];
}

export function traitsOf({ memberCount }: MailingList, index: number) {
  const isOld = index < memberCount;
  // Imported members have no time of a form.
  return {
    isForm: isOld && index % 4 === 1,
    isVip: isOld && index % 50 === 7,
    isText: isOld && index % 10 === 4,
  };
}

export function isInterested({ memberCount }: MailingList, index: number, stride: number): boolean {
  return index < memberCount && index % stride === 0;
}

/** MD5 of the lower-case address: what the third party calls the subscriber hash. */
export function memberId(email: string): string {
  return hash('md5', email.toLowerCase());
}

/** As the email service writes times: `2022-12-27T08:12:59+00:00`. */
export function mailingTime(ms: number): string {
  return isoSeconds(ms, '+00:00');
}

/** The unique email id is the first throw: it can be had without the record. */
function diceOf(list: MailingList, index: number): Dice {
  return diceFor(list.seed, 2, list.index, index);
}

export function memberRecord(list: MailingList, index: number): JsonObject {
  const dice = diceOf(list, index);
  const person = personOf(list, index);
  const { status, isEdited, changedIn } = stateOf(list, index);
  const slot = slotOf(list, index);
  const tags = list.tags.filter(({ slots }) => slot !== null && slots.includes(slot));
  const optedIn = mailingTime(optedInAt(list, index));
  const { isForm, isVip, isText } = traitsOf(list, index);
  return {
    id: memberId(person.email),
    email_address: person.email,
    unique_email_id: dice.hex(10),
    contact_id: dice.hex(32),
    full_name: person.name,
    web_id: 546_000_000 + index,
    email_type: isText ? 'text' : 'html',
    status,
    ...(status === 'unsubscribed' ? { unsubscribe_reason: 'N/A (Unsubscribed by admin)' } : {}),
    consents_to_one_to_one_messaging: index % 6 !== 5,
    merge_fields: { ...mergeFields(person, dice), ...(isEdited ? { PHONE: `555-0${200 + changedIn}` } : {}) },
    interests: Object.fromEntries(
      list.interests.map(({ id, stride }) => [id, isInterested(list, index, stride)]),
    ),
    stats: {
      avg_open_rate: dice.below(101) / 100,
      avg_click_rate: dice.below(101) / 100,
      ...(index % 8 === 3
        ? { ecommerce_data: { total_revenue: 12.5, number_of_orders: 2, currency_code: 'USD' } }
        : {}),
    },
    ip_signup: isForm ? `192.0.2.${dice.below(256)}` : '',
    timestamp_signup: isForm ? optedIn : '',
    ip_opt: `198.51.100.${dice.below(256)}`,
    timestamp_opt: optedIn,
    member_rating: 1 + dice.below(5),
    last_changed: mailingTime(changedAt(list, index)),
    language: dice.pick(['', '', 'en', 'de', 'ja']),
    vip: isVip,
    email_client: dice.pick(['', 'Gmail', 'Apple Mail', 'Outlook 365']),
    location: dice.pick(locations),
    source: isForm ? 'Embed Form' : 'Import',
    tags_count: tags.length,
    tags: tags.map(({ id, name }) => ({ id, name })),
    list_id: list.id,
    ...rareFields(index, optedIn),
  };
}

const nowhere = {
  latitude: 0,
  longitude: 0,
  gmtoff: 0,
  dstoff: 0,
  country_code: '',
  timezone: '',
  region: '',
};
const place = { latitude: 40.7, longitude: -74.1, gmtoff: -5, dstoff: -4, country_code: 'US', region: 'NY' };
const locations = [nowhere, { ...place, timezone: 'America/New_York' }] as const;

/** ADDRESS is "" or an object, as the third party sends it. */
export function mergeFields({ first, last }: Person, dice: Dice): JsonObject {
  const city = dice.pick(['Gary', 'Kyiv', 'Łódź', '大阪']);
  const street = { addr1: `${1 + dice.below(300)} Main St`, addr2: '' };
  return {
    FNAME: first,
    LNAME: last,
    ADDRESS: dice.chance(40) ? { ...street, city, state: 'IN', zip: '46401', country: 'US' } : '',
    PHONE: dice.chance(30) ? `555-01${10 + dice.below(90)}` : '',
    BIRTHDAY: dice.chance(30) ? `0${1 + dice.below(9)}/1${dice.below(10)}` : '',
  };
}

/** Fields that the third party sends where there is something to say. */
function rareFields(index: number, since: string): JsonObject {
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

/** The first four bytes of each member's id. */
const idPrefixes = remembered((list: MailingList) =>
  Uint32Array.from({ length: indexCount(list) }, (_, index) =>
    prefixOf(memberId(personOf(list, index).email)),
  ),
);

function prefixOf(id: string): number {
  return Number.parseInt(id.slice(0, 8), 16);
}

/**
 * Finds a member by the hash of its address; null: there is none. A hash cannot be turned round: the first look-up in a
 * list computes the hashes of all its members and keeps four bytes of each, 4 MB and about a second for a million.
 */
export function findMember(list: MailingList, id: string): JsonObject | null {
  const wanted = id.toLowerCase();
  const prefixes = idPrefixes(list);
  const prefix = prefixOf(wanted);
  for (let index = prefixes.indexOf(prefix); index >= 0; index = prefixes.indexOf(prefix, index + 1)) {
    if (memberId(personOf(list, index).email) === wanted) {
      return stateOf(list, index).isThere ? memberRecord(list, index) : null;
    }
  }
  return null;
}
