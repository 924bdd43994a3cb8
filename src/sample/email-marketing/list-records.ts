import type { JsonObject } from '../../core/json.ts';
import type { Params } from '../../core/records.ts';
import { diceFor } from '../dice.ts';
import { personNumber } from '../people.ts';
import { computedListing, type Listing, remembered } from '../sample-account.ts';
import { dayMs, mailingTime, revisionTime, textOf } from '../writing.ts';
import {
  type InterestCategory,
  kind,
  type MailingList,
  type Segment,
  listLinks,
  selfLinks,
} from './mailing-list.ts';
import type { MailingPlan } from './mailing-plan.ts';
import { memberRecord } from './member-records.ts';
import {
  indexCount,
  isInterested,
  type MemberStatus,
  membersOf,
  optedInAt,
  personNumberOf,
  slotOf,
  stateOf,
} from './members.ts';

/** The account's lists, oldest first; with `email` only those that have this address among their members. */
export function listRecords(plan: MailingPlan, params: Params): readonly JsonObject[] {
  const { email } = params;
  return plan.lists
    .filter((list) => email === undefined || hasMember(list, textOf(email)))
    .map((list) => listRecord(plan, list));
}

function hasMember(list: MailingList, email: string): boolean {
  const number = personNumber(list.seed, email);
  if (number === null) return false;
  const original = number - list.firstPerson;
  if (original >= 0 && original < list.memberCount) return stateOf(list, original).isThere;
  for (let index = list.memberCount; index < indexCount(list); index += 1) {
    if (personNumberOf(list, index) === number) return stateOf(list, index).isThere;
  }
  return false;
}

function listRecord(plan: MailingPlan, list: MailingList): JsonObject {
  const { id, index } = list;
  const dice = diceFor(list.seed, kind.list, index, 1);
  const query = `u=${dice.hex(25)}&id=${id}`;
  return {
    id,
    web_id: 900_000 + (Number.parseInt(id.slice(0, 6), 16) % 90_000),
    name: list.name,
    contact: {
      company: 'Example',
      address1: `${1 + index} Main St`,
      address2: '',
      city: dice.pick(['Kyiv', 'Łódź', 'São Paulo']),
      state: '30',
      zip: '04200',
      country: 'UA',
      phone: '',
    },
    permission_reminder: dice.pick([
      'You are receiving this email because you opted in via our website.',
      // Longer than what the API shows of a text when it shortens them.
      `You are receiving this email because you opted in via our website. ${'We write seldom and to the point. '.repeat(8)}`,
    ]),
    use_archive_bar: true,
    campaign_defaults: {
      from_name: 'Editor',
      from_email: 'editor@example.test',
      subject: '',
      language: 'en',
    },
    notify_on_subscribe: '',
    notify_on_unsubscribe: index === 1 ? 'editor@example.test' : '',
    date_created: mailingTime(list.createdAt),
    list_rating: dice.below(6),
    email_type_option: index % 2 === 1,
    subscribe_url_short: `http://example.test/${dice.hex(6)}`,
    subscribe_url_long: `https://example.test/subscribe?${query}`,
    beamer_address: `us10-${dice.hex(10)}-${dice.hex(10)}@inbound.example.test`,
    visibility: index % 2 === 0 ? 'prv' : 'pub',
    double_optin: false,
    has_welcome: index === 0,
    marketing_permissions: false,
    modules: [],
    stats: listStats(plan, list),
    _links: selfLinks(`/lists/${id}`),
  };
}

function listStats(plan: MailingPlan, list: MailingList): JsonObject {
  const campaigns = plan.campaigns.filter((campaign) => campaign.list.index === list.index);
  const lastSent = Math.max(0, ...campaigns.map(({ sentAt }) => sentAt ?? 0));
  const counts = statusCounts(list);
  const unsubscribed = counts.get('unsubscribed') ?? 0;
  const last = indexCount(list) - 1;
  const lastLeft = list.revision > 0 ? revisionTime(list.revision) : list.importedAt + 901 * dayMs;
  return {
    member_count: counts.get('subscribed') ?? 0,
    total_contacts: membersOf(list).length,
    unsubscribe_count: unsubscribed,
    cleaned_count: counts.get('cleaned') ?? 0,
    member_count_since_send: 0,
    unsubscribe_count_since_send: unsubscribed > 0 ? 1 : 0,
    cleaned_count_since_send: 0,
    campaign_count: campaigns.length,
    campaign_last_sent: lastSent === 0 ? '' : mailingTime(lastSent),
    merge_field_count: 5,
    avg_sub_rate: 0,
    avg_unsub_rate: 1,
    target_sub_rate: 1,
    open_rate: campaigns.length === 0 ? 0 : 64.70588235294117,
    click_rate: campaigns.length === 0 ? 0 : 33.33333333333333,
    last_sub_date: last < 0 ? '' : mailingTime(optedInAt(list, last)),
    last_unsub_date: unsubscribed === 0 ? '' : mailingTime(lastLeft),
  };
}

const statusCounts = remembered((list: MailingList) => {
  const counts = new Map<MemberStatus, number>();
  for (const index of membersOf(list)) {
    const { status } = stateOf(list, index);
    counts.set(status, (counts.get(status) ?? 0) + 1);
  }
  return counts;
});

/** `name` is the beginning of a tag's name, in any case. */
export function tagRecords(list: MailingList, params: Params): readonly JsonObject[] {
  const beginning = textOf(params['name']).toLowerCase();
  return list.tags
    .filter(({ name }) => name.toLowerCase().startsWith(beginning))
    .map(({ id, name }) => ({ id, name, _links: selfLinks(`/lists/${list.id}/segments/${id}`) }));
}

export function categoryRecords(list: MailingList): readonly JsonObject[] {
  return list.categories.map(({ id, title, type }, place) => ({
    list_id: list.id,
    id,
    title,
    display_order: place,
    type,
    _links: selfLinks(`/lists/${list.id}/interest-categories/${id}`),
  }));
}

/** `subscriber_count` is a text, as the third party sends it. */
export function interestRecords(list: MailingList, category: InterestCategory): readonly JsonObject[] {
  return category.interests.map(({ id, name, stride }, place) => ({
    category_id: category.id,
    list_id: list.id,
    id,
    name,
    subscriber_count: String(membersOf(list).filter((index) => isInterested(list, index, stride)).length),
    display_order: place + 1,
    _links: selfLinks(`/lists/${list.id}/interest-categories/${category.id}/interests/${id}`),
  }));
}

export function segmentRecords(list: MailingList): readonly JsonObject[] {
  return list.segments.map((segment) => ({
    id: segment.id,
    name: segment.name,
    member_count: segmentMembers(list, segment).length,
    type: segment.type,
    created_at: mailingTime(segment.createdAt),
    updated_at: mailingTime(segment.updatedAt),
    options: segment.options,
    list_id: list.id,
    _links: selfLinks(`/lists/${list.id}/segments/${segment.id}`),
  }));
}

function segmentMembers(list: MailingList, { slots }: Segment): Uint32Array {
  return membersOf(list).filter((index) => {
    const slot = slotOf(list, index);
    return slot !== null && slots.includes(slot) && stateOf(list, index).status === 'subscribed';
  });
}

const leftOut = new Set([
  'contact_id',
  'web_id',
  'consents_to_one_to_one_messaging',
  'source',
  'tags_count',
  'tags',
  'marketing_permissions',
  'sms_phone_number',
  'sms_subscription_status',
  'sms_subscription_last_updated',
]);

/** Members of a segment are shorter records than members of a list, and do not say which segment they are in. */
export function segmentMemberListing(list: MailingList, segment: Segment): Listing {
  const members = segmentMembers(list, segment);
  return computedListing(
    members.length,
    (position) => {
      const record = memberRecord(list, members[position] ?? 0);
      return Object.fromEntries(Object.entries(record).filter(([name]) => !leftOut.has(name)));
    },
    listLinks(`/lists/${list.id}/segments/${segment.id}/members`),
  );
}
