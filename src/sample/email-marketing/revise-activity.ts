import { diceFor, type Dice } from '../dice.ts';
import type { Action } from './campaign-revisions.ts';
import { emailsSent } from './campaign-counts.ts';
import { firstActions } from './email-activity.ts';
import { kind } from './kinds.ts';
import { replaceCampaign, shownCampaigns, type MailingWork, type RevisionUnderWay } from './mailing-work.ts';
import type { Campaign } from './plan-campaigns.ts';

/** Campaigns that a revision adds activity to. */
const busyCampaigns = 3;

/**
 * Some recipients of some campaigns open and click again, and as many do so for the first time: one in a hundred of
 * the recipients, and at least one of each.
 */
export function actLate(work: MailingWork, underWay: RevisionUnderWay): void {
  const { revision } = underWay;
  const sent = shownCampaigns(work).filter(({ sentAt }) => sentAt !== null);
  const busy = Math.min(busyCampaigns, sent.length);
  for (let turn = 0; turn < busy; turn += 1) {
    const campaign = sent[(revision * busyCampaigns + turn) % sent.length];
    if (campaign === undefined || campaign.sentAt === null) continue;
    const { sentAt } = campaign;
    const dice = diceFor(work.seed, kind.campaignRevision, revision, campaign.index);
    const count = Math.max(1, Math.round(emailsSent(campaign) / 200));
    const again = recipients(campaign, dice, count, (index) => hasActed(campaign, sentAt, index));
    const first = recipients(campaign, dice, count, (index) => !hasActed(campaign, sentAt, index));
    replaceCampaign(work, withActions(campaign, [...new Set([...again, ...first])], dice, underWay));
  }
}

/** Three of five recipients of a campaign that leaves with this revision open it, and the second of them leaves. */
export function answerNewCampaign(campaign: Campaign, sentAt: number, underWay: RevisionUnderWay): Campaign {
  const dice = diceFor(campaign.seed, kind.campaignRevision, underWay.revision, campaign.index);
  const late = { ...campaign, sentAt, revised: { ...campaign.revised, isSentLate: true } };
  const openers = [...Array(emailsSent(late)).keys()].filter((index) => index % 5 < 3);
  const answered = withActions(late, openers, dice, underWay);
  const leaver = openers[1];
  if (leaver === undefined) return answered;
  const departures = [{ index: leaver, at: underWay.clock.next() }];
  return { ...answered, revised: { ...answered.revised, departures } };
}

function hasActed(campaign: Campaign, sentAt: number, index: number): boolean {
  if (campaign.revised.actions.has(index)) return true;
  return !campaign.revised.isSentLate && firstActions(campaign, sentAt, index).length > 0;
}

/** The first recipients that fit, from a place that the dice tell. */
function recipients(
  campaign: Campaign,
  dice: Dice,
  count: number,
  fits: (index: number) => boolean,
): readonly number[] {
  const size = emailsSent(campaign);
  const start = dice.below(size);
  const chosen: number[] = [];
  for (let step = 0; step < size && chosen.length < count; step += 1) {
    const index = (start + step) % size;
    if (fits(index)) chosen.push(index);
  }
  return chosen;
}

function withActions(
  campaign: Campaign,
  indexes: readonly number[],
  dice: Dice,
  { clock, revision }: RevisionUnderWay,
): Campaign {
  const actions = new Map(campaign.revised.actions);
  for (const index of indexes) {
    const ip = `203.0.113.${dice.below(256)}`;
    const opened: Action = { at: clock.next(), action: 'open', ip };
    const url = `https://example.test/offer?n=${revision}`;
    const clicked: readonly Action[] = dice.chance(35)
      ? [{ at: clock.next(), action: 'click', url, ip }]
      : [];
    actions.set(index, [...(actions.get(index) ?? []), opened, ...clicked]);
  }
  return { ...campaign, revised: { ...campaign.revised, actions } };
}
