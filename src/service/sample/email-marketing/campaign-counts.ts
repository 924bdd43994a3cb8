import type { JsonObject } from '../../../core/json.ts';
import { diceFor } from '../dice.ts';
import { mailingTime } from '../times.ts';
import { kind } from './kinds.ts';
import type { Campaign } from './plan-campaigns.ts';

interface OpenCounts {
  readonly opens: JsonObject;
  readonly clicks: JsonObject;
  readonly summary: JsonObject;
}

/** What campaign and report both say of opens and clicks. */
export function openCounts(campaign: Campaign): OpenCounts {
  const dice = diceFor(campaign.seed, kind.report, campaign.index);
  const sent = emailsSent(campaign);
  const uniqueOpens = dice.below(sent + 1);
  const openers = dice.below(uniqueOpens + 1);
  const opensTotal = uniqueOpens * (1 + dice.below(4));
  const clicksTotal = openers + dice.below(40);
  const openRate = sent === 0 ? 0 : uniqueOpens / sent;
  const clickRate = sent === 0 ? 0 : openers / sent;
  const after = (days: number): string =>
    mailingTime((campaign.sentAt ?? campaign.createdAt) + dice.below(days * 86_400) * 1000);
  return {
    opens: {
      opens_total: opensTotal,
      unique_opens: uniqueOpens,
      open_rate: openRate,
      last_open: uniqueOpens === 0 ? '' : after(20),
    },
    clicks: {
      clicks_total: clicksTotal,
      unique_clicks: openers,
      unique_subscriber_clicks: openers,
      click_rate: clickRate,
      last_click: openers === 0 ? '' : after(10),
    },
    summary: {
      opens: opensTotal,
      unique_opens: uniqueOpens,
      open_rate: openRate,
      clicks: clicksTotal,
      subscriber_clicks: openers,
      click_rate: clickRate,
      ecommerce: { total_orders: 0, total_spent: 0, total_revenue: 0 },
    },
  };
}

/** Half of them while it is being sent. */
export function emailsSent({ status, recipients }: Campaign): number {
  if (status === 'sent') return recipients;
  return status === 'sending' ? Math.ceil(recipients / 2) : 0;
}

export function deliveryStatus(campaign: Campaign): JsonObject {
  if (campaign.status !== 'sending') return { enabled: false };
  return {
    enabled: true,
    can_cancel: true,
    status: 'delivering',
    emails_sent: emailsSent(campaign),
    emails_canceled: 0,
  };
}

export function subjectOf(campaign: Campaign): string {
  return `${campaign.title} (${campaign.index + 1})`;
}

export function previewOf(campaign: Campaign): string {
  if (campaign.index % 5 !== 3) return '';
  return 'Everything that happened since the last letter, in the order in which it happened. '
    .repeat(4)
    .trim();
}
