import type { JsonObject } from '../../core/json.ts';
import { diceFor } from '../dice.ts';
import { activityCounts } from './activity-counts.ts';
import { emailsSent } from './campaign-counts.ts';
import { kind } from './kinds.ts';
import type { Campaign } from './plan-campaigns.ts';

/** What a campaign says of its report. */
export function reportSummary(campaign: Campaign, sentAt: number): JsonObject {
  const counts = activityCounts(campaign, sentAt);
  return {
    opens: counts.opens,
    unique_opens: counts.openers,
    open_rate: rateOf(counts.openers, campaign),
    clicks: counts.clicks,
    subscriber_clicks: counts.clickers,
    click_rate: rateOf(counts.clickers, campaign),
    ecommerce: ecommerceOf(campaign),
  };
}

/** Of the messages sent. */
export function rateOf(count: number, campaign: Campaign): number {
  const sent = emailsSent(campaign);
  return sent === 0 ? 0 : count / sent;
}

export function ecommerceOf(campaign: Campaign): JsonObject {
  const dice = diceFor(campaign.seed, kind.report, campaign.index);
  return {
    total_orders: dice.below(9),
    total_spent: dice.below(90_000) / 100,
    total_revenue: dice.below(90_000) / 100,
  };
}
