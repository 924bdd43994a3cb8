import type { JsonObject } from '../../core/json.ts';
import { before, equalTo, since, type RecordFilters } from '../record-filters.ts';
import { diceFor, type Dice } from '../dice.ts';
import { dayMs, mailingTime } from '../times.ts';
import { activityCounts, hourMs, type ActivityCounts } from './activity-counts.ts';
import { deliveryStatus, emailsSent, previewOf } from './campaign-counts.ts';
import { selfLinks } from './links.ts';
import { kind } from './kinds.ts';
import { ecommerceOf, rateOf } from './report-summary.ts';
import type { Campaign } from './plan-campaigns.ts';
import { unsubscribedStride } from './unsubscribes.ts';
import { strideSize } from './member-slots.ts';

export const reportFilters: RecordFilters = {
  type: equalTo('type'),
  since_send_time: since('send_time'),
  before_send_time: before('send_time'),
};

/** The report of a campaign that has left; its id is the campaign's. The likes bear the third party's wire name. */
export function reportRecord(campaign: Campaign, sentAt: number): JsonObject {
  const dice = diceFor(campaign.seed, kind.report, campaign.index, 1);
  const { list } = campaign;
  const counts = activityCounts(campaign, sentAt);
  return {
    id: campaign.id,
    campaign_title: campaign.title,
    type: campaign.type,
    list_id: list.id,
    list_is_active: list.isActive,
    list_name: list.name,
    subject_line: campaign.title,
    preview_text: previewOf(campaign),
    emails_sent: emailsSent(campaign),
    abuse_reports: dice.below(2),
    unsubscribed: strideSize(unsubscribedStride(campaign)) + campaign.revised.departures.length,
    send_time: mailingTime(sentAt),
    ...(campaign.type === 'rss' ? { rss_last_send: mailingTime(sentAt + dayMs) } : {}),
    bounces: { hard_bounces: counts.hardBounces, soft_bounces: counts.softBounces, syntax_errors: 0 },
    forwards: { forwards_count: dice.below(3), forwards_opens: dice.below(3) },
    opens: {
      opens_total: counts.opens,
      unique_opens: counts.openers,
      open_rate: rateOf(counts.openers, campaign),
      last_open: counts.lastOpen === null ? '' : mailingTime(counts.lastOpen),
    },
    clicks: {
      clicks_total: counts.clicks,
      unique_clicks: counts.uniqueClicks,
      unique_subscriber_clicks: counts.clickers,
      click_rate: rateOf(counts.clickers, campaign),
      last_click: counts.lastClick === null ? '' : mailingTime(counts.lastClick),
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
    ...(campaign.type === 'absplit' ? { ab_split: abSplit(dice, sentAt) } : {}),
    timeseries: timeseries(campaign, sentAt, counts),
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

/** The first 24 hours. */
function timeseries(campaign: Campaign, sentAt: number, counts: ActivityCounts): readonly JsonObject[] {
  const firstHour = Math.floor(sentAt / hourMs);
  return Array.from({ length: 24 }, (_, hour) => ({
    timestamp: mailingTime((firstHour + hour) * hourMs),
    emails_sent: hour === 0 ? emailsSent(campaign) : 0,
    unique_opens: counts.firstOpens.get(firstHour + hour) ?? 0,
    recipients_clicks: counts.firstClicks.get(firstHour + hour) ?? 0,
  }));
}

function abSplit(dice: Dice, sentAt: number): JsonObject {
  const half = (): JsonObject => ({
    bounces: dice.below(3),
    abuse_reports: 0,
    unsubs: dice.below(3),
    recipient_clicks: dice.below(30),
    opens: dice.below(60),
    last_open: mailingTime(sentAt + dice.below(86_400) * 1000),
  });
  return { a: half(), b: half() };
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
