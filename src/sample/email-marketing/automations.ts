import type { JsonObject } from '../../core/json.ts';
import { before, equalTo, since, type RecordFilters } from '../record-filters.ts';
import { diceFor } from '../dice.ts';
import { mailingTime } from '../times.ts';
import { trackingOf } from './campaign-record.ts';
import { selfLinks } from './links.ts';
import { kind } from './kinds.ts';
import type { MailingPlan } from './mailing-plan.ts';
import { originalStatus } from './plan-automations.ts';

export const automationFilters: RecordFilters = {
  status: equalTo('status'),
  since_create_time: since('create_time'),
  before_create_time: before('create_time'),
  since_start_time: since('start_time'),
  before_start_time: before('start_time'),
};

export function automationRecords(plan: MailingPlan): readonly JsonObject[] {
  return plan.automations.map(({ seed, index, list, status, createdAt, startedAt, sentSince }) => {
    const dice = diceFor(seed, kind.automation, index);
    const id = dice.hex(10);
    dice.below(86_400);
    const sent = (originalStatus(index) === 'save' ? 0 : dice.below(4_000)) + sentSince;
    return {
      id,
      create_time: mailingTime(createdAt),
      // One that was never started has no time, and says so with an empty text.
      start_time: startedAt === null ? '' : mailingTime(startedAt),
      status,
      emails_sent: sent,
      recipients: {
        list_id: list?.id ?? '',
        list_is_active: list?.isActive ?? true,
        list_name: list?.name ?? '',
        store_id: '',
      },
      settings: {
        title: dice.pick(['Welcome', 'Willkommen!', 'Happy birthday 🎂', 'Come back']),
        from_name: 'Editor',
        reply_to: 'editor@example.test',
        use_conversation: false,
        to_name: '',
        authenticate: true,
        auto_footer: false,
        inline_css: false,
      },
      tracking: trackingOf(dice),
      report_summary: {
        opens: sent * 2,
        unique_opens: sent,
        open_rate: sent === 0 ? 0 : 1,
        clicks: 0,
        subscriber_clicks: 0,
        click_rate: 0,
      },
      _links: selfLinks(`/automations/${id}`),
    };
  });
}
