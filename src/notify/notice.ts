import { randomUUID } from 'node:crypto';
import { isLikeGlob } from '../core/glob.ts';
import { instant, type Instant } from '../core/clock.ts';
import type { LocalSettings, NoticeKind, NotifySettings } from '../settings/settings.ts';
import type { NewMessage } from '../sinks/outbox.ts';
import { counted } from '../telemetry/format.ts';
import type { Change, ChangedItem } from './changes.ts';

/** A channel that messages are sent to. */
export type MessageChannel = Exclude<NotifySettings, { readonly type: 'heartbeat' }>;

/** What a receiver gets, as JSON or as text made of it. */
export interface Notice {
  readonly version: 1;
  /** A message that comes twice has the same. */
  readonly id: string;
  readonly kind: NoticeKind | 'test';
  readonly at: Instant;
  /** Since when it holds; of `recovered` since when it had been wrong. */
  readonly since: Instant;
  readonly connector: string | null;
  readonly target: string | null;
  readonly sink: string | null;
  readonly title: string;
  readonly text: string;
  /** What to do. */
  readonly todo: string;
  readonly items: readonly ChangedItem[];
}

interface AboutHow {
  readonly settings: LocalSettings;
  readonly sink: string;
  readonly nowMs: number;
}

const mostItems = 20;

/** A message for each channel that wants to hear of the change. */
export function messagesOf(change: Change, how: AboutHow): readonly NewMessage[] {
  return messageChannels(how.settings).flatMap((channel) => {
    const items = change.items.filter((item) => isWanted(channel, change, item, how.settings));
    if (items.length === 0) return [];
    return [messageOf(channel, noticeOf({ ...change, items }, how))];
  });
}

export function messageChannels({ notify }: Pick<LocalSettings, 'notify'>): readonly MessageChannel[] {
  return [...notify.values()].filter((channel) => channel.type !== 'heartbeat');
}

export function messageOf(channel: MessageChannel, notice: Notice): NewMessage {
  const { id, kind, connector } = notice;
  return {
    notice: id,
    channel: channel.name,
    // `as`: the name comes from the settings.
    connector: connector as NewMessage['connector'],
    kind,
    payload: JSON.stringify(notice),
  };
}

export function testNotice(channel: MessageChannel, sink: string, at: Instant): Notice {
  return {
    version: 1,
    id: randomUUID(),
    kind: 'test',
    at,
    since: at,
    connector: null,
    target: null,
    sink,
    title: 'A test of connector-sync',
    text: `The channel ${channel.name} works: you will be notified here.`,
    todo: 'Nothing.',
    items: [],
  };
}

/** Good news is for those who heard, or would have heard, the bad. */
function isWanted(
  channel: MessageChannel,
  change: Change,
  item: ChangedItem,
  settings: LocalSettings,
): boolean {
  const { kinds } = channel;
  if (!kinds.includes(change.kind)) return false;
  const hasOthers = kinds.some((kind) => kind !== 'recovered');
  if (change.kind === 'recovered' && hasOthers && !kinds.includes(item.kind)) return false;
  if (change.connector !== null) return hearsOf(channel, change.connector);
  // A config is about all of its connectors, perhaps none.
  if (item.kind === 'config-refused') {
    return (
      channel.connectors.length === 0 ||
      [...settings.connectors.keys()].some((name) => hearsOf(channel, name))
    );
  }
  const about = settings.publish.get(item.subject)?.connectors ?? [];
  return about.some(({ name }) => hearsOf(channel, name));
}

export function hearsOf({ connectors }: Pick<NotifySettings, 'connectors'>, connector: string): boolean {
  return connectors.length === 0 || connectors.some((glob) => isLikeGlob(connector, glob));
}

function noticeOf(change: Change, { sink, nowMs }: AboutHow): Notice {
  const { kind, connector, since, items } = change;
  const [first] = items;
  const isOfConfig = first?.kind === 'config-refused';
  const target = connector === null && !isOfConfig ? (first?.subject ?? null) : null;
  const about = connector ?? target ?? (isOfConfig ? 'The config' : '');
  const more = items.length - mostItems;
  const texts = items.slice(0, mostItems).map((item) => (kind === 'recovered' ? overText(item) : item.text));
  return {
    version: 1,
    id: randomUUID(),
    kind,
    at: instant(nowMs),
    since,
    connector,
    target,
    sink,
    title: titleOf(kind, about, items),
    text: [...texts, ...(more > 0 ? [`And ${more} more.`] : [])].join('\n'),
    todo: todoOf(change, about),
    items: items.slice(0, mostItems),
  };
}

function titleOf(kind: NoticeKind, about: string, items: readonly ChangedItem[]): string {
  if (kind === 'late') return `${about}: ${counted(items.length, 'entity is', 'entities are')} too old`;
  return `${about}${titles[kind]}`;
}

const titles: Readonly<Record<Exclude<NoticeKind, 'late'>, string>> = {
  failed: ': the sync failed',
  incomplete: ': the sync is incomplete',
  'withheld-deletes': ': deletes wait for you',
  'withheld-retention': ': what is too old waits for you',
  'schema-change': ': the records have changed',
  'purge-unfinished': ': a purge is not finished',
  'publication-failed': ': the publication failed',
  'config-refused': ' was refused',
  recovered: ': works again',
};

const overTexts: Readonly<Record<NoticeKind, string>> = {
  failed: 'The sync had failed',
  incomplete: 'The sync had been incomplete',
  'withheld-deletes': 'Deletes had been withheld',
  'withheld-retention': 'What is too old had been kept',
  'schema-change': 'A field had been new',
  late: 'It had been too old',
  'purge-unfinished': 'A purge had not been finished',
  'publication-failed': 'The publication had failed',
  'config-refused': 'It had been refused',
  recovered: 'It had been wrong',
};

function overText({ kind, subject, since }: ChangedItem): string {
  return `${subject === '' ? '' : `${subject}: `}${overTexts[kind]} since ${since}.`;
}

function todoOf({ kind, needsPerson }: Change, about: string): string {
  switch (kind) {
    case 'failed':
      return needsPerson
        ? `Repair it, then run: connector-sync sync ${about}. "connector-sync check ${about}" says more.`
        : `Nothing yet: the next run tries again. If none comes, run: connector-sync sync ${about}`;
    case 'incomplete':
      return `${needsPerson ? 'Repair it; the next run reads the rest' : 'The next run tries again'}. "connector-sync status ${about}" shows what is missing.`;
    case 'withheld-deletes':
      return `Check at the source. If they are deleted there, run: connector-sync sync ${about} --allow-deletes`;
    case 'withheld-retention':
      return `Check "retention" and "history" of the config. If all of it is to go, run: connector-sync prune ${about} --allow-deletes`;
    case 'schema-change':
      return `"connector-sync schema diff ${about}" lists the fields, with lines for the definition.`;
    case 'late':
      return `Is a worker running, and does its run end? "connector-sync status ${about}" shows the last one.`;
    case 'purge-unfinished':
      return `Run: connector-sync prune ${about}`;
    case 'publication-failed':
      return `Repair it, then run: connector-sync publish ${about}`;
    case 'config-refused':
      return '"connector-sync check" lists the mistakes. Correct them, then run: connector-sync reload';
    case 'recovered':
      return 'Nothing.';
  }
}
