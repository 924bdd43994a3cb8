import type { JsonObject } from '../core/json.ts';
import type { Params } from '../core/records.ts';
import type { SampleEntity } from './sample-account.ts';
import { templatesOf, textOf } from './sample-values.ts';

export const listNames =
  'Customers|Новости и скидки|Frühaufsteher & Freunde|読者の会|Beta testers 🚀|Press contacts'.split('|');
export const eventNames = 'Open house guests|Webinar in March|Trade fair contacts|Raffle at the fair'.split(
  '|',
);
export const tagNames = '2022|Influencer|VIP|Müde Leser|常連'.split('|');
export const categoryTitles = [
  'Product Preferences|Donating|Volunteering|Événements',
  'How often?|Weekly|Monthly',
  '言語|日本語|English|Українська|Français|Türkçe',
];
/** The second of every twelve campaigns is a draft, and drafts often have no name yet. */
export const campaignTitles = (
  'Thank you for joining us|Untitled|Spring sale: 20 % off|Привет, весна!|What we planned for the summer|New in May 🎉|' +
  'Five recipes for short evenings|Gift guide|春のお知らせ|Your orders planted 1,000 trees|' +
  'Last call: free shipping ends tonight|Two questions about your last order|Meet the people behind your coffee|' +
  'Untitled|Back to school|Neu im Sortiment: Räder für Łódź|Autumn menu|How we pack without plastic|' +
  'Black Friday starts early|Holiday opening hours|Our year in numbers|Winter sale: last sizes|Neuigkeiten im Februar|' +
  'A date for your calendar: open house'
).split('|');

/** Templates of the records, except those of members, which are made by the thousand. See `templatesOf`. */
export const template = templatesOf(`
lists: { id: $id, web_id: <900000, name: $text, contact: { company: Example, address1: 1 Main St, address2: "",
  city: Kyiv | Łódź | São Paulo, state: "30", zip: "04200", country: UA, phone: "" }, permission_reminder: $reminder,
  use_archive_bar: true, campaign_defaults: { from_name: Editor, from_email: editor@example.test, subject: "",
  language: en }, notify_on_subscribe: "", notify_on_unsubscribe: "", date_created: $created, list_rating: <6,
  email_type_option: maybe, subscribe_url_short: "http://example.test/$id",
  subscribe_url_long: "https://example.test/subscribe?id=$id", beamer_address: us10-$id@inbound.example.test,
  visibility: prv | pub, double_optin: false, has_welcome: maybe, marketing_permissions: false, modules: [], stats: $stats }
stats: { member_count: $subscribed, total_contacts: $contacts, unsubscribe_count: $unsubscribed, cleaned_count: $cleaned,
  member_count_since_send: 0, unsubscribe_count_since_send: 1, cleaned_count_since_send: 0, campaign_count: $campaigns,
  campaign_last_sent: $sent, merge_field_count: 5, avg_sub_rate: 0, avg_unsub_rate: 1, target_sub_rate: 1,
  open_rate: 64.7, click_rate: 33.3, last_sub_date: $joined, last_unsub_date: $left }
segments: { id: $number, name: $text, member_count: $members, type: $type, created_at: $created, updated_at: $updated,
  options: { match: any, conditions: [$condition] }, list_id: $list }
static: { condition_type: StaticSegment, field: static_segment, op: static_is, value: $number }
saved: { condition_type: Aim, field: aim, op: open, value: any }
interest_categories: { list_id: $list, id: $id, title: $text, display_order: $place, type: checkboxes | radio | dropdown }
interests: { category_id: $category, list_id: $list, id: $id, name: $text, subscriber_count: $count, display_order: $place }
automations: { id: $id, create_time: $created, start_time: $started, status: $status, emails_sent: $sent,
  recipients: { list_id: $list, list_is_active: true, list_name: $listName, store_id: "" },
  settings: { title: Welcome | Willkommen! | Happy birthday 🎂 | Come back, from_name: Editor, to_name: "",
  reply_to: editor@example.test, use_conversation: false, authenticate: true, auto_footer: false, inline_css: false },
  tracking: { opens: true, html_clicks: true, text_clicks: false, goal_tracking: false, ecomm360: maybe,
  google_analytics: "", clicktale: "" }, report_summary: { opens: $sent, unique_opens: $sent, open_rate: $rate,
  clicks: 0, subscriber_clicks: 0, click_rate: 0 }, trigger_settings: { workflow_type: emailSeries,
  workflow_title: Email series, workflow_emails_count: 1 } }
campaigns: { id: $id, web_id: $number, type: $type, create_time: $created, archive_url: "http://example.test/$id",
  long_archive_url: "https://us10.example.test/?id=$id", status: $status, emails_sent: $sent, send_time: $sentAt,
  content_type: multichannel | template | html, needs_block_refresh: false, resendable: $isOut,
  recipients: { list_id: $list, list_is_active: true, list_name: $listName, segment_text: "",
  recipient_count: $recipients }, settings: { subject_line: $subject, preview_text: $preview, from_name: $from,
  reply_to: $replyTo, title: $title, use_conversation: false, to_name: "", folder_id: $folder, authenticate: true,
  auto_footer: false, inline_css: false, auto_tweet: false, fb_comments: true, timewarp: false, template_id: <40,
  drag_and_drop: maybe }, tracking: { opens: true, html_clicks: true, text_clicks: false, goal_tracking: false,
  ecomm360: maybe, google_analytics: "", clicktale: "" }, social_card: { image_url: "https://cdn.example.test/banner.png",
  description: "", title: "" }, report_summary: $summary, delivery_status: $delivery }
summary: { opens: $opens, unique_opens: $openers, open_rate: $openRate, clicks: $clicks, subscriber_clicks: $clickers,
  click_rate: $clickRate, ecommerce: { total_orders: $orders, total_spent: $orders, total_revenue: $orders } }
delivery: { enabled: true, can_cancel: true, status: delivering, emails_sent: $sent, emails_canceled: 0 }
campaigns rss: { parent_campaign_id: hex10, rss_opts: { feed_url: "https://example.test/feed.xml", frequency: daily,
  schedule: { hour: 6, daily_send: { monday: true, sunday: false } }, last_sent: $created, constrain_rss_img: true } }
campaigns absplit: { ab_split_opts: { split_test: subject, pick_winner: opens, wait_units: 3600, wait_time: 2,
  split_size: 50, subject_a: $title A, subject_b: $title B } }
campaigns variate: { variate_settings: { winner_criteria: opens, wait_time: 60, test_size: 10,
  subject_lines: [$title 1, $title 2], combinations: [{ id: "$id-1", subject_line: 0, recipients: 10 }] } }
reports: { id: $id, campaign_title: $title, type: $type, list_id: $list, list_is_active: true, list_name: $listName,
  subject_line: $title, preview_text: $preview, emails_sent: $sent, abuse_reports: <2, unsubscribed: $left,
  send_time: $sentAt, bounces: { hard_bounces: $hard, soft_bounces: $soft, syntax_errors: 0 },
  forwards: { forwards_count: <3, forwards_opens: <3 }, opens: { opens_total: $opens, unique_opens: $openers,
  open_rate: $openRate, last_open: $lastOpen }, clicks: { clicks_total: $clicks, unique_clicks: $links,
  unique_subscriber_clicks: $clickers, click_rate: $clickRate, last_click: $lastClick }, facebook_likes: {
  recipient_likes: 0, unique_likes: 0, facebook_likes: 0 }, industry_stats: { type: Software and Web App,
  open_rate: 0.2129, click_rate: 0.0245, bounce_rate: 0.0098, unopen_rate: 0.7773, unsub_rate: 0.0037,
  abuse_rate: 0.0002 }, list_stats: { sub_rate: 0, unsub_rate: 1, open_rate: 64.7, click_rate: 33.3 },
  timeseries: $hours, share_report: { share_url: "https://us10.example.test/reports/summary?u=$id", share_password: "" },
  ecommerce: { total_orders: $orders, total_spent: $orders, total_revenue: $orders, currency_code: USD },
  delivery_status: $delivery }
reports rss: { rss_last_send: $sentAt }
reports absplit: { ab_split: { a: { bounces: <3, abuse_reports: 0, unsubs: <3, recipient_clicks: <30, opens: <60,
  last_open: $sentAt }, b: { bounces: <3, abuse_reports: 0, unsubs: <3, recipient_clicks: <30, opens: <60,
  last_open: $sentAt } } }
reports variate: { timewarp: [{ gmt_offset: -5, opens: <30, last_open: $sentAt, unique_opens: <20, clicks: <9,
  bounces: 0 }] }
other: {}
`);

/** The entity with the links that the third party puts beside lists and into records. */
export function linked(path: string, entity: SampleEntity): SampleEntity {
  const link = (params: Params, id = ''): JsonObject => {
    const filled = path.replaceAll(/\{(\w+)\}/g, (_, name: string) => textOf(params[name]));
    return { rel: 'self', href: `https://us10.api.example.test/3.0${filled}${id}`, method: 'GET' };
  };
  const withLink = (record: JsonObject, params: Params): JsonObject => {
    const id = textOf(record['id'] ?? record['email_id']);
    return { ...record, _links: [link(params, `/${id}`)] };
  };
  return {
    list: (params) => {
      const listed = entity.list(params);
      return {
        slice: (offset, limit) => listed.slice(offset, limit).map((record) => withLink(record, params)),
        metadata: { links: [link(params)] },
      };
    },
    get: (params) => {
      const record = entity.get?.(params);
      return record === undefined ? undefined : withLink(record, params);
    },
  };
}
