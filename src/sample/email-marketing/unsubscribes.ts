import type { JsonObject } from '../../core/json.ts';
import { diceFor } from '../dice.ts';
import { computedListing, type Listing } from '../listing.ts';
import { mailingTime } from '../times.ts';
import { listLinks, selfLinks } from './links.ts';
import { kind } from './kinds.ts';
import { isVip, memberId, memberPerson, mergeFields } from './member-record.ts';
import {
  everyTurn,
  slotsOfStatus,
  strideAt,
  strideOfSlots,
  strideSize,
  type Stride,
} from './member-slots.ts';
import type { Campaign } from './plan-campaigns.ts';

/** Before all revisions, every unsubscribed member left through one of the campaigns that its list got, in turns. */
export function unsubscribedStride(campaign: Campaign): Stride {
  const { list, recipients, turn, turns } = campaign;
  if (turns === 0) return { residues: [], modulus: 1, limit: 0 };
  return everyTurn(strideOfSlots(list, slotsOfStatus('unsubscribed'), recipients), turn, turns);
}

export function unsubscribeListing(campaign: Campaign, sentAt: number): Listing {
  const members = unsubscribedStride(campaign);
  const early = strideSize(members);
  const { departures } = campaign.revised;
  return computedListing(
    early + departures.length,
    (position) => {
      const late = departures[position - early];
      const index = late?.index ?? strideAt(members, position);
      return unsubscribeRecord(campaign, sentAt, index, late?.at ?? null);
    },
    listLinks(`/reports/${campaign.id}/unsubscribed`),
  );
}

/** `leftAt`: null for one who left in the days after the message, whose time the dice tell. */
function unsubscribeRecord(
  campaign: Campaign,
  sentAt: number,
  index: number,
  leftAt: number | null,
): JsonObject {
  const { list } = campaign;
  const dice = diceFor(campaign.seed, kind.unsubscribe, campaign.index, index);
  const person = memberPerson(list, index);
  const id = memberId(person.email);
  return {
    email_id: id,
    email_address: person.email,
    merge_fields: mergeFields(person, dice),
    vip: isVip(index),
    timestamp: mailingTime(leftAt ?? sentAt + dice.below(3 * 86_400) * 1000),
    reason: dice.pick(['Did not signup for list', 'No longer interested', 'None given']),
    campaign_id: campaign.id,
    list_id: list.id,
    list_is_active: list.isActive,
    _links: selfLinks(`/reports/${campaign.id}/unsubscribed/${id}`),
  };
}
