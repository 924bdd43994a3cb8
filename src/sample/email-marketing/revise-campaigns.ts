import { diceFor } from '../dice.ts';
import { noCampaignRevisions, type Departure } from './campaign-revisions.ts';
import { kind } from './kinds.ts';
import {
  activeLists,
  replaceCampaign,
  shownCampaigns,
  type MailingWork,
  type RevisionUnderWay,
} from './mailing-work.ts';
import type { Campaign } from './plan-campaigns.ts';
import { actLate, answerNewCampaign } from './revise-activity.ts';

/** Of new campaigns, and of drafts that are sent: more would make a revision more than a small part. */
const mostRecipients = 40;
const mostRecipientsOfDraft = 100;
const fewestRecipientsOfDraft = 5;
const fewestRecipientsOfDeleted = 10;
/** Numbers of campaigns that come with revisions, which also decide details of their records. */
const firstNewIndex = 1_000;

/**
 * Every revision adds a draft, edits a campaign, and has recipients of some campaigns act and leave. Of two, one sends
 * a draft, the other deletes one and brings back the last one that was deleted. Of five, one deletes a campaign that
 * was sent, with report and all, and one brings it back.
 */
export function reviseCampaigns(work: MailingWork, underWay: RevisionUnderWay): void {
  const { revision, clock } = underWay;
  leaveThroughCampaigns(work, underWay);
  actLate(work, underWay);
  if (revision % 2 === 1) sendDraft(work, underWay);
  else swapDeletedDraft(work, revision);
  if (revision % 5 === 3) deleteSent(work);
  if (revision % 5 === 0) bringBack(work, 'sent campaign');
  editOne(work, revision);
  addDraft(work, revision, clock.next());
}

/** Whoever unsubscribed left through the campaign that the list got last. */
function leaveThroughCampaigns(work: MailingWork, { departures }: RevisionUnderWay): void {
  const leaving = new Map<string, Departure[]>();
  const sent = shownCampaigns(work).filter(({ sentAt }) => sentAt !== null);
  sent.sort((left, right) => (right.sentAt ?? 0) - (left.sentAt ?? 0));
  for (const { listIndex, index, at } of departures) {
    const last = sent.find(({ list, recipients }) => list.index === listIndex && index < recipients);
    if (last !== undefined) leaving.set(last.id, [...(leaving.get(last.id) ?? []), { index, at }]);
  }
  for (const campaign of sent) {
    const more = leaving.get(campaign.id) ?? [];
    if (more.length === 0) continue;
    const { revised } = campaign;
    replaceCampaign(work, {
      ...campaign,
      revised: { ...revised, departures: [...revised.departures, ...more] },
    });
  }
}

function isDraft({ status, sentAt }: Campaign): boolean {
  return sentAt === null && status !== 'sending';
}

/** The draft with the fewest recipients (but some), if its list is there. */
function sendDraft(work: MailingWork, underWay: RevisionUnderWay): void {
  const [draft] = shownCampaigns(work)
    .filter((campaign) => isDraft(campaign) && campaign.recipients <= mostRecipientsOfDraft)
    .filter(({ recipients }) => recipients >= fewestRecipientsOfDraft)
    .filter(({ list }) => !work.hidden.has(list.id))
    .toSorted((left, right) => left.recipients - right.recipients);
  if (draft === undefined) return;
  const sentAt = underWay.clock.next();
  const sent: Campaign = { ...draft, status: 'sent', sentAt };
  replaceCampaign(work, answerNewCampaign(sent, sentAt, underWay));
}

function swapDeletedDraft(work: MailingWork, revision: number): void {
  bringBack(work, 'draft');
  const back = new Set(work.madeLast.get('draft'));
  const drafts = shownCampaigns(work).filter((campaign) => isDraft(campaign) && !back.has(campaign.id));
  const deleted = drafts[(revision / 2) % Math.max(1, drafts.length)];
  hide(work, 'draft', drafts.length < 2 ? undefined : deleted);
}

/** Of those that were sent before all revisions to more than a few, the one with the fewest recipients. */
function deleteSent(work: MailingWork): void {
  const [fewest] = shownCampaigns(work)
    .filter(({ sentAt, revised }) => sentAt !== null && !revised.isSentLate)
    .filter(({ recipients }) => recipients >= fewestRecipientsOfDeleted)
    .toSorted((left, right) => left.recipients - right.recipients)
    // One is left, so that reports never run out.
    .slice(0, -1);
  hide(work, 'sent campaign', fewest);
}

function hide(work: MailingWork, what: string, campaign: Campaign | undefined): void {
  if (campaign !== undefined) work.hidden.add(campaign.id);
  work.madeLast.set(what, campaign === undefined ? [] : [campaign.id]);
}

function bringBack(work: MailingWork, what: string): void {
  for (const id of work.madeLast.get(what) ?? []) work.hidden.delete(id);
}

/** Another title, and no other time: nothing but the record itself says that it was edited. */
function editOne(work: MailingWork, revision: number): void {
  const shown = shownCampaigns(work);
  const chosen = shown[(revision * 7) % Math.max(1, shown.length)];
  if (chosen === undefined) return;
  const [title = ''] = chosen.title.split(' (edited');
  replaceCampaign(work, { ...chosen, title: `${title} (edited ${revision})` });
}

function addDraft(work: MailingWork, revision: number, createdAt: number): void {
  const inhabited = activeLists(work).filter(({ list }) => list.memberCount > 0);
  const list = inhabited[revision % Math.max(1, inhabited.length)]?.list;
  if (list === undefined) return;
  const index = firstNewIndex + revision;
  const dice = diceFor(work.seed, kind.campaignRevision, revision);
  work.campaigns.push({
    seed: work.seed,
    index,
    id: dice.hex(10),
    webId: 13_500_000 + index * 17,
    status: 'save',
    type: dice.pick(['regular', 'plaintext']),
    title: `Draft of revision ${revision}`,
    list,
    createdAt,
    sentAt: null,
    recipients: Math.min(mostRecipients, list.memberCount),
    turn: 0,
    turns: 0,
    revised: noCampaignRevisions,
  });
}
