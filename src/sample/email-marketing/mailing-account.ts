import type { JsonObject, JsonValue } from '../../core/json.ts';
import type { Params } from '../../core/records.ts';
import { notFound } from '../../service/api-error.ts';
import {
  accountOf,
  filterRecords,
  listingOf,
  type SampleAccount,
  type SampleEntity,
  type SampleSize,
  sortRecords,
} from '../sample-account.ts';
import { textOf } from '../writing.ts';
import { activityListing, unsubscribeListing } from './activity.ts';
import { campaignRecord } from './campaign-record.ts';
import {
  categoryRecords,
  interestRecords,
  listRecords,
  segmentMemberListing,
  segmentRecords,
  tagRecords,
} from './list-records.ts';
import { type InterestCategory, type MailingList, listLinks } from './mailing-list.ts';
import { planMailing } from './mailing-plan.ts';
import { findMember, memberListing } from './member-records.ts';
import { type Campaign, isSent, type SentCampaign } from './plan-campaigns.ts';
import { reportRecord } from './reports.ts';

/** The account behind an email-marketing connector. */
export function openMailingAccount(seed: number, size: SampleSize, revision: number): SampleAccount {
  const plan = planMailing(seed, size, revision);
  const listOf = ({ list_id: id }: Params): MailingList => known(plan.lists, 'list', id);
  const categoryOf = (params: Params): InterestCategory =>
    known(listOf(params).categories, 'interest category', params['interest_category_id']);
  const listPath = (params: Params): string => `/lists/${listOf(params).id}`;
  const categoriesPath = (params: Params): string => `${listPath(params)}/interest-categories`;
  const campaignsOf = ({ campaign_id: id }: Params): readonly Campaign[] =>
    plan.campaigns.filter((campaign) => id === undefined || campaign.id === id);
  const reportsOf = (params: Params): readonly SentCampaign[] => campaignsOf(params).filter(isSent);
  // A draft has no report and nothing under it: 404, as for a campaign that does not exist.
  const reportOf = (params: Params): SentCampaign => known(reportsOf({}), 'report', params['campaign_id']);

  return accountOf({
    lists: found('/lists', 'list_id', ['date_created', 'stats.campaign_last_sent'], (params) =>
      listRecords(plan, params),
    ),
    campaigns: found(
      '/campaigns',
      'campaign_id',
      ['type', 'status', 'send_time', 'create_time', 'recipients.list_id', 'settings.folder_id'],
      (params) => campaignsOf(params).map(campaignRecord),
    ),
    automations: found('/automations', '', ['status', 'create_time', 'start_time'], () => plan.automations),
    reports: found('/reports', 'campaign_id', ['type', 'send_time'], (params) =>
      reportsOf(params).map(reportRecord),
    ),
    email_activity: { list: (params) => activityListing(reportOf(params), params) },
    unsubscribes: { list: (params) => unsubscribeListing(reportOf(params)) },
    list_members: {
      list: (params) => memberListing(listOf(params), params),
      get: (params) => findMember(listOf(params), textOf(params['subscriber_hash'])),
    },
    tags: found(
      (params) => `${listPath(params)}/tag-search`,
      '',
      [],
      (params) => tagRecords(listOf(params), params),
    ),
    interest_categories: found(categoriesPath, 'interest_category_id', [], (params) =>
      categoryRecords(listOf(params)),
    ),
    interests: found(
      (params) => `${categoriesPath(params)}/${categoryOf(params).id}/interests`,
      'interest_id',
      [],
      (params) => interestRecords(listOf(params), categoryOf(params)),
    ),
    segments: found(
      (params) => `${listPath(params)}/segments`,
      'segment_id',
      ['type', 'created_at', 'updated_at'],
      (params) => segmentRecords(listOf(params)),
    ),
    segment_members: {
      list: (params) =>
        segmentMemberListing(listOf(params), known(listOf(params).segments, 'segment', params['segment_id'])),
    },
  });
}

/**
 * An entity that is listed with its filters and found by its id. `path`: the address that the answer names; `fields`:
 * see `filterRecords`.
 */
function found(
  path: string | ((params: Params) => string),
  idParam: string,
  fields: readonly string[],
  recordsOf: (params: Params) => readonly JsonObject[],
): SampleEntity {
  return {
    list: (params) => {
      const records = sortRecords(filterRecords(recordsOf(params), fields, params), params);
      return listingOf(records, listLinks(typeof path === 'string' ? path : path(params)));
    },
    get: (params) => recordsOf(params).find(({ id }) => textOf(id) === textOf(params[idParam])),
  };
}

function known<Thing extends { readonly id: string | number }>(
  things: readonly Thing[],
  what: string,
  wanted: JsonValue | undefined,
): Thing {
  const thing = things.find(({ id }) => String(id) === textOf(wanted));
  if (thing !== undefined) return thing;
  throw notFound(`Resource Not Found: there is no ${what} with this id in the account.`);
}
