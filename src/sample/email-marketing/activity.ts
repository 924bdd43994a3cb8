import type { JsonObject } from '../../core/json.ts';
import type { Params } from '../../core/records.ts';
import { diceFor } from '../dice.ts';
import { computedListing, type Listing, timeParameter } from '../sample-account.ts';
import { hourMs, mailingTime, revisionTime } from '../writing.ts';
import { kind, listLinks, selfLinks } from './mailing-list.ts';
import { memberId, memberPerson, mergeFields } from './member-records.ts';
import { departuresIn, isVip, slotOf } from './members.ts';
import { type Campaign, emailsSent, type SentCampaign } from './plan-campaigns.ts';

/** Something that a recipient did with a message. */
export interface Action {
  readonly at: number;
  readonly action: 'open' | 'click' | 'bounce';
  readonly url?: string;
  readonly type?: 'hard' | 'soft';
  readonly ip?: string;
}

/** One row per recipient, many without any activity. `since` leaves the rows and shortens their arrays. */
export function activityListing(campaign: SentCampaign, params: Params): Listing {
  const { since } = params;
  const bound = since === undefined ? Number.NEGATIVE_INFINITY : timeParameter('since', since);
  const path = `/reports/${campaign.id}/email-activity`;
  return computedListing(
    emailsSent(campaign),
    (index) => {
      const person = memberPerson(campaign.list, index);
      const id = memberId(person.email);
      const actions = actionsOf(campaign, index).filter(({ at }) => at >= bound);
      return {
        campaign_id: campaign.id,
        list_id: campaign.list.id,
        list_is_active: true,
        email_id: id,
        email_address: person.email,
        activity: actions.map(({ at, action, ...rest }) => ({ action, timestamp: mailingTime(at), ...rest })),
        _links: selfLinks(`${path}/${id}`),
      };
    },
    listLinks(path),
  );
}

/** All that a recipient did, oldest first: nothing, a bounce, or opens each of which may lead to a click. */
export function actionsOf(campaign: SentCampaign, index: number): readonly Action[] {
  const dice = diceFor(campaign.seed, kind.activity, campaign.index, index);
  // What a revision sends is answered within the same one.
  const pace = campaign.sentIn === 0 ? 1_000 : 10;
  const fate = dice.below(100);
  let at = campaign.sentAt + dice.below(3_600) * pace;
  const late = lateActions(campaign, index);
  if (fate < 40) return late;
  if (fate < 45) return [{ at, action: 'bounce', type: dice.pick(['hard', 'soft']) }, ...late];
  const ip = `192.0.2.${dice.below(256)}`;
  const opens = Array.from({ length: 1 + dice.below(3) }, () => {
    at += (1 + dice.below(86_400)) * pace;
    const open: Action = { at, action: 'open', ip };
    if (!dice.chance(35)) return [open];
    at += (2 + dice.below(60)) * pace;
    return [open, { at, action: 'click' as const, url: `https://example.test/offer?n=${index % 3}`, ip }];
  });
  return [...opens.flat(), ...late];
}

/** A revision brings every third campaign opens and clicks, of one in two hundred recipients, and at least of one. */
function lateActions(campaign: Campaign, index: number): readonly Action[] {
  const { revision, sentIn } = campaign;
  const gap = Math.min(200, campaign.recipients);
  const actions: Action[] = [];
  for (let turn = sentIn + 1; turn <= revision; turn += 1) {
    if ((turn + campaign.index) % 3 !== 0 || (turn + index) % gap !== 0) continue;
    const at = revisionTime(turn) + 3 * hourMs + index * 1_000;
    const ip = `203.0.113.${index % 256}`;
    actions.push({ at, action: 'open', ip });
    const url = `https://example.test/offer?n=${turn}`;
    if (turn % 2 === 0) actions.push({ at: at + 20_000, action: 'click', url, ip });
  }
  return actions;
}

/** Member index -> when it unsubscribed through a campaign; null: in the days after the message. */
export function leaversOf(campaign: Campaign): ReadonlyMap<number, number | null> {
  const { list, recipients, turn, turns, revision } = campaign;
  if (turns === 0) return new Map();
  // Before all revisions, in turns through the campaigns that the list got; later, through the first one.
  const early = Array.from({ length: recipients }, (_, index) => index)
    .filter((index) => slotOf(list, index) === 13 || slotOf(list, index) === 14)
    .filter((_, place) => Math.floor(place / 2) % turns === turn);
  const leavers = new Map<number, number | null>(early.map((index) => [index, null]));
  if (turn > 0) return leavers;
  for (let late = 1; late <= revision; late += 1) {
    for (const { index, at } of departuresIn(list, late, recipients)) {
      if (!leavers.has(index)) leavers.set(index, at);
    }
  }
  return leavers;
}

export function unsubscribeListing(campaign: SentCampaign): Listing {
  const leavers = [...leaversOf(campaign)];
  const { id: campaignId, list } = campaign;
  const path = `/reports/${campaignId}/unsubscribed`;
  const recordAt = (place: number): JsonObject => {
    const [index, leftAt] = leavers[place] ?? [0, null];
    const dice = diceFor(campaign.seed, kind.unsubscribe, campaign.index, index);
    const person = memberPerson(list, index);
    const id = memberId(person.email);
    return {
      email_id: id,
      email_address: person.email,
      merge_fields: mergeFields(person, dice),
      vip: isVip(list, index),
      timestamp: mailingTime(leftAt ?? campaign.sentAt + dice.below(3 * 86_400) * 1000),
      reason: dice.pick(['Did not signup for list', 'No longer interested', 'None given']),
      campaign_id: campaignId,
      list_id: list.id,
      list_is_active: true,
      _links: selfLinks(`${path}/${id}`),
    };
  };
  return computedListing(leavers.length, recordAt, listLinks(path));
}
