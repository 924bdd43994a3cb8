import type { JsonObject } from '../../core/json.ts';
import { diceFor } from '../dice.ts';
import type { SampleSize } from '../sample-account.ts';
import {
  dayMs,
  dayOf,
  lastTurn,
  madeAndThere,
  mailingTime,
  revisionTime,
  sampleStart,
  titleAt,
} from '../writing.ts';
import { trackingOf } from './campaign-record.ts';
import {
  fewestMembers,
  kind,
  type MailingList,
  planCategories,
  planSegments,
  planTags,
  type Tag,
  selfLinks,
} from './mailing-list.ts';
import { planCampaigns } from './plan-campaigns.ts';

/**
 * What is behind one account: everything but the rows that grow with the members, which are computed when asked for.
 */
export type MailingPlan = ReturnType<typeof planMailing>;

const shapes = {
  small: { members: [2300, 900, 430, 57, 1, 0], campaigns: 30, automations: 7, tags: 5, categories: 3 },
  tiny: { members: [23, 0], campaigns: 5, automations: 2, tags: 2, categories: 1 },
} as const;

export function planMailing(seed: number, size: SampleSize, revision: number) {
  const shape =
    typeof size === 'string'
      ? shapes[size]
      : // Nearly all calls go to the members: that is what the size is for.
        { members: [size.members], campaigns: 2, automations: 1, tags: 0, categories: 1 };
  const lists = shape.members.map((memberCount, index): MailingList => {
    const dice = diceFor(seed, kind.list, index);
    const createdAt = sampleStart + index * 40 * dayMs;
    const id = dice.hex(10);
    // Later lists have fewer tags and categories, empty ones none.
    const tags = planTags(dice, memberCount > 0 ? Math.max(0, shape.tags - index) : 0);
    return {
      seed,
      revision,
      index,
      id,
      name: nameAt(index, shape.members.length, revision),
      memberCount,
      firstPerson: index * 5,
      isPassedThrough: (shape.members[index + 1] ?? 0) >= fewestMembers,
      createdAt,
      importedAt: createdAt + dayMs,
      spanMs: 900 * dayMs,
      tags: [...tags, ...(index === 0 && tags.length > 0 ? newTags(revision) : [])],
      segments: planSegments(dice, tags, { index, revision, createdAt }),
      categories: planCategories(dice, Math.max(0, shape.categories - index), { index, revision }),
    };
  });
  const inhabited = lists.filter(({ memberCount }) => memberCount > 0);
  const shown = lists.filter((list) => list.memberCount > 0 || !isAway(list, lists.length, revision));
  return {
    lists: [...shown, ...eventLists(seed, lists.length, revision)],
    campaigns: planCampaigns(seed, inhabited, shape.campaigns, revision),
    automations: automationRecords(seed, inhabited, shape.automations, revision),
  };
}

const listNames = [
  'Customers',
  'Новости и скидки',
  'Frühaufsteher & Freunde',
  '読者の会',
  'Beta testers 🚀',
  'Press contacts',
];

/** Every fourth revision renames a list. */
function nameAt(index: number, count: number, revision: number): string {
  const renamed = lastTurn(Math.floor(revision / 4), index + 1, count) * 4;
  const name = listNames[index % listNames.length] ?? '';
  return renamed === 0 ? name : `${name} (cleaned up ${dayOf(renamed)})`;
}

/** The last list of several, if it is empty, is deleted and restored in turns of four revisions. */
function isAway({ index }: MailingList, count: number, revision: number): boolean {
  return index > 0 && index === count - 1 && revision % 4 === 3;
}

function newTags(revision: number): readonly Tag[] {
  return madeAndThere(revision).map((madeIn) => ({
    id: 16_000_000 + madeIn,
    name: `Open house ${dayOf(madeIn)}`,
    slots: [],
  }));
}

const eventNames = ['Open house guests', 'Webinar in March', 'Trade fair contacts', 'Raffle at the fair'];

/** Short lists that come with revisions. */
function eventLists(seed: number, firstIndex: number, revision: number): readonly MailingList[] {
  return madeAndThere(revision).map((madeIn) => {
    const turn = (madeIn - 1) / 3;
    const index = firstIndex + turn;
    const createdAt = revisionTime(madeIn) + 60_000;
    return {
      seed,
      revision,
      index,
      id: diceFor(seed, kind.list, index).hex(10),
      name: titleAt(eventNames, turn),
      memberCount: 5,
      firstPerson: 40_000_000 + madeIn * 10,
      isPassedThrough: false,
      createdAt,
      importedAt: createdAt + 60_000,
      spanMs: 2_000,
      tags: [],
      segments: [],
      categories: [],
    };
  });
}

/** Revisions start, pause and resume them in turns, and add others. */
function automationRecords(
  seed: number,
  lists: readonly MailingList[],
  count: number,
  revision: number,
): readonly JsonObject[] {
  const first = Array.from({ length: count }, (_, index): JsonObject => {
    const dice = diceFor(seed, kind.automation, index);
    const id = dice.hex(10);
    const createdAt = sampleStart + index * 31 * dayMs + dice.below(86_400) * 1000;
    const turnedIn = lastTurn(revision, index, count);
    const turns = Math.ceil(turnedIn / count);
    const isSending = (turns + (index % 3 === 0 ? 0 : 1)) % 2 === 0;
    // The second of every three is a draft until its first turn.
    const startedAt = index % 3 === 1 ? revisionTime(turnedIn - (turns - 1) * count) : createdAt + dayMs;
    const isDraft = index % 3 === 1 && turns === 0;
    return automationRecord(
      { seed, id, createdAt, startedAt: isDraft ? null : startedAt, isSending, turnedIn },
      lists[index % lists.length],
    );
  });
  const added = madeAndThere(revision).map((madeIn) => {
    const id = diceFor(seed, kind.automation, count + madeIn).hex(10);
    const createdAt = revisionTime(madeIn) + 60_000;
    const draft = { seed, id, createdAt, startedAt: null, isSending: false, turnedIn: 0 };
    return automationRecord(draft, lists[0]);
  });
  return [...first, ...added];
}

function automationRecord(
  automation: {
    readonly seed: number;
    readonly id: string;
    readonly createdAt: number;
    readonly startedAt: number | null;
    readonly isSending: boolean;
    readonly turnedIn: number;
  },
  list: MailingList | undefined,
): JsonObject {
  const { seed, id, createdAt, startedAt, isSending, turnedIn } = automation;
  const dice = diceFor(seed, kind.automation, Number.parseInt(id.slice(0, 6), 16));
  // One that was never started has no time, and says so with an empty text.
  const sent = startedAt === null ? 0 : dice.below(4_000) + turnedIn;
  return {
    id,
    create_time: mailingTime(createdAt),
    start_time: startedAt === null ? '' : mailingTime(startedAt),
    status: isSending ? 'sending' : startedAt === null ? 'save' : 'paused',
    emails_sent: sent,
    recipients: { list_id: list?.id ?? '', list_is_active: true, list_name: list?.name ?? '', store_id: '' },
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
    trigger_settings: {
      workflow_type: 'emailSeries',
      workflow_title: 'Email series',
      workflow_emails_count: 1,
    },
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
}
