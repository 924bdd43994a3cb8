import type { JsonObject } from '../../core/json.ts';
import { diceFor, type Dice } from '../dice.ts';
import { remembered } from '../sample-account.ts';
import { dayMs, hourMs, mailingTime } from '../writing.ts';
import { actionsOf, leaversOf, type Action } from './activity.ts';
import { kind, selfLinks } from './mailing-list.ts';
import { emailsSent, type Campaign, type SentCampaign } from './plan-campaigns.ts';

/** What the rows of a campaign's activity add up to. Looks once at each recipient, who are few in every account. */
const activityCounts = remembered((campaign: SentCampaign) => {
  const rows = Array.from({ length: emailsSent(campaign) }, (_, index) => actionsOf(campaign, index));
  const all = rows.flat();
  const timesOf = (action: Action['action']): readonly number[] =>
    all.flatMap((one) => (one.action === action ? [one.at] : []));
  const firstOf = (action: Action['action']): readonly number[] =>
    rows.flatMap((row) => row.find((one) => one.action === action)?.at ?? []);
  return {
    opens: timesOf('open'),
    clicks: timesOf('click'),
    /** Of each recipient that opened or clicked, the first time. */
    firstOpens: firstOf('open'),
    firstClicks: firstOf('click'),
    /** Links that recipients clicked, each once for a recipient. */
    uniqueClicks: rows.reduce((sum, row) => sum + new Set(row.flatMap(({ url }) => url ?? [])).size, 0),
    hardBounces: all.filter(({ type }) => type === 'hard').length,
    softBounces: all.filter(({ type }) => type === 'soft').length,
  };
});

/** The report of a campaign that has left; its id is the campaign's. The likes bear the third party's wire name. */
export function reportRecord(campaign: SentCampaign): JsonObject {
  const dice = diceFor(campaign.seed, kind.report, campaign.index, 1);
  const { list, sentAt } = campaign;
  const counts = activityCounts(campaign);
  const summary = reportSummary(campaign);
  return {
    id: campaign.id,
    campaign_title: campaign.title,
    type: campaign.type,
    list_id: list.id,
    list_is_active: true,
    list_name: list.name,
    subject_line: campaign.title,
    preview_text: previewOf(campaign),
    emails_sent: emailsSent(campaign),
    abuse_reports: dice.below(2),
    unsubscribed: leaversOf(campaign).size,
    send_time: mailingTime(sentAt),
    ...(campaign.type === 'rss' ? { rss_last_send: mailingTime(sentAt + dayMs) } : {}),
    bounces: { hard_bounces: counts.hardBounces, soft_bounces: counts.softBounces, syntax_errors: 0 },
    forwards: { forwards_count: dice.below(3), forwards_opens: dice.below(3) },
    opens: {
      opens_total: counts.opens.length,
      unique_opens: counts.firstOpens.length,
      open_rate: summary['open_rate'] ?? 0,
      last_open: lastOf(counts.opens),
    },
    clicks: {
      clicks_total: counts.clicks.length,
      unique_clicks: counts.uniqueClicks,
      unique_subscriber_clicks: counts.firstClicks.length,
      click_rate: summary['click_rate'] ?? 0,
      last_click: lastOf(counts.clicks),
    },
    facebook_likes: { recipient_likes: 0, unique_likes: 0, facebook_likes: 0 },
    industry_stats: {
      type: 'Software and Web App',
      open_rate: 0.2129,
      click_rate: 0.0245,
      bounce_rate: 0.0098,
      unopen_rate: 0.7773,
      unsub_rate: 0.0037,
      abuse_rate: 0.0002,
    },
    list_stats: { sub_rate: 0, unsub_rate: 1, open_rate: 64.70588235294117, click_rate: 33.33333333333333 },
    ...(campaign.type === 'absplit' ? { ab_split: { a: half(dice, sentAt), b: half(dice, sentAt) } } : {}),
    timeseries: timeseries(campaign, counts),
    ...(campaign.type === 'variate' ? { timewarp: timewarp(dice, sentAt) } : {}),
    share_report: {
      share_url: `https://us10.example.test/reports/summary?u=${dice.hex(25)}`,
      share_password: '',
    },
    ecommerce: { ...ecommerceOf(campaign), currency_code: 'USD' },
    delivery_status: deliveryStatus(campaign),
    _links: selfLinks(`/reports/${campaign.id}`),
  };
}

/** What a campaign says of its report. */
export function reportSummary(campaign: SentCampaign): JsonObject {
  const { opens, clicks, firstOpens, firstClicks } = activityCounts(campaign);
  const sent = Math.max(1, emailsSent(campaign));
  return {
    opens: opens.length,
    unique_opens: firstOpens.length,
    open_rate: firstOpens.length / sent,
    clicks: clicks.length,
    subscriber_clicks: firstClicks.length,
    click_rate: firstClicks.length / sent,
    ecommerce: ecommerceOf(campaign),
  };
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

export function previewOf({ index }: Campaign): string {
  if (index % 5 !== 3) return '';
  // Longer than what the API shows of a text when it shortens them.
  return 'Everything that happened since the last letter, in the order in which it happened. '
    .repeat(4)
    .trim();
}

function ecommerceOf({ seed, index }: Campaign): JsonObject {
  const dice = diceFor(seed, kind.report, index);
  return {
    total_orders: dice.below(9),
    total_spent: dice.below(90_000) / 100,
    total_revenue: dice.below(90_000) / 100,
  };
}

function lastOf(times: readonly number[]): string {
  return times.length === 0 ? '' : mailingTime(times.reduce((left, right) => Math.max(left, right)));
}

/** The first 24 hours. */
function timeseries(
  campaign: SentCampaign,
  counts: ReturnType<typeof activityCounts>,
): readonly JsonObject[] {
  const firstHour = Math.floor(campaign.sentAt / hourMs);
  return Array.from({ length: 24 }, (_, hour) => {
    const isNow = (at: number): boolean => Math.floor(at / hourMs) === firstHour + hour;
    return {
      timestamp: mailingTime((firstHour + hour) * hourMs),
      emails_sent: hour === 0 ? emailsSent(campaign) : 0,
      unique_opens: counts.firstOpens.filter(isNow).length,
      recipients_clicks: counts.firstClicks.filter(isNow).length,
    };
  });
}

function half(dice: Dice, sentAt: number): JsonObject {
  return {
    bounces: dice.below(3),
    abuse_reports: 0,
    unsubs: dice.below(3),
    recipient_clicks: dice.below(30),
    opens: dice.below(60),
    last_open: mailingTime(sentAt + dice.below(86_400) * 1000),
  };
}

function timewarp(dice: Dice, sentAt: number): readonly JsonObject[] {
  return [-5, 1, 9].map((offset) => ({
    gmt_offset: offset,
    opens: dice.below(30),
    last_open: mailingTime(sentAt + dice.below(86_400) * 1000),
    unique_opens: dice.below(20),
    clicks: dice.below(9),
    bounces: 0,
  }));
}
