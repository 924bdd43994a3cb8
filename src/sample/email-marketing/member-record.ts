import { hash } from 'node:crypto';
import type { JsonObject, JsonValue } from '../../core/json.ts';
import { diceFor, type Dice } from '../dice.ts';
import { personAt, type Person } from '../people.ts';
import { mailingTime } from '../times.ts';
import { apiHref } from './links.ts';
import { kind } from './kinds.ts';
import type { MailingList } from './mailing-plan.ts';
import { slotOf, statusOf } from './member-slots.ts';
import { hasSignupTime, memberTimes, type MemberTimes } from './member-times.ts';

/** One and the same person may be in several lists, under the same id. */
export function memberPerson(list: MailingList, index: number): Person {
  return personAt(
    list.seed,
    list.revised.added[index - list.memberCount]?.person ?? personOffset(list) + index,
  );
}

export function personOffset(list: MailingList): number {
  return list.index * 5;
}

/** MD5 of the lower-case address: what the third party calls the subscriber hash. */
export function memberId(email: string): string {
  return hash('md5', email.toLowerCase());
}

export function isVip(index: number): boolean {
  return index % 50 === 7;
}

export function emailType(index: number): 'html' | 'text' {
  return index % 9 === 4 ? 'text' : 'html';
}

export function uniqueEmailId(list: MailingList, index: number): string {
  return diceOf(list, index).hex(10);
}

/** Makes the records of one list's members; 1,000 of them take a few milliseconds. */
export function memberRecords(list: MailingList): (index: number) => JsonObject {
  const times = memberTimes(list);
  return (index) => memberRecord(list, times, index);
}

function memberRecord(list: MailingList, times: MemberTimes, index: number): JsonObject {
  const dice = diceOf(list, index);
  const person = memberPerson(list, index);
  const id = memberId(person.email);
  const status = statusOf(list, index);
  const slot = slotOf(list, index);
  const state = list.revised.states.get(index);
  const tags = list.tags
    .filter((tag) => tag.slots.includes(slot) || state?.tags.includes(tag.id) === true)
    .map((tag) => ({ id: tag.id, name: tag.name }));
  const optedIn = mailingTime(times.optedInAt(index));
  const isForm = hasSignupTime(index);
  const href = apiHref(`/lists/${list.id}/members/${id}`);
  return {
    id,
    email_address: person.email,
    unique_email_id: dice.hex(10),
    contact_id: dice.hex(32),
    full_name: `${person.first} ${person.last}`.trim(),
    web_id: 546_000_000 + index,
    email_type: emailType(index),
    status,
    ...(status === 'unsubscribed' ? { unsubscribe_reason: 'N/A (Unsubscribed by admin)' } : {}),
    consents_to_one_to_one_messaging: index % 6 !== 5,
    merge_fields: { ...mergeFields(person, dice), ...editedFields(state?.edits ?? 0) },
    interests: interestsOf(list, index),
    stats: memberStats(dice, index),
    ip_signup: isForm ? `192.0.2.${dice.below(256)}` : '',
    timestamp_signup: isForm ? optedIn : '',
    ip_opt: `198.51.100.${dice.below(256)}`,
    timestamp_opt: optedIn,
    member_rating: 1 + dice.below(5),
    last_changed: mailingTime(times.changedAt(index)),
    language: dice.pick(['', '', 'en', 'de', 'ja']),
    vip: isVip(index),
    email_client: dice.pick(['', 'Gmail', 'Apple Mail', 'Outlook 365']),
    location: locationOf(dice),
    source: isForm ? 'Embed Form' : 'Import',
    tags_count: tags.length,
    tags,
    list_id: list.id,
    _links: [
      { rel: 'self', href, method: 'GET' },
      { rel: 'parent', href: apiHref(`/lists/${list.id}/members`), method: 'GET' },
    ],
  };
}

/** The unique email id is the first throw: it can be had without the record. */
function diceOf(list: MailingList, index: number): Dice {
  return diceFor(list.seed, kind.member, list.index, index);
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

/** What the latest edit wrote. */
function editedFields(edits: number): JsonObject {
  return edits === 0 ? {} : { PHONE: `555-02${String(edits).padStart(2, '0')}` };
}

/** An interest that nobody has yet is in no member: to put it there would change them all. */
function interestsOf(list: MailingList, index: number): JsonObject {
  const interests: Record<string, boolean> = {};
  for (const category of list.categories) {
    for (const { id, stride } of category.interests) {
      if (stride !== null) interests[id] = index % stride === 0;
    }
  }
  return interests;
}

function memberStats(dice: Dice, index: number): JsonObject {
  const rates = { avg_open_rate: dice.below(101) / 100, avg_click_rate: dice.below(101) / 100 };
  return index % 8 === 3
    ? {
        ...rates,
        ecommerce_data: { total_revenue: dice.below(9_000) / 10, number_of_orders: 2, currency_code: 'USD' },
      }
    : rates;
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
