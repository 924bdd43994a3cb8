import { hash } from 'node:crypto';
import type { JsonObject } from '../core/json.ts';
import type { Params } from '../core/records.ts';
import { notFound } from '../service/api-error.ts';
import {
  accountOf,
  computedListing,
  entityOf,
  knownThing,
  remembered,
  Things,
  timeTest,
} from './sample-account.ts';
import type { Listing, SampleAccount, SampleEntity, SampleSize, Thing } from './sample-account.ts';
import {
  dayMs,
  dayOf,
  diceFor,
  hourMs,
  isoSeconds,
  personAt,
  revisionTime,
  sampleStart,
  templatesOf,
  textOf,
  titleAt,
} from './sample-values.ts';
import type { Dice, Person } from './sample-values.ts';

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

export const listNames =
  'Customers|Новости и скидки|Frühaufsteher & Freunde|読者の会|Beta testers 🚀|Press contacts'.split('|');
export const eventNames = 'Open house guests|Webinar in March|Trade fair contacts|Raffle at the fair'.split(
  '|',
);
export const tagNames = '2022|Influencer|VIP|Müde Leser|常連'.split('|');
export const categoryTitles = [
  'Product Preferences|Donating|Volunteering|Événements',
  'How often?|Weekly|Monthly',
  '言語|日本語|English|Українська|Français|Türkçe',
];
/** The second of every twelve campaigns is a draft, and drafts often have no name yet. */
export const campaignTitles = (
  'Thank you for joining us|Untitled|Spring sale: 20 % off|Привет, весна!|What we planned for the summer|New in May 🎉|' +
  'Five recipes for short evenings|Gift guide|春のお知らせ|Your orders planted 1,000 trees|' +
  'Last call: free shipping ends tonight|Two questions about your last order|Meet the people behind your coffee|' +
  'Untitled|Back to school|Neu im Sortiment: Räder für Łódź|Autumn menu|How we pack without plastic|' +
  'Black Friday starts early|Holiday opening hours|Our year in numbers|Winter sale: last sizes|Neuigkeiten im Februar|' +
  'A date for your calendar: open house'
).split('|');

/** Templates of the records, except those of members, which are made by the thousand. See `templatesOf`. */
export const template = templatesOf(`
lists: { id: $id, web_id: <900000, name: $text, contact: { company: Example, address1: 1 Main St, address2: "",
  city: Kyiv | Łódź | São Paulo, state: "30", zip: "04200", country: UA, phone: "" }, permission_reminder: $reminder,
  use_archive_bar: true, campaign_defaults: { from_name: Editor, from_email: editor@example.test, subject: "",
  language: en }, notify_on_subscribe: "", notify_on_unsubscribe: "", date_created: $created, list_rating: <6,
  email_type_option: maybe, subscribe_url_short: "http://example.test/$id",
  subscribe_url_long: "https://example.test/subscribe?id=$id", beamer_address: us10-$id@inbound.example.test,
  visibility: prv | pub, double_optin: false, has_welcome: maybe, marketing_permissions: false, modules: [], stats: $stats }
stats: { member_count: $subscribed, total_contacts: $contacts, unsubscribe_count: $unsubscribed, cleaned_count: $cleaned,
  member_count_since_send: 0, unsubscribe_count_since_send: 1, cleaned_count_since_send: 0, campaign_count: $campaigns,
  campaign_last_sent: $sent, merge_field_count: 5, avg_sub_rate: 0, avg_unsub_rate: 1, target_sub_rate: 1,
  open_rate: 64.7, click_rate: 33.3, last_sub_date: $joined, last_unsub_date: $left }
segments: { id: $number, name: $text, member_count: $members, type: $type, created_at: $created, updated_at: $updated,
  options: { match: any, conditions: [$condition] }, list_id: $list }
static: { condition_type: StaticSegment, field: static_segment, op: static_is, value: $number }
saved: { condition_type: Aim, field: aim, op: open, value: any }
interest_categories: { list_id: $list, id: $id, title: $text, display_order: $place, type: checkboxes | radio | dropdown }
interests: { category_id: $category, list_id: $list, id: $id, name: $text, subscriber_count: $count, display_order: $place }
automations: { id: $id, create_time: $created, start_time: $started, status: $status, emails_sent: $sent,
  recipients: { list_id: $list, list_is_active: true, list_name: $listName, store_id: "" },
  settings: { title: Welcome | Willkommen! | Happy birthday 🎂 | Come back, from_name: Editor, to_name: "",
  reply_to: editor@example.test, use_conversation: false, authenticate: true, auto_footer: false, inline_css: false },
  tracking: { opens: true, html_clicks: true, text_clicks: false, goal_tracking: false, ecomm360: maybe,
  google_analytics: "", clicktale: "" }, report_summary: { opens: $sent, unique_opens: $sent, open_rate: $rate,
  clicks: 0, subscriber_clicks: 0, click_rate: 0 }, trigger_settings: { workflow_type: emailSeries,
  workflow_title: Email series, workflow_emails_count: 1 } }
campaigns: { id: $id, web_id: $number, type: $type, create_time: $created, archive_url: "http://example.test/$id",
  long_archive_url: "https://us10.example.test/?id=$id", status: $status, emails_sent: $sent, send_time: $sentAt,
  content_type: multichannel | template | html, needs_block_refresh: false, resendable: $isOut,
  recipients: { list_id: $list, list_is_active: true, list_name: $listName, segment_text: "",
  recipient_count: $recipients }, settings: { subject_line: $subject, preview_text: $preview, from_name: $from,
  reply_to: $replyTo, title: $title, use_conversation: false, to_name: "", folder_id: $folder, authenticate: true,
  auto_footer: false, inline_css: false, auto_tweet: false, fb_comments: true, timewarp: false, template_id: <40,
  drag_and_drop: maybe }, tracking: { opens: true, html_clicks: true, text_clicks: false, goal_tracking: false,
  ecomm360: maybe, google_analytics: "", clicktale: "" }, social_card: { image_url: "https://cdn.example.test/banner.png",
  description: "", title: "" }, report_summary: $summary, delivery_status: $delivery }
summary: { opens: $opens, unique_opens: $openers, open_rate: $openRate, clicks: $clicks, subscriber_clicks: $clickers,
  click_rate: $clickRate, ecommerce: { total_orders: $orders, total_spent: $orders, total_revenue: $orders } }
delivery: { enabled: true, can_cancel: true, status: delivering, emails_sent: $sent, emails_canceled: 0 }
campaigns rss: { parent_campaign_id: hex10, rss_opts: { feed_url: "https://example.test/feed.xml", frequency: daily,
  schedule: { hour: 6, daily_send: { monday: true, sunday: false } }, last_sent: $created, constrain_rss_img: true } }
campaigns absplit: { ab_split_opts: { split_test: subject, pick_winner: opens, wait_units: 3600, wait_time: 2,
  split_size: 50, subject_a: $title A, subject_b: $title B } }
campaigns variate: { variate_settings: { winner_criteria: opens, wait_time: 60, test_size: 10,
  subject_lines: [$title 1, $title 2], combinations: [{ id: "$id-1", subject_line: 0, recipients: 10 }] } }
reports: { id: $id, campaign_title: $title, type: $type, list_id: $list, list_is_active: true, list_name: $listName,
  subject_line: $title, preview_text: $preview, emails_sent: $sent, abuse_reports: <2, unsubscribed: $left,
  send_time: $sentAt, bounces: { hard_bounces: $hard, soft_bounces: $soft, syntax_errors: 0 },
  forwards: { forwards_count: <3, forwards_opens: <3 }, opens: { opens_total: $opens, unique_opens: $openers,
  open_rate: $openRate, last_open: $lastOpen }, clicks: { clicks_total: $clicks, unique_clicks: $links,
  unique_subscriber_clicks: $clickers, click_rate: $clickRate, last_click: $lastClick }, facebook_likes: {
  recipient_likes: 0, unique_likes: 0, facebook_likes: 0 }, industry_stats: { type: Software and Web App,
  open_rate: 0.2129, click_rate: 0.0245, bounce_rate: 0.0098, unopen_rate: 0.7773, unsub_rate: 0.0037,
  abuse_rate: 0.0002 }, list_stats: { sub_rate: 0, unsub_rate: 1, open_rate: 64.7, click_rate: 33.3 },
  timeseries: $hours, share_report: { share_url: "https://us10.example.test/reports/summary?u=$id", share_password: "" },
  ecommerce: { total_orders: $orders, total_spent: $orders, total_revenue: $orders, currency_code: USD },
  delivery_status: $delivery }
reports rss: { rss_last_send: $sentAt }
reports absplit: { ab_split: { a: { bounces: <3, abuse_reports: 0, unsubs: <3, recipient_clicks: <30, opens: <60,
  last_open: $sentAt }, b: { bounces: <3, abuse_reports: 0, unsubs: <3, recipient_clicks: <30, opens: <60,
  last_open: $sentAt } } }
reports variate: { timewarp: [{ gmt_offset: -5, opens: <30, last_open: $sentAt, unique_opens: <20, clicks: <9,
  bounces: 0 }] }
other: {}
`);

/** The entity with the links that the third party puts beside lists and into records. */
export function linked(path: string, entity: SampleEntity): SampleEntity {
  const link = (params: Params, id = ''): JsonObject => {
    const filled = path.replaceAll(/\{(\w+)\}/g, (_, name: string) => textOf(params[name]));
    return { rel: 'self', href: `https://us10.api.example.test/3.0${filled}${id}`, method: 'GET' };
  };
  const withLink = (record: JsonObject, params: Params): JsonObject => {
    const id = textOf(record['id'] ?? record['email_id']);
    return { ...record, _links: [link(params, `/${id}`)] };
  };
  return {
    list: (params) => {
      const listed = entity.list(params);
      return {
        slice: (offset, limit) => listed.slice(offset, limit).map((record) => withLink(record, params)),
        metadata: { links: [link(params)] },
      };
    },
    get: (params) => {
      const record = entity.get?.(params);
      return record === undefined ? undefined : withLink(record, params);
    },
  };
}

/** The account behind an email-marketing connector. */
export function openMailingAccount(seed: number, size: SampleSize, revision: number): SampleAccount {
  const things = new Things(seed, idOf, []);
  fillMailing(
    things,
    typeof size === 'string' ? shapes[size] : { ...shapes.members, members: [size.members] },
  );
  things.play(revision, reviseMailing);
  const listOf = remembered((list: Thing) => mailingList(things, list));
  const campaignOf = remembered((campaign: Thing) => planCampaign(things, campaign, listOf));
  const listIn = ({ list_id: id }: Params): MailingList => listOf(knownThing(things, 'lists', id));
  const segmentIn = ({ segment_id: id }: Params): Thing => knownThing(things, 'segments', id);
  const membersIn = (segment: Thing): Uint32Array => segmentMembers(things, segment, listOf);
  const sentIn = ({ campaign_id: id }: Params): Campaign => {
    const campaign = campaignOf(knownThing(things, 'campaigns', id));
    if (campaign.sentAt !== null) return campaign;
    // A draft has no report and nothing under it: 404, as for a campaign that does not exist.
    throw notFound('Resource Not Found: there is no report with this id in the account.');
  };
  const list = '/lists/{list_id}';
  const categories = `${list}/interest-categories`;
  const below = ['lists', 'list_id'] as const;
  const entity = (path: string, ...of: Tail<Parameters<typeof entityOf>>) =>
    linked(path, entityOf(things, ...of));
  const toList = (one: Thing) => listRecord(things, one, listOf(one), things.of('campaigns').map(campaignOf));
  const toCampaign = (kind: string) => (one: Thing) => campaignRecord(kind, campaignOf(one));
  return accountOf({
    lists: entity('/lists', 'lists', toList, {
      id: 'list_id',
      filters: ['date_created', 'stats.campaign_last_sent'],
      where: (one, { email }) =>
        email === undefined || findMember(listOf(one), memberId(textOf(email))) !== null,
    }),
    campaigns: entity('/campaigns', 'campaigns', toCampaign('campaigns'), {
      id: 'campaign_id',
      filters: ['type', 'status', 'send_time', 'create_time', 'recipients.list_id', 'settings.folder_id'],
    }),
    automations: entity('/automations', 'automations', (one) => automationRecord(things, one), {
      filters: ['status', 'create_time', 'start_time'],
    }),
    reports: entity('/reports', 'campaigns', toCampaign('reports'), {
      id: 'campaign_id',
      filters: ['type', 'send_time'],
      where: (one) => campaignOf(one).sentAt !== null,
    }),
    email_activity: linked('/reports/{campaign_id}/email-activity', {
      list: (params) => activityListing(sentIn(params), params),
    }),
    unsubscribes: linked('/reports/{campaign_id}/unsubscribed', {
      list: (params) => leaverListing(sentIn(params)),
    }),
    list_members: linked(`${list}/members`, {
      list: (params) => memberListing(listIn(params), params),
      get: (params) => findMember(listIn(params), textOf(params['subscriber_hash'])) ?? undefined,
    }),
    tags: entity(`${list}/tag-search`, 'segments', ({ id, text }) => ({ id: Number(id), name: text }), {
      below,
      where: ({ type, text }, { name }) =>
        type === 'static' && text.toLowerCase().startsWith(textOf(name).toLowerCase()),
    }),
    interest_categories: entity(categories, 'interest_categories', (one) => categoryRecord(things, one), {
      id: 'interest_category_id',
      below,
    }),
    interests: entity(
      `${categories}/{interest_category_id}/interests`,
      'interests',
      (one) => interestRecord(things, one, listOf),
      { id: 'interest_id', below: ['interest_categories', 'interest_category_id'] },
    ),
    segments: entity(
      `${list}/segments`,
      'segments',
      (one) => segmentRecord(things, one, membersIn(one).length),
      { id: 'segment_id', below, filters: ['type', 'created_at', 'updated_at'] },
    ),
    segment_members: linked(`${list}/segments/{segment_id}/members`, {
      list: (params) => segmentMemberListing(listIn(params), membersIn(segmentIn(params))),
    }),
  });
}

type Tail<List extends readonly unknown[]> = List extends readonly [unknown, ...infer Rest] ? Rest : never;

const shapes = {
  small: { members: [2300, 900, 430, 57, 1, 0], campaigns: 30, automations: 7, tags: 5, categories: 3 },
  tiny: { members: [23, 0], campaigns: 5, automations: 2, tags: 2, categories: 1 },
  // Nearly all calls go to the members: that is what the size is for.
  members: { members: [0], campaigns: 2, automations: 1, tags: 0, categories: 1 },
};
type Shape = Omit<typeof shapes.small, 'members'> & { readonly members: readonly number[] };
type ListOf = (list: Thing) => MailingList;

/** Ids of segments are numbers. */
function idOf(kind: string, dice: Dice, index: number): string {
  return kind === 'segments' ? String(13_000_000 + (index % 10_000_000)) : dice.hex(10);
}

/** The account before all revisions. Later lists have fewer tags and categories, empty ones none. */
function fillMailing(things: Things, shape: Shape): void {
  const lists = shape.members.map((members, index) => {
    const [createdAt, text] = [sampleStart + index * 40 * dayMs, titleAt(listNames, index)];
    return things.add({ kind: 'lists', index, text, parent: null, createdAt, type: String(members) });
  });
  const inhabited = lists.filter(({ type }) => type !== '0');
  for (const list of inhabited) fillList(things, list, shape);
  const parentOf = (index: number): Thing | null => inhabited[index % inhabited.length] ?? null;
  for (let index = 0; index < shape.campaigns && inhabited.length > 0; index += 1) {
    const seconds = diceFor(things.seed, 3, index).below(86_400);
    const createdAt = sampleStart + (250 + index * 9) * dayMs + seconds * 1_000;
    things.add({
      kind: 'campaigns',
      index,
      text: titleAt(campaignTitles, index),
      parent: parentOf(index),
      createdAt,
    });
  }
  for (let index = 0; index < shape.automations; index += 1) {
    const createdAt = sampleStart + index * 31 * dayMs;
    things.add({ kind: 'automations', index, text: '', parent: parentOf(index), createdAt });
  }
}

function fillList(things: Things, list: Thing, shape: Shape): void {
  const tags = tagNames.slice(0, Math.max(0, shape.tags - list.index));
  const searches = tags.length === 0 ? [] : ['Active in the last 30 days', 'Bought twice in December'];
  for (const [place, text] of [...tags, ...searches].entries()) {
    const type = place < tags.length ? 'static' : 'saved';
    const createdAt = list.createdAt + place * dayMs;
    things.add({ kind: 'segments', index: list.index * 100 + place, type, text, parent: list, createdAt });
  }
  for (const [place, titles] of categoryTitles
    .slice(0, Math.max(0, shape.categories - list.index))
    .entries()) {
    const [title = '', ...interests] = titles.split('|');
    const { createdAt } = list;
    const index = list.index * 100 + place * 10;
    const category = things.add({ kind: 'interest_categories', index, text: title, parent: list, createdAt });
    for (const [at, text] of interests.entries()) {
      things.add({ kind: 'interests', index: index + at, text, parent: category, createdAt });
    }
  }
}

/**
 * Every revision edits a campaign, an automation, a search and a category, and adds a campaign, which is sent two
 * revisions later. Lists, automations, segments and categories come and go; an empty list and a sent campaign go and
 * come back.
 */
function reviseMailing(things: Things): void {
  const { revision } = things;
  const day = dayOf(revision);
  const [first] = things.of('lists');
  if (first === undefined) return;
  if (revision % 5 === 4) things.rename(things.turn('lists'));
  const isEmpty = ({ type }: Thing): boolean => type === '0';
  if (revision % 4 === 3) things.take(things.turn('lists', 0, isEmpty), 1);
  things.comeAndGo('lists', () => things.addNew('lists', null, titleAt(eventNames, (revision - 1) / 3)));
  things.rename(things.turn('campaigns'));
  const host = things.turn('lists', 0, (list) => !isEmpty(list)) ?? first;
  const addCampaign = () => things.addNew('campaigns', host, `Weekly letter of ${day}`);
  things.comeAndGo('campaigns', addCampaign);
  if (revision % 3 !== 1) addCampaign();
  if (revision % 5 === 3) things.take(things.first('campaigns', ({ index }) => isOut(index)).at(-1));
  things.edit(things.turn('automations'));
  things.comeAndGo('automations', () => things.addNew('automations', first, ''));
  things.rename(things.turn('segments', 0, ({ type }) => type === 'saved'));
  things.comeAndGo('segments', () => {
    things.addNew('segments', first, `Open house ${day}`, 0, 'static');
    things.addNew('segments', first, `Clicked on ${day}`, 1, 'saved');
  });
  const category = things.turn('interest_categories');
  things.rename(category);
  things.rename(things.of('interests', category)[0]);
  things.comeAndGo('interest_categories', () => {
    const text = `Which event in ${day.split(' ')[1]} suits you?`;
    const added = things.addNew('interest_categories', first, text);
    things.addNew('interests', added, 'Evenings');
    things.addNew('interests', added, 'Weekends', 1);
  });
}

/** A list as its members see it. Those that revisions add are short. */
function mailingList(things: Things, list: Thing): MailingList {
  const { seed, revision } = things;
  const { id, index, type = '5', createdAt, madeIn } = list;
  const next = things.of('lists').find((one) => one.index === index + 1);
  const interests = things.of('interest_categories', list).flatMap((category) =>
    things
      .of('interests', category)
      // An interest of a revision is in no member's record: it would change the records of them all.
      .filter((interest) => interest.madeIn === 0)
      .map((interest) => ({ id: interest.id, categoryId: category.id, stride: strideOf(interest) })),
  );
  const tags = things.of('segments', list).filter((segment) => segment.type === 'static');
  return {
    seed,
    revision,
    index,
    id,
    memberCount: Number(type),
    interests,
    firstPerson: madeIn === 0 ? index * 5 : 4e7 + index,
    isPassedThrough: madeIn === 0 && Number(next?.type ?? 0) >= 10,
    importedAt: createdAt + (madeIn === 0 ? dayMs : 6e4),
    spanMs: madeIn === 0 ? 900 * dayMs : 2e3,
    tags: tags.map((tag) => ({ id: Number(tag.id), name: tag.text, slots: slotsIn(things, tag) })),
  };
}

/** Every so many-th member has an interest. */
function strideOf({ index }: Thing): number {
  return 2 + (index % 7) * 3;
}

/** Members of these slots are in a segment. */
function slotsIn(things: Things, segment: Thing): readonly number[] {
  const { type, madeIn, index } = segment;
  if (type === 'saved') return madeIn > 0 ? [7] : index % 2 === 0 ? [] : [0, 3, 5];
  const dice = things.dice(segment, 1);
  return madeIn > 0 ? [] : Array.from({ length: 20 }, (_, slot) => slot).filter(() => dice.chance(25));
}

function segmentMembers(things: Things, segment: Thing, listOf: ListOf): Uint32Array {
  if (segment.parent === null) return new Uint32Array();
  const list = listOf(segment.parent);
  const slots = new Set<number | null>(slotsIn(things, segment));
  return membersOf(list).filter(
    (index) => slots.has(slotOf(list, index)) && stateOf(list, index).status === 'subscribed',
  );
}

const inNoSegment =
  'contact_id|web_id|consents_to_one_to_one_messaging|source|tags_count|tags|marketing_permissions|' +
  'sms_phone_number|sms_subscription_status|sms_subscription_last_updated';
const leftOut = new Set(inNoSegment.split('|'));

/** Members of a segment are shorter records than members of a list, and do not say which segment they are in. */
function segmentMemberListing(list: MailingList, members: Uint32Array): Listing {
  return computedListing(members.length, (position) => {
    const fields = Object.entries(memberRecord(list, members[position] ?? 0));
    return Object.fromEntries(fields.filter(([name]) => !leftOut.has(name)));
  });
}

/** Longer than what the API shows of a text when it shortens them. */
const longText = 'Everything that happened since the last letter, in the order in which it happened. '
  .repeat(4)
  .trim();

function listRecord(
  things: Things,
  thing: Thing,
  list: MailingList,
  campaigns: readonly Campaign[],
): JsonObject {
  const { id, index, text, createdAt } = thing;
  const own = campaigns.filter((campaign) => campaign.list === list);
  const sent = Math.max(0, ...own.map(({ sentAt }) => sentAt ?? 0));
  const members = membersOf(list);
  const counts = statusCounts(list);
  const last = indexCount(list) - 1;
  const unsubscribed = counts.get('unsubscribed') ?? 0;
  const left = list.revision > 0 ? revisionTime(list.revision) : list.importedAt + list.spanMs;
  const values = {
    subscribed: counts.get('subscribed') ?? 0,
    unsubscribed,
    cleaned: counts.get('cleaned') ?? 0,
    contacts: members.length,
    campaigns: own.length,
    sent: sent === 0 ? '' : mailingTime(sent),
    joined: last < 0 ? '' : mailingTime(optedInAt(list, last)),
    left: unsubscribed === 0 ? '' : mailingTime(left),
  };
  const dice = things.dice(thing, 1);
  const stats = template('stats', values, dice);
  const reminder = `You are receiving this email because you opted in via our website.${index % 2 === 1 ? longText : ''}`;
  return template('lists', { id, text, reminder, created: mailingTime(createdAt), stats }, dice);
}

const statusCounts = remembered((list: MailingList) => {
  const counts = new Map<string, number>();
  for (const index of membersOf(list)) {
    const { status } = stateOf(list, index);
    counts.set(status, (counts.get(status) ?? 0) + 1);
  }
  return counts;
});

function segmentRecord(things: Things, segment: Thing, members: number): JsonObject {
  const { id, type = '', text, parent, index, createdAt, madeIn } = segment;
  const dice = things.dice(segment, 1);
  // Members come, go and change with every revision.
  const changed = things.revision > 0 ? revisionTime(things.revision) : createdAt + (index % 2) * 9 * dayMs;
  const times = {
    created: mailingTime(createdAt),
    updated: mailingTime(Math.max(changed, madeIn > 0 ? createdAt : 0)),
  };
  const values = { number: Number(id), text, members, type, list: parent?.id ?? '', ...times };
  return template('segments', { ...values, condition: template(type, values, dice) }, dice);
}

function categoryRecord(things: Things, category: Thing): JsonObject {
  const { id, text, parent, index } = category;
  const values = { id, text, list: parent?.id ?? '', place: Math.floor(index / 10) % 10 };
  return template('interest_categories', values, things.dice(category, 1));
}

/** `subscriber_count` is a text, as the third party sends it. */
function interestRecord(things: Things, interest: Thing, listOf: ListOf): JsonObject {
  const { id, text, parent, index, madeIn } = interest;
  const list = parent?.parent ?? null;
  const has = (of: MailingList) => (member: number) => isInterested(of, member, strideOf(interest));
  const count = list === null || madeIn > 0 ? 0 : membersOf(listOf(list)).filter(has(listOf(list))).length;
  const values = {
    id,
    text,
    category: parent?.id ?? '',
    list: list?.id ?? '',
    count: String(count),
    place: 1 + (index % 10),
  };
  return template('interests', values, things.dice(interest, 1));
}

/** Revisions start, pause and resume them in turns. The second of every three is a draft until its first turn. */
function automationRecord(things: Things, automation: Thing): JsonObject {
  const { id, index, parent, edits, madeIn, createdAt } = automation;
  const isDraft = madeIn > 0 || (index % 3 === 1 && edits === 0);
  const isSending = !isDraft && (edits + (index % 3 === 0 ? 0 : 1)) % 2 === 0;
  const dice = things.dice(automation, 1);
  // One that was never started has no time, and says so with an empty text.
  const sent = isDraft ? 0 : dice.below(4_000) + edits;
  const started = isDraft ? '' : mailingTime(createdAt + dayMs);
  const status = isSending ? 'sending' : isDraft ? 'save' : 'paused';
  const list = { list: parent?.id ?? '', listName: parent?.text ?? '' };
  return template(
    'automations',
    { id, created: mailingTime(createdAt), started, status, sent, rate: sent === 0 ? 0 : 1, ...list },
    dice,
  );
}

const campaignStatuses = 'sent save sent sent schedule sent sent paused sent sent sending sent'.split(' ');
const campaignTypes = 'regular regular plaintext variate regular rss absplit'.split(' ');

/** Two of three campaigns are sent or being sent before all revisions; the others show every other status. */
function isOut(index: number): boolean {
  return campaignStatuses[index % 12]?.startsWith('sen') === true;
}

type Campaign = ReturnType<typeof planCampaign>;

/** `recipients`: so many of the first members of the list. `sentIn`: the revision that sent it; 0: before all. */
function planCampaign(things: Things, campaign: Thing, listOf: ListOf) {
  const { index, createdAt, madeIn, parent } = campaign;
  const { revision } = things;
  if (parent === null) throw new Error('expected a campaign with a list');
  const list = listOf(parent);
  const sentIn = madeIn === 0 ? 0 : madeIn + 2;
  const isSent = madeIn === 0 ? isOut(index) : revision >= sentIn;
  const first = createdAt + dayMs + diceFor(things.seed, 4, index).below(7_200) * 1_000;
  const status = madeIn === 0 ? (campaignStatuses[index % 12] ?? '') : isSent ? 'sent' : 'save';
  const recipients = Math.min(madeIn === 0 ? 2_500 : 40, list.memberCount);
  return {
    things,
    campaign,
    list,
    listName: parent.text,
    index,
    sentIn,
    status,
    recipients,
    type: madeIn === 0 ? (campaignTypes[index % 7] ?? '') : 'regular',
    sentAt: !isSent ? null : madeIn === 0 ? first : revisionTime(sentIn) + hourMs,
    sent: status === 'sent' ? recipients : status === 'sending' ? Math.ceil(recipients / 2) : 0,
  };
}

/** `entity`: `campaigns`, or `reports` of those that have left. */
function campaignRecord(entity: string, campaign: Campaign): JsonObject {
  const { things, campaign: thing, list, listName, index, type, status, sent, sentAt, recipients } = campaign;
  const dice = things.dice(thing, 1);
  const preview = index % 5 === 3 ? longText : '';
  const { id, text: title, createdAt } = thing;
  const written =
    sentAt === null ? {} : { subject: title, preview, from: 'Editor', replyTo: 'editor@example.test' };
  const values = {
    id,
    title,
    type,
    status,
    sent,
    recipients,
    list: list.id,
    listName,
    number: 135e5 + index * 17,
    ...written,
    created: mailingTime(createdAt),
    sentAt: sentAt === null ? '' : mailingTime(sentAt),
    folder: index % 4 === 2 ? `folder${index % 8}` : '',
    isOut: status === 'sent' && type === 'regular',
    delivery: status === 'sending' ? template('delivery', { sent }, dice) : { enabled: false },
    orders: index % 9,
  };
  const counted = sentAt === null ? {} : { ...activityCounts(campaign), left: leaversOf(campaign).length };
  const all = { ...values, ...counted };
  const summary = sentAt === null ? undefined : template('summary', all, dice);
  return { ...template(entity, { ...all, summary }, dice), ...template(`${entity} ${type}`, all, dice) };
}

/** The sums of the rows of a campaign's activity. Looks once at each recipient, who are few in every account. */
const activityCounts = remembered((campaign: Campaign) => {
  const rows = Array.from({ length: campaign.sent }, (_, index) => actionsOf(campaign, index));
  const all = rows.flat();
  const timesOf = (action: string): readonly number[] =>
    all.filter((one) => one.action === action).map(({ at }) => at);
  /** The first time of each recipient that did so. */
  const firstOf = (action: string): readonly number[] =>
    rows.flatMap((row) => row.find((one) => one.action === action)?.at ?? []);
  const lastOf = (times: readonly number[]): string =>
    times.length === 0 ? '' : mailingTime(times.reduce((left, right) => Math.max(left, right)));
  const [opens, openers] = [timesOf('open'), firstOf('open')];
  const [clicks, clickers] = [timesOf('click'), firstOf('click')];
  return {
    opens: opens.length,
    openers: openers.length,
    openRate: openers.length / campaign.sent,
    clicks: clicks.length,
    clickers: clickers.length,
    clickRate: clickers.length / campaign.sent,
    lastOpen: lastOf(opens),
    lastClick: lastOf(clicks),
    links: rows.reduce((sum, row) => sum + new Set(row.flatMap(({ url }) => url ?? [])).size, 0),
    hard: all.filter(({ type }) => type === 'hard').length,
    soft: all.filter(({ type }) => type === 'soft').length,
    hours: [
      {
        timestamp: mailingTime(campaign.sentAt ?? 0),
        emails_sent: campaign.sent,
        unique_opens: openers.length,
        recipients_clicks: clickers.length,
      },
    ],
  };
});

interface Action {
  readonly at: number;
  readonly action: 'open' | 'click' | 'bounce';
  readonly url?: string;
  readonly type?: 'hard' | 'soft';
  readonly ip?: string;
}

/** The actions of a recipient, oldest first: none, a bounce, or opens that may each lead to a click. */
function actionsOf(campaign: Campaign, index: number): readonly Action[] {
  const dice = diceFor(campaign.things.seed, 5, campaign.index, index);
  // Recipients answer a campaign of a revision within the same revision.
  const pace = campaign.sentIn === 0 ? 1_000 : 10;
  const fate = dice.below(100);
  let at = (campaign.sentAt ?? 0) + dice.below(3_600) * pace;
  const late = lateActions(campaign, index);
  if (fate < 40) return late;
  if (fate < 45) return [{ at, action: 'bounce', type: dice.pick(['hard', 'soft']) }, ...late];
  const ip = `192.0.2.${dice.below(256)}`;
  const opens = Array.from({ length: 1 + dice.below(3) }, () => {
    at += (1 + dice.below(86_400)) * pace;
    const open: Action = { at, action: 'open', ip };
    if (!dice.chance(35)) return [open];
    at += (2 + dice.below(60)) * pace;
    return [open, { at, action: 'click' as const, url: `https://example.test/offer?n=${index % 3}`, ip }];
  });
  return [...opens.flat(), ...late];
}

/** A revision brings every third campaign opens and clicks, of one in two hundred recipients, and at least of one. */
function lateActions(
  { things, sentIn, index: campaign, recipients }: Campaign,
  index: number,
): readonly Action[] {
  const actions: Action[] = [];
  for (let turn = sentIn + 1; turn <= things.revision; turn += 1) {
    if ((turn + campaign) % 3 !== 0 || (turn + index) % Math.min(200, recipients) !== 0) continue;
    const at = revisionTime(turn) + 3 * hourMs + index * 1_000;
    const ip = `203.0.113.${index % 256}`;
    actions.push({ at, action: 'open', ip });
    if (turn % 2 === 0) {
      actions.push({ at: at + 20_000, action: 'click', url: `https://example.test/offer?n=${turn}`, ip });
    }
  }
  return actions;
}

/** One row per recipient, many without any activity. `since` leaves the rows and shortens their arrays. */
function activityListing(campaign: Campaign, { since }: Params): Listing {
  const passes = since === undefined ? () => true : timeTest('since', since);
  return computedListing(campaign.sent, (index) => ({
    ...recipientFields(campaign, index),
    activity: actionsOf(campaign, index)
      .filter(({ at }) => passes(at))
      .map(({ at, action, ...rest }) => ({ action, timestamp: mailingTime(at), ...rest })),
  }));
}

function recipientFields({ campaign, list }: Campaign, index: number): JsonObject {
  const { email } = personOf(list, index);
  const recipient = { email_id: memberId(email), email_address: email };
  return { campaign_id: campaign.id, list_id: list.id, list_is_active: true, ...recipient };
}

/**
 * Members that unsubscribed through a campaign, and when. Before all revisions they did so in turns through the
 * campaigns that went to the list; later through the first of them.
 */
const leaversOf = remembered(({ things, list, campaign, recipients, sentAt }: Campaign) => {
  const siblings = things.first('campaigns', (one) => one.parent === campaign.parent && isOut(one.index));
  const turn = siblings.indexOf(campaign);
  if (turn < 0) return [];
  const all = Array.from({ length: recipients }, (_, index) => index);
  const gone = all.filter((index) => statusIn(list, index) === 'unsubscribed');
  const early = gone.filter((_, place) => Math.floor(place / 2) % siblings.length === turn);
  const atFirst = (index: number): number => (sentAt ?? 0) + ((index * 977) % (3 * 86_400)) * 1_000;
  const late = turn > 0 ? [] : all.flatMap((index) => (gone.includes(index) ? [] : departureOf(list, index)));
  return [
    ...early.map((index) => ({ index, at: atFirst(index) })),
    ...late.sort((left, right) => left.at - right.at),
  ];
});

function leaverListing(campaign: Campaign): Listing {
  const leavers = leaversOf(campaign);
  return computedListing(leavers.length, (place) => {
    const { index, at } = leavers[place] ?? { index: 0, at: 0 };
    const dice = diceFor(campaign.things.seed, 9, campaign.index, index);
    return {
      ...recipientFields(campaign, index),
      merge_fields: mergeFields(personOf(campaign.list, index), dice),
      vip: traitsOf(campaign.list, index).isVip,
      timestamp: mailingTime(at),
      reason: dice.pick(['Did not signup for list', 'No longer interested', 'None given']),
    };
  });
}
