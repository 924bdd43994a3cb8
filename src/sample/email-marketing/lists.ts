import type { JsonObject } from '../../core/json.ts';
import type { Params } from '../../core/records.ts';
import { diceFor } from '../dice.ts';
import { personNumber } from '../people.ts';
import { before, since, type RecordFilters } from '../record-filters.ts';
import { mailingTime } from '../times.ts';
import { selfLinks } from './links.ts';
import { kind } from './kinds.ts';
import type { MailingList, MailingPlan } from './mailing-plan.ts';
import { lastUnsubscribed, statusCounts, totalCount } from './member-counts.ts';
import { personOffset } from './member-record.ts';
import { memberTimes } from './member-times.ts';
import { textOf } from '../text-of.ts';

export const listFilters: RecordFilters = {
  since_date_created: since('date_created'),
  before_date_created: before('date_created'),
  since_campaign_last_sent: since('stats.campaign_last_sent'),
  before_campaign_last_sent: before('stats.campaign_last_sent'),
};

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
  const { states, added } = list.revised;
  const original = number - personOffset(list);
  if (original >= 0 && original < list.memberCount) return states.get(original)?.isThere ?? true;
  const position = added.findIndex(({ person }) => person === number);
  return position >= 0 && states.get(list.memberCount + position)?.isThere === true;
}

function listRecord(plan: MailingPlan, list: MailingList): JsonObject {
  const dice = diceFor(list.seed, kind.list, list.index, 1);
  const query = `u=${dice.hex(25)}&id=${list.id}`;
  return {
    id: list.id,
    web_id: list.webId,
    name: list.name,
    contact: {
      company: 'Example',
      address1: `${1 + list.index} Main St`,
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
    notify_on_unsubscribe: list.index === 1 ? 'editor@example.test' : '',
    date_created: mailingTime(list.createdAt),
    list_rating: dice.below(6),
    email_type_option: list.index % 2 === 1,
    subscribe_url_short: `http://example.test/${dice.hex(6)}`,
    subscribe_url_long: `https://example.test/subscribe?${query}`,
    beamer_address: `us10-${dice.hex(10)}-${dice.hex(10)}@inbound.example.test`,
    visibility: list.index % 2 === 0 ? 'prv' : 'pub',
    double_optin: false,
    has_welcome: list.index === 0,
    marketing_permissions: false,
    modules: [],
    stats: listStats(plan, list),
    _links: selfLinks(`/lists/${list.id}`),
  };
}

function listStats(plan: MailingPlan, list: MailingList): JsonObject {
  const campaigns = plan.campaigns.filter((campaign) => campaign.list.index === list.index);
  const lastSent = Math.max(0, ...campaigns.map(({ sentAt }) => sentAt ?? 0));
  const lastMember = list.memberCount + list.revised.added.length - 1;
  const times = memberTimes(list);
  const countOf = statusCounts(list);
  const unsubscribed = countOf('unsubscribed');
  return {
    member_count: countOf('subscribed'),
    total_contacts: totalCount(list),
    unsubscribe_count: unsubscribed,
    cleaned_count: countOf('cleaned'),
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
    last_sub_date: lastMember < 0 ? '' : mailingTime(times.optedInAt(lastMember)),
    last_unsub_date: unsubscribed === 0 ? '' : mailingTime(lastUnsubscribed(list)),
  };
}
