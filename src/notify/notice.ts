import { randomUUID } from 'node:crypto';
import { healthOf } from '../app/connector-health.ts';
import { freshnessOf, withheldByAgeOf, type WithRetention } from '../app/connector-states.ts';
import { instant, type Instant } from '../core/clock.ts';
import { type ErrorCode, SyncError } from '../core/errors.ts';
import { isLikeGlob } from '../core/glob.ts';
import type { Health } from '../core/health.ts';
import type { ConnectorSettings, LocalSettings, NoticeKind, NotifySettings } from '../settings/settings.ts';
import { type FieldNews, newsName } from '../sinks/drift.ts';
import type { ConnectorOverview } from '../sinks/ledger-reader.ts';
import type { Condition, FoundState, NewMessage, NoticeChanges } from '../sinks/notices.ts';
import { counted, printableWithin, roughly } from '../telemetry/format.ts';
import { purgedPlaces, withheldItemsText } from '../wording/connector-text.ts';

/** A channel that messages are sent to. */
export type MessageChannel = Exclude<NotifySettings, { readonly type: 'heartbeat' }>;

/** A message as a receiver gets it, as JSON or as text made of it. */
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
  /** Advice for a person. */
  readonly todo: string;
  readonly items: readonly ChangedItem[];
}

interface ChangedItem {
  readonly kind: NoticeKind;
  /** An entity, a field, a target; '' for all of the connector. */
  readonly subject: string;
  readonly since: Instant;
  /** A sentence. */
  readonly text: string;
}

/** A change of state that people are notified of. */
interface Change {
  readonly kind: NoticeKind;
  readonly connector: string | null;
  readonly since: Instant;
  /** Conditions that have come up; of `recovered`, those that are over. */
  readonly items: readonly ChangedItem[];
  readonly needsPerson: boolean;
}

interface KindWords {
  /** Behind the name of a connector or target. */
  readonly title: (items: number) => string;
  /** Says that it is over, before "since"; null: its end is no news. */
  readonly over: string | null;
  /** Advice for a person. */
  readonly todo: (about: string, needsPerson: boolean) => string;
}

/** All kinds, in the order in which a message for each is sent. */
const kinds: Readonly<Record<NoticeKind, KindWords>> = {
  failed: {
    title: () => ': the sync failed',
    over: 'The sync had failed',
    todo: (about, needsPerson) =>
      needsPerson
        ? `Repair it, then run: connector-sync sync ${about}. "connector-sync check ${about}" says more.`
        : `Nothing yet: the next run tries again. If none comes, run: connector-sync sync ${about}`,
  },
  incomplete: {
    title: () => ': the sync is incomplete',
    over: 'The sync had been incomplete',
    todo: (about, needsPerson) =>
      `${needsPerson ? 'Repair it; the next run reads the rest' : 'The next run tries again'}. "connector-sync status ${about}" shows what is missing.`,
  },
  'withheld-deletes': {
    title: () => ': deletes wait for you',
    over: 'Deletes had been withheld',
    todo: (about) =>
      `Check at the source. If they are deleted there, run: connector-sync sync ${about} --allow-deletes`,
  },
  'withheld-retention': {
    title: () => ': what is too old waits for you',
    over: 'What is too old had been kept',
    todo: (about) =>
      `Check "retention" and "history" of the config. If all of it is to go, run: connector-sync prune ${about} --allow-deletes`,
  },
  late: {
    title: (items) => `: ${counted(items, 'entity is', 'entities are')} too old`,
    over: 'It had been too old',
    todo: (about) =>
      `Is a worker running, and does its run end? "connector-sync status ${about}" shows the last one.`,
  },
  'purge-unfinished': {
    title: () => ': a purge is not finished',
    over: 'A purge had not been finished',
    todo: (about) => `Run: connector-sync prune ${about}`,
  },
  'publication-failed': {
    title: () => ': the publication failed',
    over: 'The publication had failed',
    todo: (about) => `Repair it, then run: connector-sync publish ${about}`,
  },
  'config-refused': {
    title: () => ' was refused',
    over: 'It had been refused',
    todo: () => '"connector-sync check" lists the mistakes. Correct them, then run: connector-sync reload',
  },
  'schema-change': {
    title: () => ': the records have changed',
    // An undeclared field is news once.
    over: null,
    todo: (about) => `"connector-sync schema diff ${about}" lists the fields, with lines for the definition.`,
  },
  recovered: { title: () => ': works again', over: null, todo: () => 'Nothing.' },
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
    detail: how.hide(detailText(detail)),
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
    return isNews && items.length > 0 ? [changeOf(kind, items)] : [];
  });
  const over = allKinds.flatMap((kind) => {
    const isReplaced = isOfRuns(kind) && (has('failed') || has('incomplete'));
    const isNoNews = kinds[kind].over === null || has(kind) || isReplaced;
    return isNoNews ? [] : before.filter((one) => one.kind === kind);
  });
  const changes = [...appeared, ...(over.length === 0 ? [] : [changeOf('recovered', over)])];
  return {
    stored: found.flatMap((one) => {
      const was = known.get(keyOf(one));
      if (was === undefined) return [one];
      // Since when it holds stays what it was.
      return was.detail === one.detail ? [] : [{ ...one, since: was.since }];
    }),
    dropped: before.filter((one) => !now.has(keyOf(one))),
    messages: changes.flatMap((change) => messagesOf(change, how)),
  };
}

function changeOf(kind: NoticeKind, of: readonly Condition[]): Change {
  const items = of.map(({ subject, since, ...one }): ChangedItem => {
    // `as`: only `conditions.ts` makes conditions, and `watched` is not among these.
    return { kind: one.kind as NoticeKind, subject, since, text: detailOf(one).text };
  });
  const since = items.map((one) => one.since).toSorted()[0] ?? '';
  const connector = of[0]?.connector || null;
  const needsPerson = kind !== 'recovered' && of.some((one) => detailOf(one).needsPerson === true);
  return { kind, connector, since, items, needsPerson };
}

/** A message for each channel that wants to hear of the change. */
function messagesOf(change: Change, how: AboutHow): readonly NewMessage[] {
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
  const wanted = channel.kinds;
  if (!wanted.includes(change.kind)) return false;
  const hasOthers = wanted.some((kind) => kind !== 'recovered');
  if (change.kind === 'recovered' && hasOthers && !wanted.includes(item.kind)) return false;
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

const mostItems = 20;

function noticeOf(change: Change, { sink, nowMs }: AboutHow): Notice {
  const { kind, connector, since, items, needsPerson } = change;
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
    title: `${about}${kinds[kind].title(items.length)}`,
    text: [...texts, ...(more > 0 ? [`And ${more} more.`] : [])].join('\n'),
    todo: kinds[kind].todo(about, needsPerson),
    items: items.slice(0, mostItems),
  };
}

function overText({ kind, subject, since }: ChangedItem): string {
  return `${subject === '' ? '' : `${subject}: `}${kinds[kind].over} since ${since}.`;
}

/** Stored with a condition as `Condition.detail`. */
interface Detail {
  /** A sentence. */
  readonly text: string;
  /** No run may help before a person does. */
  readonly needsPerson?: boolean;
  /** Only of a config that was refused: where. */
  readonly host?: string;
}

interface Found extends Detail {
  /** `watched`: people are notified about this connector since then. What its records were like before is no news. */
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

function detailText({ text, needsPerson, host }: Detail): string {
  return JSON.stringify({ text: printableWithin(text, 1_000), needsPerson, host });
}

export function conditionsOf(
  connector: Pick<ConnectorSettings, 'name'> & WithRetention,
  { overviews, fields, conditions, nowMs }: FoundState,
): Compared {
  const { name } = connector;
  const overview = overviews.get(name) ?? null;
  const before = conditions.get(name) ?? [];
  const { words } = healthOf(connector, overview, nowMs);
  const now = instant(nowMs);
  const endedAt = overview?.lastEnded?.finishedAt ?? now;
  // An interrupted run says neither that it works again nor that it does not.
  const isCut = overview?.lastEnded?.state === 'interrupted';
  const found: readonly Found[] = [
    { kind: 'watched', subject: '', since: now, text: '' },
    ...(overview === null || isCut ? [] : ofRun(overview, words)),
    ...(overview?.missing ?? [])
      .filter(({ withheld }) => withheld > 0)
      .map(({ entity, withheld }) => {
        const text = withheldText(entity, withheld);
        return { kind: 'withheld-deletes', subject: entity, since: endedAt, text } as const;
      }),
    ...withheldByAgeOf(connector, overview?.withheldByAge ?? []).map(({ entity, withheld }) => {
      const text = withheldItemsText([entity], withheld);
      return { kind: 'withheld-retention', subject: entity, since: now, text } as const;
    }),
    ...(overview !== null && words.has('late') ? lateOf(connector, overview, before, nowMs) : []),
    ...ofPurges(overview?.purgeWork ?? [], nowMs),
    ...(fields.get(name) ?? []).map((news) => {
      return {
        kind: 'schema-change',
        subject: newsName(news),
        since: news.since,
        text: fieldText(news),
      } as const;
    }),
  ];
  return { connector: name, found, before: isCut ? before.filter(({ kind }) => !isOfRuns(kind)) : before };
}

function isOfRuns(kind: string): boolean {
  return kind === 'failed' || kind === 'incomplete';
}

/** Codes of listings that no later run reads before a person has changed something. */
const forPerson: ReadonlySet<ErrorCode> = new Set(['AUTH_FAILED', 'FORBIDDEN', 'SCHEMA_CHANGED'] as const);

/** A purge takes minutes; a younger one may be under way. */
const purgeMs = 3_600_000;

function ofPurges(work: ConnectorOverview['purgeWork'], nowMs: number): readonly Found[] {
  const since = work.map((one) => one.since).toSorted()[0];
  if (since === undefined || nowMs - Date.parse(since) < purgeMs) return [];
  const text = `${purgedPlaces(work)} may still hold what was purged.`;
  return [{ kind: 'purge-unfinished', subject: '', since, text }];
}

/** Conditions of the newest run that ended. */
function ofRun(
  { lastEnded, error, failures, partMissing }: ConnectorOverview,
  words: ReadonlySet<Health>,
): readonly Found[] {
  if (lastEnded === null) return [];
  const of = { subject: '', since: lastEnded.finishedAt ?? lastEnded.startedAt };
  if (words.has('failed')) {
    if (error !== null) return [{ kind: 'failed', ...of, ...errorDetail(error) }];
    return [{ kind: 'failed', ...of, text: 'It stopped on an error.', needsPerson: true }];
  }
  const listings = partMissing.reduce((sum, one) => sum + one.listings, 0);
  const codes = failures.length === 0 ? '' : ` (${failures.map(({ code }) => code).join(', ')})`;
  const why = [
    ...(lastEnded.state === 'degraded' ? [`Some listings failed${codes}.`] : []),
    ...(listings === 0
      ? []
      : [`Part missing: ${counted(listings, 'listing')} may have records that did not come.`]),
  ];
  const needsPerson = failures.some(({ code, recovery }) => recovery === 'stop' || forPerson.has(code));
  return why.length === 0 ? [] : [{ kind: 'incomplete', ...of, text: why.join(' '), needsPerson }];
}

function errorDetail({ message, code, recovery }: Pick<SyncError, 'message' | 'code' | 'recovery'>): Detail {
  return { text: `${message} (${code})`, needsPerson: recovery !== 'retry' };
}

/** Nothing gets late that a person has paused. */
function lateOf(
  connector: Pick<ConnectorSettings, 'entities'>,
  { lastEnded, paused, freshness }: ConnectorOverview,
  before: readonly Condition[],
  nowMs: number,
): readonly Found[] {
  const since = lastEnded?.finishedAt ?? instant(nowMs);
  const was = new Set(before.flatMap(({ kind, subject }) => (kind === 'late' ? [subject] : [])));
  return freshnessOf(connector, freshness).flatMap(({ entity, asOf, freshWithinMs }): readonly Found[] => {
    if (freshWithinMs === null || (paused !== null && !was.has(entity))) return [];
    const of = { kind: 'late', subject: entity } as const;
    if (asOf === null) return [{ ...of, since, text: `${entity} was never read completely.` }];
    const dueMs = Date.parse(asOf) + freshWithinMs;
    if (nowMs <= dueMs) return [];
    const text = `${entity} is as of ${asOf}; it may be ${roughly(freshWithinMs)} old.`;
    return [{ ...of, since: instant(dueMs), text }];
  });
}

function withheldText(entity: string, rows: number): string {
  return `${counted(rows, 'row')} of ${entity} ${rows === 1 ? 'looks' : 'look'} deleted and ${rows === 1 ? 'is' : 'are'} kept.`;
}

function fieldText({ entity, field, kind }: FieldNews): string {
  return kind === 'undeclared'
    ? `${entity} has a new field that the definition does not declare: ${field}.`
    : `${entity} has values that do not fit the column ${field}.`;
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

/** How a worker read its config. */
export interface ReadConfig {
  readonly file: string;
  /** Why it keeps the config before; null: it has this one. */
  readonly refusal: string | null;
  /** It has begun with it. */
  readonly isStart?: boolean;
}

/** Conditions of a config that a process has just read. */
export function configOf(
  state: FoundState,
  { file, refusal, isStart = false }: ReadConfig,
  host: string,
): Compared {
  return ofNone(state, 'config-refused', file, (was) => {
    if (refusal !== null) {
      const text = `A worker on ${host} has read ${file} again and keeps the config before: ${refusal}`;
      return { text, needsPerson: true, host };
    }
    // A refusal by a worker elsewhere ends with that worker's own reload, or when a worker starts with the config.
    return isStart || was?.host === host ? null : was;
  });
}

/** How a publication into a target ended; `error` null: it went well. */
export function publicationOf(state: FoundState, target: string, error: unknown): Compared {
  return ofNone(state, 'publication-failed', target, () => {
    if (error instanceof SyncError) return errorDetail(error);
    const message = error instanceof Error ? error.message : String(error);
    return error === null ? null : errorDetail({ message, code: 'INTERNAL', recovery: 'stop' });
  });
}
