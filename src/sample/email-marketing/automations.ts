import type { JsonObject } from '../../core/json.ts';
import { diceFor } from '../dice.ts';
import { isThere, lastTurn, makingRevisions, revisionTime } from '../revisions.ts';
import { dayMs, mailingTime, sampleStart } from '../writing.ts';
import { trackingOf } from './campaign-record.ts';
import { selfLinks } from './links.ts';
import { kind, type MailingList } from './mailing-list.ts';

export const automationPaths = { status: 'status', create_time: 'create_time', start_time: 'start_time' };

/** Revisions start, pause and resume them in turns, and add others. */
export function automationRecords(
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
  const added = makingRevisions(revision).filter((madeIn) => isThere(madeIn, revision));
  return [
    ...first,
    ...added.map((madeIn) => {
      const id = diceFor(seed, kind.automation, count + madeIn).hex(10);
      const createdAt = revisionTime(madeIn) + 60_000;
      const draft = { seed, id, createdAt, startedAt: null, isSending: false, turnedIn: 0 };
      return automationRecord(draft, lists[0]);
    }),
  ];
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
}
