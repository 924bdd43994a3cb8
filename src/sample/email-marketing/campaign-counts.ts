import type { JsonObject } from '../../core/json.ts';
import type { Campaign } from './plan-campaigns.ts';

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

export function previewOf(campaign: Campaign): string {
  if (campaign.index % 5 !== 3) return '';
  return 'Everything that happened since the last letter, in the order in which it happened. '
    .repeat(4)
    .trim();
}
