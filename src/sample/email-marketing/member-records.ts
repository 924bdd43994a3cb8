import { hash } from 'node:crypto';
import type { JsonObject, JsonValue } from '../../core/json.ts';
import type { Params } from '../../core/records.ts';
import { type Dice, diceFor } from '../dice.ts';
import { type Person, personAt } from '../people.ts';
import { computedListing, type Listing, remembered, timeParameter } from '../sample-account.ts';
import { mailingTime, textOf } from '../writing.ts';
import { kind, type MailingList, apiLink, listLinks } from './mailing-list.ts';
import {
  changedAt,
  changedMembersOf,
  hasSignupTime,
  indexCount,
  isInterested,
  isText,
  isVip,
  membersOf,
  optedInAt,
  personNumberOf,
  rareFields,
  slotOf,
  stateOf,
} from './members.ts';

/** MD5 of the lower-case address: what the third party calls the subscriber hash. */
export function memberId(email: string): string {
  return hash('md5', email.toLowerCase());
}

export function memberPerson(list: MailingList, index: number): Person {
  return personAt(list.seed, personNumberOf(list, index));
}

/** What was last asked of a list, without the page of it: the next pages are of the same members. */
const lastAsked = new WeakMap<MailingList, { readonly name: string; readonly members: Uint32Array }>();

/** The members of a list: as they joined, or sorted. Only the records of a page are made. */
export function memberListing(list: MailingList, params: Params): Listing {
  const name = JSON.stringify({ ...params, offset: null, count: null });
  const last = lastAsked.get(list);
  const members = last?.name === name ? last.members : selectMembers(list, params);
  lastAsked.set(list, { name, members });
  return computedListing(
    members.length,
    (position) => memberRecord(list, members[position] ?? 0),
    listLinks(`/lists/${list.id}/members`),
  );
}

function selectMembers(list: MailingList, params: Params): Uint32Array {
  const { sort_field: field, sort_dir: direction } = params;
  const sorted = field === 'last_changed' ? changedMembersOf(list) : membersOf(list);
  const passing = sorted.filter(memberTest(list, params));
  const timed = (wanted: boolean): Uint32Array =>
    passing.filter((index) => hasSignupTime(list, index) === wanted);
  // Members without a signup time have "", which sorts before every time.
  const members =
    field === 'timestamp_signup' ? Uint32Array.from([...timed(false), ...timed(true)]) : passing;
  return field !== undefined && direction === 'DESC' ? members.reverse() : members;
}

/** Whether a member passes the filters. */
function memberTest(list: MailingList, params: Params): (index: number) => boolean {
  const { status, email_type: type, vip_only: isVipOnly, unique_email_id: uniqueId } = params;
  const interests = interestTest(list, params);
  const isChanged = timeTest(params, 'last_changed', (index) => changedAt(list, index));
  const isOptedIn = timeTest(params, 'timestamp_opt', (index) => optedInAt(list, index));
  return (index) =>
    (status === undefined || stateOf(list, index).status === status) &&
    (type === undefined || (type === 'text') === isText(list, index)) &&
    (isVipOnly !== true || isVip(list, index)) &&
    interests(index) &&
    isChanged(index) &&
    isOptedIn(index) &&
    (uniqueId === undefined || diceOf(list, index).hex(10) === uniqueId);
}

/** Within `since_<name>` and `before_<name>`, both inclusive. */
function timeTest(
  params: Params,
  name: string,
  timeOf: (index: number) => number,
): (index: number) => boolean {
  const { [`since_${name}`]: since, [`before_${name}`]: before } = params;
  if (since === undefined && before === undefined) return () => true;
  const from = since === undefined ? Number.NEGATIVE_INFINITY : timeParameter(`since_${name}`, since);
  const to = before === undefined ? Number.POSITIVE_INFINITY : timeParameter(`before_${name}`, before);
  return (index) => timeOf(index) >= from && timeOf(index) <= to;
}
/** `interest_ids` are separated by commas and must be in the category; `interest_match` is `any` unless it is given. */
function interestTest(list: MailingList, params: Params): (index: number) => boolean {
  const { interest_category_id: categoryId, interest_ids: ids } = params;
  if (typeof categoryId !== 'string' && typeof ids !== 'string') return () => true;
  const wanted = typeof ids === 'string' ? ids.split(',').map((id) => id.trim()) : null;
  const interests = list.categories
    .filter(({ id }) => categoryId === undefined || id === categoryId)
    .flatMap((category) => category.interests)
    .filter(({ id, stride }) => stride !== null && (wanted === null || wanted.includes(id)));
  if (interests.length === 0) return () => false;
  const match = textOf(params['interest_match']);
  return (index) => {
    const has = interests.map(({ stride }) => isInterested(list, index, stride));
    return match === 'all' ? has.every(Boolean) : has.some(Boolean) === (match !== 'none');
  };
}

/** The unique email id is the first throw: it can be had without the record. */
function diceOf(list: MailingList, index: number): Dice {
  return diceFor(list.seed, kind.member, list.index, index);
}

export function memberRecord(list: MailingList, index: number): JsonObject {
  const dice = diceOf(list, index);
  const person = memberPerson(list, index);
  const id = memberId(person.email);
  const { status, isEdited, changedIn } = stateOf(list, index);
  const slot = slotOf(list, index);
  const tags = list.tags
    .filter(({ slots }) => slot !== null && slots.includes(slot))
    .map((tag) => ({ id: tag.id, name: tag.name }));
  const optedIn = mailingTime(optedInAt(list, index));
  const isForm = hasSignupTime(list, index);
  const path = `/lists/${list.id}/members`;
  return {
    id,
    email_address: person.email,
    unique_email_id: dice.hex(10),
    contact_id: dice.hex(32),
    full_name: `${person.first} ${person.last}`.trim(),
    web_id: 546_000_000 + index,
    email_type: isText(list, index) ? 'text' : 'html',
    status,
    ...(status === 'unsubscribed' ? { unsubscribe_reason: 'N/A (Unsubscribed by admin)' } : {}),
    consents_to_one_to_one_messaging: index % 6 !== 5,
    merge_fields: { ...mergeFields(person, dice), ...(isEdited ? { PHONE: `555-0${200 + changedIn}` } : {}) },
    interests: Object.fromEntries(
      list.categories.flatMap(({ interests }) =>
        // One that no member has is in no member: to put it there would change them all.
        interests
          .filter(({ stride }) => stride !== null)
          .map((interest) => [interest.id, isInterested(list, index, interest.stride)]),
      ),
    ),
    stats: memberStats(dice, index),
    ip_signup: isForm ? `192.0.2.${dice.below(256)}` : '',
    timestamp_signup: isForm ? optedIn : '',
    ip_opt: `198.51.100.${dice.below(256)}`,
    timestamp_opt: optedIn,
    member_rating: 1 + dice.below(5),
    last_changed: mailingTime(changedAt(list, index)),
    language: dice.pick(['', '', 'en', 'de', 'ja']),
    vip: isVip(list, index),
    email_client: dice.pick(['', 'Gmail', 'Apple Mail', 'Outlook 365']),
    location: locationOf(dice),
    source: isForm ? 'Embed Form' : 'Import',
    tags_count: tags.length,
    tags,
    list_id: list.id,
    ...rareFields(index, optedIn),
    _links: [apiLink('self', `${path}/${id}`), apiLink('parent', path)],
  };
}

/** ADDRESS is "" or an object, as the third party sends it. */
export function mergeFields(person: Person, dice: Dice): JsonObject {
  const address: JsonValue = dice.chance(40)
    ? {
        addr1: `${1 + dice.below(300)} Main St`,
        addr2: '',
        city: dice.pick(['Gary', 'Kyiv', 'Łódź', '大阪']),
        state: 'IN',
        zip: String(10_000 + dice.below(89_999)),
        country: 'US',
      }
    : '';
  return {
    FNAME: person.first,
    LNAME: person.last,
    ADDRESS: address,
    PHONE: dice.chance(30) ? `555-01${10 + dice.below(90)}` : '',
    BIRTHDAY: dice.chance(30) ? `0${1 + dice.below(9)}/1${dice.below(10)}` : '',
  };
}

function memberStats(dice: Dice, index: number): JsonObject {
  const rates = { avg_open_rate: dice.below(101) / 100, avg_click_rate: dice.below(101) / 100 };
  if (index % 8 !== 3) return rates;
  const orders = { total_revenue: dice.below(9_000) / 10, number_of_orders: 2, currency_code: 'USD' };
  return { ...rates, ecommerce_data: orders };
}

function locationOf(dice: Dice): JsonObject {
  if (dice.chance(50)) {
    return { latitude: 0, longitude: 0, gmtoff: 0, dstoff: 0, country_code: '', timezone: '', region: '' };
  }
  return {
    latitude: dice.below(90_0000) / 10_000,
    longitude: dice.below(180_0000) / -10_000,
    gmtoff: -5,
    dstoff: -4,
    country_code: 'US',
    timezone: 'America/New_York',
    region: 'NY',
  };
}

/** The first four bytes of each member's id. */
const idPrefixes = remembered((list: MailingList) =>
  Uint32Array.from({ length: indexCount(list) }, (_, index) => prefixOf(idAt(list, index))),
);

function idAt(list: MailingList, index: number): string {
  return memberId(memberPerson(list, index).email);
}

function prefixOf(id: string): number {
  return Number.parseInt(id.slice(0, 8), 16);
}

/**
 * Finds a member by the hash of its address. A hash cannot be turned round: the first look-up in a
 * list computes the hashes of all its members and keeps four bytes of each, 4 MB and about a second for a million
 * members.
 */
export function findMember(list: MailingList, id: string): JsonObject | undefined {
  const wanted = id.toLowerCase();
  const prefix = prefixOf(wanted);
  const prefixes = idPrefixes(list);
  for (let index = prefixes.indexOf(prefix); index >= 0; index = prefixes.indexOf(prefix, index + 1)) {
    if (idAt(list, index) !== wanted) continue;
    return stateOf(list, index).isThere ? memberRecord(list, index) : undefined;
  }
  return undefined;
}
