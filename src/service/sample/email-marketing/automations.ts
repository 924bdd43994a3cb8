import type { JsonObject } from '../../../core/json.ts';
import { before, equalTo, since, type RecordFilters } from '../record-filters.ts';
import { diceFor } from '../dice.ts';
import { dayMs, mailingTime, sampleStart } from '../times.ts';
import { trackingOf } from './campaign-record.ts';
import { selfLinks } from './links.ts';
import { kind } from './kinds.ts';
import type { MailingPlan } from './mailing-plan.ts';

export const automationFilters: RecordFilters = {
  status: equalTo('status'),
  since_create_time: since('create_time'),
  before_create_time: before('create_time'),
  since_start_time: since('start_time'),
  before_start_time: before('start_time'),
};

const statuses = ['sending', 'save', 'paused'];

export function automationRecords(plan: MailingPlan): readonly JsonObject[] {
  return Array.from({ length: plan.automations }, (_, index) => {
    const dice = diceFor(plan.seed, kind.automation, index);
    const id = dice.hex(10);
    const list = plan.lists[index % plan.lists.length];
    const status = statuses[index % statuses.length] ?? 'save';
    const createdAt = sampleStart + index * 31 * dayMs + dice.below(86_400) * 1000;
    const sent = status === 'save' ? 0 : dice.below(4_000);
    return {
      id,
      create_time: mailingTime(createdAt),
      // One that was never started has no time, and says so with an empty text.
      start_time: status === 'save' ? '' : mailingTime(createdAt + dayMs),
      status,
      emails_sent: sent,
      recipients: {
        list_id: list?.id ?? '',
        list_is_active: true,
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
