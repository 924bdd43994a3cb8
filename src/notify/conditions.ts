import { healthOf } from '../app/connector-health.ts';
import { freshnessOf, withheldByAgeOf, type WithRetention } from '../app/connector-states.ts';
import { instant, type Instant } from '../core/clock.ts';
import { SyncError, type ErrorCode } from '../core/errors.ts';
import type { Health } from '../core/health.ts';
import type { ConnectorSettings, NoticeKind } from '../settings/settings.ts';
import { newsName, widenCommand, type FieldNews } from '../sinks/drift.ts';
import type { ConnectorOverview } from '../sinks/ledger-reader.ts';
import type { Condition, FoundState } from '../sinks/notices.ts';
import type { ReadConfig } from './notifier.ts';
import { counted, printableWithin, roughly } from '../telemetry/format.ts';
import { purgedPlaces } from '../wording/purged-text.ts';
import { withheldItemsText } from '../wording/withheld-by-age.ts';

/** `watched`: people are notified about this connector since then. What its records were like before is no news. */
type ConditionKind = Exclude<NoticeKind, 'recovered'> | 'watched';

export interface FoundCondition extends Condition {
  readonly kind: ConditionKind;
}

/** What is stored of a condition as `Condition.detail`. */
interface Detail {
  /** A sentence. */
  readonly text: string;
  /** No run may help before a person does. */
  readonly needsPerson?: boolean;
  /** Only of a config that was refused: where. */
  readonly host?: string;
}

export function detailOf({ detail }: Pick<Condition, 'detail'>): Detail {
  // `as`: only `conditionsOf` and `publicationsOf` write details.
  return JSON.parse(detail) as Detail;
}

export function conditionsOf(
  connector: Pick<ConnectorSettings, 'name'> & WithRetention,
  { overviews, fields, conditions, nowMs }: FoundState,
): readonly FoundCondition[] {
  const { name } = connector;
  const overview = overviews.get(name) ?? null;
  const before = (conditions.get(name) ?? []) as readonly FoundCondition[];
  const found = (kind: ConditionKind, subject: string, since: Instant, detail: Detail): FoundCondition => ({
    connector: name,
    kind,
    subject,
    since,
    detail: JSON.stringify({ ...detail, text: printableWithin(detail.text, 1_000) }),
  });
  const lastEnded = overview?.lastEnded ?? null;
  const { words } = healthOf(connector, overview, nowMs);
  const now = instant(nowMs);
  const isCut = lastEnded?.state === 'interrupted';
  return [
    found('watched', '', now, { text: '' }),
    // An interrupted run says neither that it works again nor that it does not.
    ...(isCut ? before.filter(({ kind }) => isOfRuns(kind)) : []),
    ...(overview === null || isCut ? [] : ofRun(overview, words, found)),
    ...(overview?.missing ?? []).flatMap(({ entity, withheld: rows }) => {
      const text = withheldText(entity, rows);
      return rows === 0 ? [] : [found('withheld-deletes', entity, lastEnded?.finishedAt ?? now, { text })];
    }),
    ...withheldByAgeOf(connector, overview?.withheldByAge ?? []).map(({ entity, withheld }) =>
      found('withheld-retention', entity, now, { text: withheldItemsText([entity], withheld) }),
    ),
    ...(overview !== null && words.has('late') ? lateOf(connector, overview, before, found, nowMs) : []),
    ...ofPurges(overview?.purgeWork ?? [], found, nowMs),
    ...(fields.get(name) ?? []).map((news) =>
      found('schema-change', newsName(news), news.since, { text: fieldText(news) }),
    ),
  ];
}

type Found = (kind: ConditionKind, subject: string, since: Instant, detail: Detail) => FoundCondition;

export function isOfRuns(kind: string): boolean {
  return kind === 'failed' || kind === 'incomplete';
}

/** Codes of listings that no later run reads before a person has changed something. */
const forPerson: ReadonlySet<ErrorCode> = new Set(['AUTH_FAILED', 'FORBIDDEN', 'SCHEMA_CHANGED'] as const);

/** A purge takes minutes; a younger one may be under way. */
const purgeMs = 3_600_000;

function ofPurges(
  work: ConnectorOverview['purgeWork'],
  found: Found,
  nowMs: number,
): readonly FoundCondition[] {
  const since = work.map((one) => one.since).toSorted()[0];
  if (since === undefined || nowMs - Date.parse(since) < purgeMs) return [];
  return [
    found('purge-unfinished', '', since, { text: `${purgedPlaces(work)} may still hold what was purged.` }),
  ];
}

/** What the newest run that ended found. */
function ofRun(
  { lastEnded, error, failures, partMissing }: ConnectorOverview,
  words: ReadonlySet<Health>,
  found: Found,
): readonly FoundCondition[] {
  if (lastEnded === null) return [];
  const at = lastEnded.finishedAt ?? lastEnded.startedAt;
  if (words.has('failed')) {
    const failed =
      error === null
        ? { text: 'It stopped on an error.', needsPerson: true }
        : { text: `${error.message} (${error.code})`, needsPerson: error.recovery !== 'retry' };
    return [found('failed', '', at, failed)];
  }
  const listings = partMissing.reduce((sum, one) => sum + one.listings, 0);
  const why = [
    ...(lastEnded.state === 'degraded'
      ? [
          `Some listings failed${failures.length === 0 ? '' : ` (${failures.map(({ code }) => code).join(', ')})`}.`,
        ]
      : []),
    ...(listings === 0
      ? []
      : [`Part missing: ${counted(listings, 'listing')} may have records that did not come.`]),
  ];
  const needsPerson = failures.some(({ code, recovery }) => recovery === 'stop' || forPerson.has(code));
  return why.length === 0 ? [] : [found('incomplete', '', at, { text: why.join(' '), needsPerson })];
}

/** Nothing gets late that a person has paused. */
function lateOf(
  connector: Pick<ConnectorSettings, 'entities'>,
  { lastEnded, paused, freshness }: ConnectorOverview,
  before: readonly FoundCondition[],
  found: Found,
  nowMs: number,
): readonly FoundCondition[] {
  const since = lastEnded?.finishedAt ?? instant(nowMs);
  const was = new Set(before.flatMap(({ kind, subject }) => (kind === 'late' ? [subject] : [])));
  return freshnessOf(connector, freshness).flatMap(({ entity, asOf, freshWithinMs }) => {
    if (freshWithinMs === null || (paused !== null && !was.has(entity))) return [];
    if (asOf === null) {
      const text = `${entity} was never read completely.`;
      return [found('late', entity, since, { text })];
    }
    const dueMs = Date.parse(asOf) + freshWithinMs;
    if (nowMs <= dueMs) return [];
    const text = `${entity} is as of ${asOf}; it may be ${roughly(freshWithinMs)} old.`;
    return [found('late', entity, instant(dueMs), { text })];
  });
}

function withheldText(entity: string, rows: number): string {
  return `${counted(rows, 'row')} of ${entity} ${rows === 1 ? 'looks' : 'look'} deleted and ${rows === 1 ? 'is' : 'are'} kept.`;
}

function fieldText(news: FieldNews): string {
  const { entity, field, kind, canWiden } = news;
  if (kind === 'undeclared') {
    return `${entity} has a new field that the definition does not declare: ${field}.`;
  }
  const widening = ` To make it a text column, run: connector-sync ${widenCommand(news)}`;
  return `${entity} has values that do not fit the column ${field}.${canWiden ? widening : ''}`;
}

/** What concerns no connector alone, as it was, but for this. */
function besides(
  conditions: FoundState['conditions'],
  kind: ConditionKind,
  subject: string,
): readonly FoundCondition[] {
  // `as`: only this file makes conditions.
  return (conditions.get('') ?? []).filter(
    (one) => one.kind !== kind || one.subject !== subject,
  ) as readonly FoundCondition[];
}

/** What a process made of its config just now. */
export function configOf(
  { conditions, nowMs }: FoundState,
  { file, refusal, isStart = false }: ReadConfig,
  host: string,
): readonly FoundCondition[] {
  const others = besides(conditions, 'config-refused', file);
  if (refusal !== null) {
    const text = `A worker on ${host} has read ${file} again and keeps the config before: ${printableWithin(refusal, 900)}`;
    const detail = JSON.stringify({ text, needsPerson: true, host });
    const since = instant(nowMs);
    return [...others, { connector: '', kind: 'config-refused', subject: file, since, detail }];
  }
  const was = refusedConfig(conditions, file);
  // What a worker elsewhere has refused is over with its own reload, or where a worker begins with the config.
  return was === undefined || isStart || detailOf(was).host === host ? others : [...others, was];
}

/** The condition that a config was refused; undefined: it was not. */
function refusedConfig(conditions: FoundState['conditions'], file: string): FoundCondition | undefined {
  // `as`: only this file makes conditions.
  return (conditions.get('') ?? []).find(
    ({ kind, subject }) => kind === 'config-refused' && subject === file,
  ) as FoundCondition | undefined;
}

/** The failed publications into targets of this sink: `ended` of this one now, the others as they were. */
export function publicationsOf(
  { conditions, nowMs }: FoundState,
  ended: { readonly target: string; readonly error: unknown },
): readonly FoundCondition[] {
  const others = besides(conditions, 'publication-failed', ended.target);
  if (ended.error === null) return others;
  const [detail, since] = [JSON.stringify(failureOf(ended.error)), instant(nowMs)];
  return [...others, { connector: '', kind: 'publication-failed', subject: ended.target, since, detail }];
}

function failureOf(error: unknown): Detail {
  if (!(error instanceof SyncError)) {
    const message = error instanceof Error ? error.message : String(error);
    return { text: `${printableWithin(message, 1_000)} (INTERNAL)`, needsPerson: true };
  }
  const { message, code, recovery } = error;
  return { text: `${printableWithin(message, 1_000)} (${code})`, needsPerson: recovery !== 'retry' };
}
