import type { JsonObject, JsonValue } from '../../core/json.ts';
import type { Params } from '../../core/records.ts';
import { notFound } from '../../service/api-error.ts';
import { listingOf, type Listing } from '../listing.ts';
import { filterRecords, sortRecords } from '../record-filters.ts';
import type { SampleAccount, SampleSize } from '../sample-account.ts';
import { automationFilters, automationRecords } from './automations.ts';
import { campaignFilters, campaignRecord } from './campaign-record.ts';
import { activityListing } from './email-activity.ts';
import { memberFinder } from './find-member.ts';
import { categoryRecords, interestRecords } from './interests.ts';
import { listLinks, selfLinks } from './links.ts';
import { listFilters, listRecords } from './lists.ts';
import { planMailing, type MailingList, type MailingPlan } from './mailing-plan.ts';
import { memberListing } from './member-listing.ts';
import { memberRecords } from './member-record.ts';
import type { Campaign } from './plan-campaigns.ts';
import type { InterestCategory } from './plan-interests.ts';
import { reportFilters, reportRecord } from './report-record.ts';
import { reviseMailing } from './revise-mailing.ts';
import { segmentFilters, segmentMemberListing, segmentRecords } from './segments.ts';
import { unsubscribeListing } from './unsubscribes.ts';
import { textOf } from '../text-of.ts';

/** The account behind an email-marketing connector. */
export function openMailingAccount(seed: number, size: SampleSize, revision: number): SampleAccount {
  const plan = reviseMailing(planMailing(seed, size), revision);
  const finders = new Map(plan.lists.map((list) => [list, memberFinder(list)]));
  const listOf = (params: Params): MailingList =>
    known(
      plan.lists.find(({ id }) => id === params['list_id']),
      'list',
    );

  return {
    list: (entity, params) => listEntity(plan, listOf, entity, params),
    get(entity, params) {
      switch (entity) {
        case 'lists':
          return byId(listRecords(plan, {}), params['list_id']);
        case 'campaigns': {
          const campaign = plan.campaigns.find(({ id }) => id === params['campaign_id']);
          return campaign === undefined ? null : campaignRecord(campaign);
        }
        case 'reports':
          return byId(
            reportRecords(plan.campaigns.filter(({ id }) => id === params['campaign_id'])),
            params['campaign_id'],
          );
        case 'list_members': {
          const list = listOf(params);
          const index = finders.get(list)?.(textOf(params['subscriber_hash'])) ?? null;
          return index === null ? null : memberRecords(list)(index);
        }
        case 'interest_categories':
          return byId(categoryRecords(listOf(params)), params['interest_category_id']);
        case 'interests': {
          const list = listOf(params);
          return byId(interestRecords(list, categoryOf(list, params)), params['interest_id']);
        }
        case 'segments':
          return byId(segmentRecords(listOf(params)), params['segment_id']);
        default:
          return null;
      }
    },
  };
}

function listEntity(
  plan: MailingPlan,
  listOf: (params: Params) => MailingList,
  entity: string,
  params: Params,
): Listing {
  switch (entity) {
    case 'lists':
      return listingOf(
        sortRecords(filterRecords(listRecords(plan, params), listFilters, params), params),
        listLinks('/lists'),
      );
    case 'campaigns':
      return listingOf(
        sortRecords(filterRecords(plan.campaigns.map(campaignRecord), campaignFilters, params), params),
        listLinks('/campaigns'),
      );
    case 'automations':
      return listingOf(
        filterRecords(automationRecords(plan), automationFilters, params),
        listLinks('/automations'),
      );
    case 'reports':
      return listingOf(
        filterRecords(reportRecords(plan.campaigns), reportFilters, params),
        listLinks('/reports'),
      );
    case 'email_activity': {
      const { campaign, sentAt } = sentCampaign(plan, params);
      return activityListing(campaign, sentAt, params);
    }
    case 'unsubscribes': {
      const { campaign, sentAt } = sentCampaign(plan, params);
      return unsubscribeListing(campaign, sentAt);
    }
    default:
      return listOfList(listOf(params), entity, params);
  }
}

/** The entities below a list. */
function listOfList(list: MailingList, entity: string, params: Params): Listing {
  const path = `/lists/${list.id}`;
  switch (entity) {
    case 'list_members':
      return memberListing(list, params);
    case 'tags':
      return listingOf(tagRecords(list, params), listLinks(`${path}/tag-search`));
    case 'interest_categories':
      return listingOf(categoryRecords(list), listLinks(`${path}/interest-categories`));
    case 'interests': {
      const category = categoryOf(list, params);
      return listingOf(
        interestRecords(list, category),
        listLinks(`${path}/interest-categories/${category.id}/interests`),
      );
    }
    case 'segments':
      return listingOf(
        filterRecords(segmentRecords(list), segmentFilters, params),
        listLinks(`${path}/segments`),
      );
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

/** `name` is the beginning of a tag's name, in any case. */
function tagRecords(list: MailingList, params: Params): readonly JsonObject[] {
  const beginning = textOf(params['name']).toLowerCase();
  return list.tags
    .filter(({ name }) => name.toLowerCase().startsWith(beginning))
    .map(({ id, name }) => ({ id, name, _links: selfLinks(`/lists/${list.id}/segments/${id}`) }));
}

/** A draft has no report and nothing under it: 404, as for a campaign that does not exist. */
function sentCampaign(plan: MailingPlan, params: Params): { campaign: Campaign; sentAt: number } {
  const campaign = plan.campaigns.find(({ id }) => id === params['campaign_id']);
  const sentAt = campaign?.sentAt ?? null;
  return known(campaign === undefined || sentAt === null ? undefined : { campaign, sentAt }, 'report');
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
  if (value === undefined) {
    throw notFound(`Resource Not Found: there is no ${what} with this id in the account.`);
  }
  return value;
}
