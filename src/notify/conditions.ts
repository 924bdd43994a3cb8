import { healthOf } from '../app/connector-health.ts';
import { freshnessOf, withheldByAgeOf, type WithRetention } from '../app/connector-states.ts';
import { instant, type Instant } from '../core/clock.ts';
import { type ErrorCode, SyncError } from '../core/errors.ts';
import type { Health } from '../core/health.ts';
import type { ConnectorSettings, NoticeKind } from '../settings/settings.ts';
import { type FieldNews, newsName, widenCommand } from '../sinks/drift.ts';
import type { ConnectorOverview } from '../sinks/ledger-reader.ts';
import type { Condition, FoundState } from '../sinks/notices.ts';
import { counted, printableWithin, roughly } from '../telemetry/format.ts';
import { purgedPlaces, withheldItemsText } from '../wording/connector-text.ts';

/** Stored with a condition as `Condition.detail`. */
interface Detail {
  /** A sentence. */
  readonly text: string;
  /** No run may help before a person does. */
  readonly needsPerson?: boolean;
  /** Only of a config that was refused: where. */
  readonly host?: string;
}

export interface Found extends Detail {
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

export function detailOf({ detail }: Pick<Condition, 'detail'>): Detail {
  // `as`: only `detailText` writes details.
  return JSON.parse(detail) as Detail;
}

export function detailText({ text, needsPerson, host }: Detail): string {
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

export function isOfRuns(kind: string): boolean {
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

function fieldText(news: FieldNews): string {
  const { entity, field, kind, canWiden } = news;
  if (kind === 'undeclared') {
    return `${entity} has a new field that the definition does not declare: ${field}.`;
  }
  const widening = ` To make it a text column, run: connector-sync ${widenCommand(news)}`;
  return `${entity} has values that do not fit the column ${field}.${canWiden ? widening : ''}`;
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
