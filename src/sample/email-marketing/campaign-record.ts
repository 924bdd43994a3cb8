import type { JsonObject } from '../../core/json.ts';
import { diceFor, type Dice } from '../dice.ts';
import { dayMs, mailingTime } from '../writing.ts';
import { kind, selfLinks } from './mailing-list.ts';
import { emailsSent, isSent, type Campaign } from './plan-campaigns.ts';
import { deliveryStatus, previewOf, reportSummary } from './reports.ts';

/** A draft has no `send_time` ("") and neither subject nor report; a campaign of a special type has its options. */
export function campaignRecord(campaign: Campaign): JsonObject {
  const dice = diceFor(campaign.seed, kind.campaign, campaign.index, 1);
  const { id, sentAt, list, type } = campaign;
  return {
    id,
    web_id: 13_500_000 + campaign.index * 17,
    ...(type === 'rss' ? { parent_campaign_id: dice.hex(10) } : {}),
    type,
    create_time: mailingTime(campaign.createdAt),
    archive_url: `http://example.test/${dice.hex(6)}`,
    long_archive_url: `https://us10.example.test/?u=${dice.hex(25)}&id=${id}`,
    status: campaign.status,
    emails_sent: emailsSent(campaign),
    send_time: sentAt === null ? '' : mailingTime(sentAt),
    content_type: dice.pick(['multichannel', 'template', 'html']),
    needs_block_refresh: false,
    resendable: campaign.status === 'sent' && type === 'regular',
    recipients: {
      list_id: list.id,
      list_is_active: true,
      list_name: list.name,
      segment_text: '',
      recipient_count: campaign.recipients,
    },
    settings: campaignSettings(campaign, dice),
    tracking: trackingOf(dice),
    ...typeOptions(campaign),
    social_card: { image_url: 'https://cdn.example.test/banner.png', description: '', title: '' },
    ...(isSent(campaign) ? { report_summary: reportSummary(campaign) } : {}),
    delivery_status: deliveryStatus(campaign),
    _links: selfLinks(`/campaigns/${id}`),
  };
}

function campaignSettings(campaign: Campaign, dice: Dice): JsonObject {
  const { index, title, sentAt } = campaign;
  const from = { from_name: 'Editor', reply_to: 'editor@example.test' };
  return {
    ...(sentAt === null ? {} : { subject_line: title, preview_text: previewOf(campaign), ...from }),
    title,
    use_conversation: false,
    to_name: index % 3 === 0 ? '*|FNAME|*' : '',
    folder_id: index % 4 === 2 ? `folder${index % 8}` : '',
    authenticate: true,
    auto_footer: false,
    inline_css: false,
    auto_tweet: false,
    fb_comments: true,
    timewarp: false,
    template_id: 13 + dice.below(40),
    drag_and_drop: dice.chance(30),
  };
}

export function trackingOf(dice: Dice): JsonObject {
  return {
    opens: true,
    html_clicks: true,
    text_clicks: false,
    goal_tracking: false,
    ecomm360: dice.chance(20),
    google_analytics: dice.pick(['', 'spring-sale']),
    clicktale: '',
  };
}

function typeOptions({ id, type, title, createdAt }: Campaign): JsonObject {
  switch (type) {
    case 'absplit':
      return {
        ab_split_opts: {
          split_test: 'subject',
          pick_winner: 'opens',
          wait_units: 3600,
          wait_time: 2,
          split_size: 50,
          subject_a: `${title} A`,
          subject_b: `${title} B`,
        },
      };
    case 'variate':
      return {
        variate_settings: {
          winner_criteria: 'opens',
          wait_time: 60,
          test_size: 10,
          subject_lines: [`${title} 1`, `${title} 2`],
          combinations: [{ id: `${id}1`, subject_line: 0, recipients: 10 }],
        },
      };
    case 'rss':
      return {
        rss_opts: {
          feed_url: 'https://example.test/feed.xml',
          frequency: 'daily',
          schedule: { hour: 6, daily_send: { monday: true, sunday: false } },
          last_sent: mailingTime(createdAt + 2 * dayMs),
          constrain_rss_img: true,
        },
      };
    case 'regular':
    case 'plaintext':
      return {};
  }
}
