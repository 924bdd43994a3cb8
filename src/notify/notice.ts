import { randomUUID } from 'node:crypto';
import { healthOf, type Trouble } from '../app/connector-health.ts';
import type { WithRetention } from '../app/connector-states.ts';
import { instant, type Instant } from '../core/clock.ts';
import { SyncError } from '../core/errors.ts';
import { isLikeGlob } from '../core/names.ts';
import type { ConnectorSettings, LocalSettings, NoticeKind, NotifySettings } from '../settings/settings.ts';
import { type FieldNews, newsName } from '../sinks/readings.ts';
import type { Condition, FoundState, NewMessage, NoticeChanges } from '../sinks/notices.ts';
import { printableWithin } from '../telemetry/format.ts';
import { troubleLine } from '../wording/connector-text.ts';

/** A channel that messages are sent to. */
export type MessageChannel = Exclude<NotifySettings, { readonly type: 'heartbeat' }>;

/** A message as a receiver gets it, as JSON or as text made of it. */
export interface Notice {
  readonly version: 1;
  /** A message that comes twice has the same. */
  readonly id: string;
  readonly kind: NoticeKind | 'test';
  readonly at: Instant;
  /** The time since when it holds; for `recovered`, since when the problem had existed. */
  readonly since: Instant;
  readonly connector: string | null;
  readonly target: string | null;
  readonly sink: string | null;
  readonly title: string;
  readonly text: string;
  readonly items: readonly ChangedItem[];
}

interface ChangedItem {
  readonly kind: NoticeKind;
  /** A field, a target, a config; '' for all of the connector. */
  readonly subject: string;
  readonly since: Instant;
  /** A sentence. */
  readonly text: string;
}

/**
 * All kinds, in the order in which a message for each is sent: the title behind the name of a connector or target, and
 * the text that says that it is over, before "since"; null: its end is no news.
 */
const kinds: Readonly<Record<NoticeKind, readonly [title: string, over: string | null]>> = {
  failed: [': the sync failed', 'The sync had failed'],
  incomplete: [': the sync is incomplete', 'The sync had been incomplete'],
  'withheld-deletes': [': deletes wait for you', 'Deletes had been withheld'],
  'withheld-retention': [': what is too old waits for you', 'What is too old had been kept'],
  late: [': its data is too old', 'It had been too old'],
  'purge-unfinished': [': a purge is not finished', 'A purge had not been finished'],
  'publication-failed': [': the publication failed', 'The publication had failed'],
  'config-refused': [' was refused', 'It had been refused'],
  // An undeclared field is news once.
  'schema-change': [': the records have changed', null],
  recovered: [': works again', null],
};
// `as`: the keys are those of the record.
const allKinds = Object.keys(kinds) as readonly NoticeKind[];

interface AboutHow {
  readonly settings: LocalSettings;
  readonly sink: string;
  readonly nowMs: number;
  /** Hides secrets. */
  readonly hide: (text: string) => string;
}

/**
 * Changes between the stored conditions of one connector (or those of none) and the ones that hold now, with a message
 * for each channel that wants to hear of it. A run that fails again in another way is no change.
 */
export function noticeChanges(compared: Compared, how: AboutHow): NoticeChanges {
  const { connector, before } = compared;
  const found = compared.found.map(({ kind, subject, since, ...detail }): Condition => ({
    connector,
    kind,
    subject: how.hide(subject),
    since,
    detail: detailText(detail, how.hide),
  }));
  const keyOf = ({ kind, subject }: Condition): string => JSON.stringify([kind, subject]);
  const known = new Map(before.map((one) => [keyOf(one), one]));
  const now = new Set(found.map(keyOf));
  const isFirst = !before.some(({ kind }) => kind === 'watched');
  const had = (kind: string): boolean => before.some((one) => one.kind === kind);
  const has = (kind: string): boolean => found.some((one) => one.kind === kind);
  const appeared = allKinds.flatMap((kind) => {
    const isNews = !(isOfRuns(kind) && had(kind)) && !(kind === 'schema-change' && isFirst);
    const items = found.filter((one) => one.kind === kind && !known.has(keyOf(one)));
    return isNews ? messagesOf(kind, items, how) : [];
  });
  const over = allKinds.flatMap((kind) => {
    const isReplaced = isOfRuns(kind) && (has('failed') || has('incomplete'));
    const isNoNews = kinds[kind][1] === null || has(kind) || isReplaced;
    return isNoNews ? [] : before.filter((one) => one.kind === kind);
  });
  return {
    stored: found.flatMap((one) => {
      const was = known.get(keyOf(one));
      if (was === undefined) return [one];
      // The stored `since` stays.
      return was.detail === one.detail ? [] : [{ ...one, since: was.since }];
    }),
    dropped: before.filter((one) => !now.has(keyOf(one))),
    messages: [...appeared, ...messagesOf('recovered', over, how)],
  };
}

/** A message for each channel that wants to hear of these conditions, or for `recovered`, of their end. */
function messagesOf(kind: NoticeKind, of: readonly Condition[], how: AboutHow): readonly NewMessage[] {
  const connector = of[0]?.connector || null;
  const items = of.map(({ subject, since, ...one }): ChangedItem => {
    // `as`: only `Found` becomes a condition, and `watched` is not among these.
    return { kind: one.kind as NoticeKind, subject, since, text: detailOf(one).text };
  });
  const since = items.map((one) => one.since).toSorted()[0] ?? '';
  return messageChannels(how.settings).flatMap((channel) => {
    if (!channel.kinds.includes(kind)) return [];
    const isGood = kind === 'recovered' && channel.kinds.some((one) => one !== 'recovered');
    const wanted = items.filter(
      // Good news is for channels that got, or would have got, the bad news.
      (item) => (!isGood || channel.kinds.includes(item.kind)) && concerns(channel, connector, item, how),
    );
    if (wanted.length === 0) return [];
    const notice = noticeOf({ kind, connector, since }, wanted, how);
    return { notice: notice.id, channel: channel.name, connector, kind, payload: JSON.stringify(notice) };
  });
}

export function messageChannels({ notify }: Pick<LocalSettings, 'notify'>): readonly MessageChannel[] {
  return [...notify.values()].filter((channel) => channel.type !== 'heartbeat');
}

export function testNotice(channel: MessageChannel, at: Instant): Notice {
  const none = { connector: null, target: null, sink: null, items: [] };
  const title = 'A test of connector-sync';
  const text = `The channel ${channel.name} works: you will be notified here.`;
  return { version: 1, id: randomUUID(), kind: 'test', at, since: at, ...none, title, text };
}

function concerns(
  channel: MessageChannel,
  connector: string | null,
  { kind, subject }: ChangedItem,
  { settings }: AboutHow,
): boolean {
  if (connector !== null) return hearsOf(channel, connector);
  // A config is about all of its connectors, perhaps none.
  if (kind === 'config-refused' && channel.connectors.length === 0) return true;
  const names =
    kind === 'config-refused'
      ? [...settings.connectors.keys()]
      : (settings.publish.get(subject)?.connectors ?? []).map(({ name }) => name);
  return names.some((name) => hearsOf(channel, name));
}

export function hearsOf({ connectors }: Pick<NotifySettings, 'connectors'>, connector: string): boolean {
  return connectors.length === 0 || connectors.some((glob) => isLikeGlob(connector, glob));
}

const mostItems = 20;

function noticeOf(
  { kind, connector, since }: Pick<Notice, 'connector' | 'since'> & { readonly kind: NoticeKind },
  items: readonly ChangedItem[],
  { sink, nowMs }: AboutHow,
): Notice {
  const [first] = items;
  const isOfConfig = first?.kind === 'config-refused';
  const target = connector === null && !isOfConfig ? (first?.subject ?? null) : null;
  const about = connector ?? target ?? (isOfConfig ? 'The config' : '');
  const more = items.length - mostItems;
  const texts = items
    .slice(0, mostItems)
    .map(({ kind: of, subject, since, text }) =>
      kind === 'recovered' ? `${subject === '' ? '' : `${subject}: `}${kinds[of][1]} since ${since}.` : text,
    );
  return {
    version: 1,
    id: randomUUID(),
    kind,
    at: instant(nowMs),
    since,
    connector,
    target,
    sink,
    title: `${about}${kinds[kind][0]}`,
    text: [...texts, ...(more > 0 ? [`And ${more} more.`] : [])].join('\n'),
    items: items.slice(0, mostItems),
  };
}

/** Stored with a condition as `Condition.detail`. */
interface Detail {
  /** Describes the problem and its solution. A long text is cut. */
  readonly text: string;
  /** Continues the text, with the full stop that it lacks, and is never cut. */
  readonly advice?: string;
  /** Only for a refused config: the host that refused it. */
  readonly host?: string;
}

interface Found extends Detail {
  /** `watched`: people are notified about this connector from now on. The earlier form of its records is no news. */
  readonly kind: Exclude<NoticeKind, 'recovered'> | 'watched';
  readonly subject: string;
  readonly since: Instant;
}

/** Conditions that hold now of a connector, or of none (''), and the stored ones that they replace. */
export interface Compared {
  readonly connector: Condition['connector'];
  readonly found: readonly Found[];
  readonly before: readonly Condition[];
}

function detailOf({ detail }: Pick<Condition, 'detail'>): Detail {
  // `as`: only `detailText` writes details.
  return JSON.parse(detail) as Detail;
}

/** Secrets are hidden before a text is cut, so that no part of one stays at its end. */
function detailText({ text, advice = '', host }: Detail, hide: (text: string) => string): string {
  const hidden = printableWithin(hide(text), 1_000 - advice.length);
  const said = advice === '' ? hidden : `${hidden.replace(/\.$/, '')}${advice}`;
  return JSON.stringify({ text: said, host });
}

/** Problems of a connector, in the words of its status. */
export function conditionsOf(
  connector: Pick<ConnectorSettings, 'name'> & WithRetention,
  { overviews, fields, conditions, nowMs }: FoundState,
): Compared {
  const { name } = connector;
  const overview = overviews.get(name) ?? null;
  const before = conditions.get(name) ?? [];
  const now = instant(nowMs);
  const endedAt = overview?.lastEnded?.finishedAt ?? now;
  // An interrupted run says neither that it works again nor that it does not.
  const isCut = overview?.lastEnded?.state === 'interrupted';
  const wasLate = before.some(({ kind }) => kind === 'late');
  const found = new Map<NoticeKind, Found>();
  for (const trouble of healthOf(connector, overview, nowMs).troubles) {
    const kind = trouble.word === 'failed' ? 'failed' : kindByTrouble[trouble.kind];
    if (kind === undefined || (isCut && isOfRuns(kind))) continue;
    // A paused connector does not become late.
    if (kind === 'late' && (overview?.paused ?? null) !== null && !wasLate) continue;
    const since = sinceOf(trouble) ?? (kind === 'withheld-retention' ? now : endedAt);
    // A purge takes minutes; a younger one may be under way.
    if (kind === 'purge-unfinished' && nowMs - Date.parse(since) < purgeMs) continue;
    const text = troubleLine(trouble, name, { program: 'connector-sync', nowMs });
    const other = found.get(kind);
    found.set(kind, { kind, subject: '', since, text: other === undefined ? text : `${other.text} ${text}` });
  }
  // A failure hides an incomplete read, which is reported again when the failure is over.
  if (found.has('failed')) found.delete('incomplete');
  return {
    connector: name,
    found: [
      { kind: 'watched', subject: '', since: now, text: '' },
      ...found.values(),
      ...(fields.get(name) ?? []).map((news): Found => ({
        kind: 'schema-change',
        subject: newsName(news),
        since: news.since,
        text: fieldText(news),
      })),
    ],
    before: isCut ? before.filter(({ kind }) => !isOfRuns(kind)) : before,
  };
}

function isOfRuns(kind: string): boolean {
  return kind === 'failed' || kind === 'incomplete';
}

const purgeMs = 3_600_000;

/** Troubles that have a message, unless the run has failed by them; fields have one each. */
const kindByTrouble: Partial<Record<Trouble['kind'], Exclude<NoticeKind, 'recovered'>>> = {
  withheld: 'withheld-deletes',
  'withheld-by-age': 'withheld-retention',
  late: 'late',
  purge: 'purge-unfinished',
  credentials: 'incomplete',
  schema: 'incomplete',
  error: 'incomplete',
  retried: 'incomplete',
  'left-out': 'incomplete',
  'part-missing': 'incomplete',
};

/** Null: since the newest run. */
function sinceOf(trouble: Trouble): Instant | null {
  if (trouble.kind === 'purge') return trouble.work.map((one) => one.since).toSorted()[0] ?? null;
  if (trouble.kind !== 'late' || trouble.asOf === null) return null;
  return instant(Date.parse(trouble.asOf) + (trouble.freshWithinMs ?? 0));
}

function fieldText({ connector, entity, field, kind }: FieldNews): string {
  const what =
    kind === 'undeclared'
      ? `has a new field that the definition does not declare: ${field}.`
      : `has values that do not fit the column ${field}.`;
  return `${entity} ${what} "connector-sync schema diff ${connector}" has lines for the definition.`;
}

/** A condition that concerns no connector alone: `detail` says from the stored one whether it holds. */
function ofNone(
  { conditions, nowMs }: FoundState,
  kind: 'config-refused' | 'publication-failed',
  subject: string,
  detail: (was: Detail | null) => Detail | null,
): Compared {
  const before = (conditions.get('') ?? []).filter((one) => one.kind === kind && one.subject === subject);
  const was = before[0] === undefined ? null : detailOf(before[0]);
  const now = detail(was);
  return {
    connector: '',
    found: now === null ? [] : [{ kind, subject, since: instant(nowMs), ...now }],
    before,
  };
}

/** Result of a worker's reading of its config. */
export interface ReadConfig {
  readonly file: string;
  /** Why it keeps the previous config; null: it has this one. */
  readonly refusal: string | null;
  /** The process has started with this config. */
  readonly isStart?: boolean;
}

/** Conditions of a config that a process has just read. */
export function configOf(state: FoundState, { file, refusal, isStart = false }: ReadConfig, host: string) {
  return ofNone(state, 'config-refused', file, (was) => {
    if (refusal !== null) {
      const text = `A worker on ${host} has read ${file} again and keeps the config before: ${refusal}`;
      return { text, advice: '. Correct it, then run: connector-sync reload', host };
    }
    // A refusal by a worker elsewhere ends with that worker's own reload, or when a worker starts with the config.
    return isStart || was?.host === host ? null : was;
  });
}

/** Condition after a publication into a target; `error` null: it went well. */
export function publicationOf(state: FoundState, target: string, error: unknown): Compared {
  return ofNone(state, 'publication-failed', target, () => {
    if (error === null) return null;
    const why = error instanceof Error ? error.message : JSON.stringify(error);
    const code = error instanceof SyncError ? error.code : 'INTERNAL';
    return {
      text: why,
      advice: ` (${code}). Once it is put right, run: connector-sync publish ${target}`,
    };
  });
}
