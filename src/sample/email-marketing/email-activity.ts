import type { JsonObject } from '../../core/json.ts';
import type { Params } from '../../core/records.ts';
import { diceFor } from '../dice.ts';
import { computedListing, type Listing } from '../listing.ts';
import { timeParameter } from '../record-filters.ts';
import { mailingTime } from '../times.ts';
import { emailsSent } from './campaign-counts.ts';
import type { Action } from './campaign-revisions.ts';
import { listLinks, selfLinks } from './links.ts';
import { kind } from './kinds.ts';
import { memberId, memberPerson } from './member-record.ts';
import type { Campaign } from './plan-campaigns.ts';

/** One row per recipient, many without any activity. `since` leaves the rows and shortens their arrays. */
export function activityListing(campaign: Campaign, sentAt: number, params: Params): Listing {
  const { since } = params;
  const bound = since === undefined ? Number.NEGATIVE_INFINITY : timeParameter('since', since);
  return computedListing(
    emailsSent(campaign),
    (index) => activityRecord(campaign, sentAt, index, bound),
    listLinks(`/reports/${campaign.id}/email-activity`),
  );
}

function activityRecord(campaign: Campaign, sentAt: number, index: number, bound: number): JsonObject {
  const person = memberPerson(campaign.list, index);
  const id = memberId(person.email);
  const activity = actionsOf(campaign, sentAt, index).filter(({ at }) => at >= bound);
  return {
    campaign_id: campaign.id,
    list_id: campaign.list.id,
    list_is_active: campaign.list.isActive,
    email_id: id,
    email_address: person.email,
    activity: activity.map(({ at, action, ...rest }) => ({ action, timestamp: mailingTime(at), ...rest })),
    _links: selfLinks(`/reports/${campaign.id}/email-activity/${id}`),
  };
}

/** All that a recipient did, oldest first. */
export function actionsOf(campaign: Campaign, sentAt: number, index: number): readonly Action[] {
  const early = campaign.revised.isSentLate ? [] : firstActions(campaign, sentAt, index);
  return [...early, ...(campaign.revised.actions.get(index) ?? [])];
}

/** Before all revisions: nothing, a bounce, or some opens each of which may lead to a click; oldest first. */
export function firstActions(campaign: Campaign, sentAt: number, index: number): readonly Action[] {
  const dice = diceFor(campaign.seed, kind.activity, campaign.index, index);
  const fate = dice.below(100);
  if (fate < 40) return [];
  let at = sentAt + dice.below(3_600) * 1000;
  if (fate < 45) return [{ at, action: 'bounce', type: dice.pick(['hard', 'soft']) }];
  const ip = `192.0.2.${dice.below(256)}`;
  return Array.from({ length: 1 + dice.below(3) }, () => {
    at += (1 + dice.below(86_400)) * 1000;
    const open: Action = { at, action: 'open', ip };
    if (!dice.chance(35)) return [open];
    at += (2 + dice.below(60)) * 1000;
    return [open, { at, action: 'click' as const, url: `https://example.test/offer?n=${index % 3}`, ip }];
  }).flat();
}
