import { dayMs, sampleStart } from '../times.ts';
import { diceFor } from '../dice.ts';
import { titleAt } from '../title-at.ts';
import { noCampaignRevisions, type CampaignRevisions } from './campaign-revisions.ts';
import { kind } from './kinds.ts';
import type { MailingList } from './mailing-plan.ts';

export type CampaignStatus = 'save' | 'paused' | 'schedule' | 'sending' | 'sent';
export type CampaignType = 'regular' | 'plaintext' | 'absplit' | 'rss' | 'variate';

export interface Campaign {
  readonly seed: number;
  readonly index: number;
  readonly id: string;
  readonly webId: number;
  readonly status: CampaignStatus;
  readonly type: CampaignType;
  readonly title: string;
  readonly list: MailingList;
  readonly createdAt: number;
  /** Null until the first message has left; a campaign has a report from then on. */
  readonly sentAt: number | null;
  /** The first this many members of the list are the recipients. */
  readonly recipients: number;
  /**
   * Position among the campaigns that were sent to the same list, and their number, before all revisions; `turns` is 0
   * for one that came or left later.
   */
  readonly turn: number;
  readonly turns: number;
  readonly revised: CampaignRevisions;
}

/** Two of three are sent; the others show every other status. */
const statuses: readonly CampaignStatus[] = [
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
const types: readonly CampaignType[] = [
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
/** Most recipients of a campaign, however long its list is. */
export const maxRecipients = 2_500;

/** Campaigns go to the lists with members, in turns; `create_time` grows with the index. */
export function planCampaigns(
  seed: number,
  lists: readonly MailingList[],
  count: number,
): readonly Campaign[] {
  const inhabited = lists.filter((list) => list.memberCount > 0);
  if (inhabited.length === 0) return [];
  const drafts = Array.from({ length: count }, (_, index) => {
    const dice = diceFor(seed, kind.campaign, index);
    const status = statuses[index % statuses.length] ?? 'sent';
    const list = inhabited[index % inhabited.length] ?? inhabited[0];
    const createdAt = sampleStart + (250 + index * 9) * dayMs + dice.below(dayMs / 1000) * 1000;
    const isOut = status === 'sent' || status === 'sending';
    return list === undefined
      ? []
      : [
          {
            seed,
            index,
            id: dice.hex(10),
            webId: 13_500_000 + index * 17,
            status,
            type: types[index % types.length] ?? ('regular' as const),
            title: titleAt(titles, index),
            list,
            createdAt,
            sentAt: isOut ? createdAt + dayMs + dice.below(7_200) * 1000 : null,
            recipients: Math.min(maxRecipients, list.memberCount),
            revised: noCampaignRevisions,
          },
        ];
  }).flat();
  return drafts.map((draft) => {
    const siblings = drafts.filter(({ list, sentAt }) => list === draft.list && sentAt !== null);
    return draft.sentAt === null
      ? { ...draft, turn: 0, turns: 0 }
      : { ...draft, turn: siblings.indexOf(draft), turns: siblings.length };
  });
}
