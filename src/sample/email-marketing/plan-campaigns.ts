import { diceFor } from '../dice.ts';
import {
  dayMs,
  dayOf,
  hourMs,
  isThere,
  lastTurn,
  makingRevisions,
  revisionTime,
  sampleStart,
  titleAt,
} from '../writing.ts';
import { kind, type MailingList } from './mailing-list.ts';

export interface Campaign {
  readonly seed: number;
  readonly revision: number;
  readonly index: number;
  readonly id: string;
  readonly status: 'save' | 'paused' | 'schedule' | 'sending' | 'sent';
  readonly type: 'regular' | 'plaintext' | 'absplit' | 'rss' | 'variate';
  readonly title: string;
  readonly list: MailingList;
  readonly createdAt: number;
  /** Null until the first message has left; a campaign has a report from then on. */
  readonly sentAt: number | null;
  /** The first this many members of the list are the recipients. */
  readonly recipients: number;
  /** The revision that sent it; 0: it was sent before all of them. */
  readonly sentIn: number;
  /** Position among the campaigns that were sent to the same list before all revisions, and their number (0: none). */
  readonly turn: number;
  readonly turns: number;
}

export interface SentCampaign extends Campaign {
  readonly sentAt: number;
}

/** Two of three are sent; the others show every other status. */
const statuses: readonly Campaign['status'][] = [
  'sent',
  'save',
  'sent',
  'sent',
  'schedule',
  'sent',
  'sent',
  'paused',
  'sent',
  'sent',
  'sending',
  'sent',
];
const types: readonly Campaign['type'][] = [
  'regular',
  'regular',
  'plaintext',
  'variate',
  'regular',
  'rss',
  'absplit',
];
/** As people name what they send. The second of every twelve is a draft, and drafts often have no name yet. */
const titles = [
  'Thank you for joining us',
  'Untitled',
  'Spring sale: 20 % off',
  'Привет, весна!',
  'What we planned for the summer',
  'New in May 🎉',
  'Five recipes for short evenings',
  'Gift guide',
  '春のお知らせ',
  'Your orders planted 1,000 trees',
  'Last call: free shipping ends tonight',
  'Two questions about your last order',
  'Meet the people behind your coffee',
  'Untitled',
  'Back to school',
  'Neu im Sortiment: Räder für Łódź',
  'Autumn menu',
  'How we pack without plastic',
  'Black Friday starts early',
  'Holiday opening hours',
  'Our year in numbers',
  'Winter sale: last sizes',
  'Neuigkeiten im Februar',
  'A date for your calendar: open house',
];
/** Most recipients of a campaign, however long its list is, and of one that comes with a revision. */
const maxRecipients = 2_500;
const maxNewRecipients = 40;

/**
 * Campaigns go to the lists (those with members), in turns; `create_time` grows with the index. Every revision edits
 * one, and adds a draft that is sent two revisions later; the last one that was sent is deleted and restored in turns
 * of five.
 */
export function planCampaigns(
  seed: number,
  lists: readonly MailingList[],
  count: number,
  revision: number,
): readonly Campaign[] {
  const [firstList] = lists;
  if (firstList === undefined) return [];
  const listAt = (index: number): MailingList => lists[index % lists.length] ?? firstList;
  const first = Array.from({ length: count }, (_, index) =>
    firstCampaign({ seed, index, list: listAt(index), revision }, count),
  );
  const sent = first.filter(({ sentAt }) => sentAt !== null);
  const away = sent.length > 1 && revision % 5 >= 3 ? sent.at(-1) : undefined;
  const placed = first.map((campaign) => {
    const siblings = sent.filter(({ list }) => list === campaign.list);
    const turn = siblings.indexOf(campaign);
    return turn < 0 ? campaign : { ...campaign, turn, turns: siblings.length };
  });
  const deleted = makingRevisions(revision).filter((madeIn) => !isThere(madeIn, revision));
  const added = Array.from({ length: revision }, (_, place) => place + 1)
    .filter((madeIn) => !deleted.includes(madeIn))
    .map((madeIn) => addedCampaign({ seed, index: 1_000 + madeIn, list: listAt(madeIn), revision }, madeIn));
  return [...placed.filter(({ id }) => id !== away?.id), ...added];
}

type Beginning = Pick<Campaign, 'seed' | 'index' | 'list' | 'revision'>;
const inNoTurn = { turn: 0, turns: 0 };

function firstCampaign(of: Beginning, count: number): Campaign {
  const { seed, index, list, revision } = of;
  const dice = diceFor(seed, kind.campaign, index);
  const createdAt = sampleStart + (250 + index * 9) * dayMs + dice.below(dayMs / 1000) * 1000;
  const status = statuses[index % statuses.length] ?? 'sent';
  const isOut = status === 'sent' || status === 'sending';
  const editedIn = lastTurn(revision, index, count);
  return {
    ...of,
    ...inNoTurn,
    id: dice.hex(10),
    status,
    type: types[index % types.length] ?? 'regular',
    title: `${titleAt(titles, index)}${editedIn === 0 ? '' : ` (as of ${dayOf(editedIn)})`}`,
    createdAt,
    sentAt: isOut ? createdAt + dayMs + dice.below(7_200) * 1000 : null,
    recipients: Math.min(maxRecipients, list.memberCount),
    sentIn: 0,
  };
}

function addedCampaign(of: Beginning, madeIn: number): Campaign {
  const { seed, index, list, revision } = of;
  const dice = diceFor(seed, kind.campaign, index);
  const sentIn = madeIn + 2;
  return {
    ...of,
    ...inNoTurn,
    id: dice.hex(10),
    status: revision < sentIn ? 'save' : 'sent',
    type: dice.pick(['regular', 'plaintext']),
    title: `Weekly letter of ${dayOf(madeIn)}`,
    createdAt: revisionTime(madeIn) + 8 * hourMs,
    sentAt: revision < sentIn ? null : revisionTime(sentIn) + hourMs,
    recipients: Math.min(maxNewRecipients, list.memberCount),
    sentIn,
  };
}

export function isSent(campaign: Campaign): campaign is SentCampaign {
  return campaign.sentAt !== null;
}

/** Half of them while it is being sent. */
export function emailsSent({ status, recipients }: Campaign): number {
  if (status === 'sent') return recipients;
  return status === 'sending' ? Math.ceil(recipients / 2) : 0;
}
