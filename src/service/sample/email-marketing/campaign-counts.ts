import type { JsonObject } from '../../../core/json.ts';
import { diceFor, type Dice } from '../dice.ts';
import { mailingTime } from '../times.ts';
import { lateCounts } from './campaign-revisions.ts';
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
  const late = lateCounts(campaign.revised);
  const early = campaign.revised.isSentLate ? noEarlyCounts : earlyCounts(dice, sent);
  const uniqueOpens = Math.min(sent, early.openers + late.openers);
  const openers = Math.min(sent, early.clickers + late.clickers);
  const opensTotal = early.opens + late.opens;
  const clicksTotal = early.clicks + late.clicks;
  const openRate = sent === 0 ? 0 : uniqueOpens / sent;
  const clickRate = sent === 0 ? 0 : openers / sent;
  const after = (days: number): string =>
    mailingTime((campaign.sentAt ?? campaign.createdAt) + dice.below(days * 86_400) * 1000);
  return {
    opens: {
      opens_total: opensTotal,
      unique_opens: uniqueOpens,
      open_rate: openRate,
      last_open: uniqueOpens === 0 ? '' : lastOf(late.lastOpen, after(20)),
    },
    clicks: {
      clicks_total: clicksTotal,
      unique_clicks: openers,
      unique_subscriber_clicks: openers,
      click_rate: clickRate,
      last_click: openers === 0 ? '' : lastOf(late.lastClick, after(10)),
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

interface EarlyCounts {
  readonly opens: number;
  readonly openers: number;
  readonly clicks: number;
  readonly clickers: number;
}

const noEarlyCounts: EarlyCounts = { opens: 0, openers: 0, clicks: 0, clickers: 0 };

/** Before all revisions. */
function earlyCounts(dice: Dice, sent: number): EarlyCounts {
  const openers = dice.below(sent + 1);
  const clickers = dice.below(openers + 1);
  const opens = openers * (1 + dice.below(4));
  return { openers, clickers, opens, clicks: clickers + dice.below(40) };
}

/** Whatever came with a revision is the latest. */
function lastOf(late: number | null, early: string): string {
  return late === null ? early : mailingTime(late);
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
