import type { JsonObject, JsonValue } from '../../core/json.ts';
import type { Params } from '../../core/records.ts';
import { notFound } from '../../service/api-error.ts';
import {
  filterRecords,
  type Listing,
  listingOf,
  type SampleAccount,
  type SampleSize,
  sortRecords,
} from '../sample-account.ts';
import { textOf } from '../writing.ts';
import { activityListing, unsubscribeListing } from './activity.ts';
import { campaignPaths, campaignRecord } from './campaign-record.ts';
import {
  categoryRecords,
  interestRecords,
  listPaths,
  listRecords,
  segmentMemberListing,
  segmentPaths,
  segmentRecords,
  tagRecords,
} from './list-records.ts';
import { type InterestCategory, type MailingList, listLinks } from './mailing-list.ts';
import { automationPaths, type MailingPlan, planMailing } from './mailing-plan.ts';
import { findMember, memberListing, memberRecord } from './member-records.ts';
import type { Campaign } from './plan-campaigns.ts';
import { reportPaths, reportRecord } from './reports.ts';

/** The account behind an email-marketing connector. */
export function openMailingAccount(seed: number, size: SampleSize, revision: number): SampleAccount {
  const plan = planMailing(seed, size, revision);
  return {
    list: (entity, params) => listEntity(plan, entity, params),
    get(entity, params) {
      switch (entity) {
        case 'lists':
          return byId(listRecords(plan, {}), params['list_id']);
        case 'campaigns':
          return byId(plan.campaigns.filter(isAsked(params)).map(campaignRecord), params['campaign_id']);
        case 'reports':
          return byId(reportRecords(plan.campaigns.filter(isAsked(params))), params['campaign_id']);
        case 'list_members': {
          const list = listOf(plan, params);
          const index = findMember(list, textOf(params['subscriber_hash']));
          return index === null ? null : memberRecord(list, index);
        }
        case 'interest_categories':
          return byId(categoryRecords(listOf(plan, params)), params['interest_category_id']);
        case 'interests': {
          const list = listOf(plan, params);
          return byId(interestRecords(list, categoryOf(list, params)), params['interest_id']);
        }
        case 'segments':
          return byId(segmentRecords(listOf(plan, params)), params['segment_id']);
        default:
          return null;
      }
    },
  };
}

function listEntity(plan: MailingPlan, entity: string, params: Params): Listing {
  const listing = (
    records: readonly JsonObject[],
    path: string,
    fieldPaths: Readonly<Record<string, string>> = {},
  ): Listing => listingOf(sortRecords(filterRecords(records, fieldPaths, params), params), listLinks(path));
  switch (entity) {
    case 'lists':
      return listing(listRecords(plan, params), '/lists', listPaths);
    case 'campaigns':
      return listing(plan.campaigns.map(campaignRecord), '/campaigns', campaignPaths);
    case 'automations':
      return listing(plan.automations, '/automations', automationPaths);
    case 'reports':
      return listing(reportRecords(plan.campaigns), '/reports', reportPaths);
    case 'email_activity':
    case 'unsubscribes': {
      // A draft has no report and nothing under it: 404, as for a campaign that does not exist.
      const campaign = plan.campaigns.find(isAsked(params));
      const sentAt = known(campaign?.sentAt ?? undefined, 'report');
      return entity === 'unsubscribes'
        ? unsubscribeListing(known(campaign, 'report'), sentAt)
        : activityListing(known(campaign, 'report'), sentAt, params);
    }
  }
  const list = listOf(plan, params);
  const path = `/lists/${list.id}`;
  switch (entity) {
    case 'list_members':
      return memberListing(list, params);
    case 'tags':
      return listing(tagRecords(list, params), `${path}/tag-search`);
    case 'interest_categories':
      return listing(categoryRecords(list), `${path}/interest-categories`);
    case 'interests': {
      const category = categoryOf(list, params);
      return listing(interestRecords(list, category), `${path}/interest-categories/${category.id}/interests`);
    }
    case 'segments':
      return listing(segmentRecords(list), `${path}/segments`, segmentPaths);
    case 'segment_members': {
      const segment = list.segments.find(({ id }) => String(id) === textOf(params['segment_id']));
      return segmentMemberListing(list, known(segment, 'segment'));
    }
    default:
      throw notFound(`The sample account has nothing under '${entity}'.`);
  }
}

function reportRecords(campaigns: readonly Campaign[]): readonly JsonObject[] {
  return campaigns.flatMap((campaign) =>
    campaign.sentAt === null ? [] : [reportRecord(campaign, campaign.sentAt)],
  );
}

function isAsked(params: Params): (campaign: Campaign) => boolean {
  return ({ id }) => id === params['campaign_id'];
}

function listOf(plan: MailingPlan, params: Params): MailingList {
  return known(
    plan.lists.find(({ id }) => id === params['list_id']),
    'list',
  );
}

function categoryOf(list: MailingList, params: Params): InterestCategory {
  return known(
    list.categories.find(({ id }) => id === params['interest_category_id']),
    'interest category',
  );
}

function byId(records: readonly JsonObject[], id: JsonValue | undefined): JsonObject | null {
  return records.find((record) => textOf(record['id']) === textOf(id)) ?? null;
}

function known<Value>(value: Value | undefined, what: string): Value {
  if (value !== undefined) return value;
  throw notFound(`Resource Not Found: there is no ${what} with this id in the account.`);
}
