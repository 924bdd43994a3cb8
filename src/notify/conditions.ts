import { freshnessOf, withheldByAgeOf, type WithRetention } from '../app/connector-states.ts';
import { instant, type Instant } from '../core/clock.ts';
import { SyncError, type ErrorCode } from '../core/errors.ts';
import type { RunId } from '../core/names.ts';
import type { ConnectorSettings, NoticeKind } from '../settings/settings.ts';
import { newsName, type FieldNews } from '../sinks/drift.ts';
import type { ConnectorOverview } from '../sinks/ledger-reader.ts';
import type { Condition, FoundState } from '../sinks/notices.ts';
import type { ReadConfig } from './notifier.ts';
import { counted, printableWithin, roughly } from '../telemetry/format.ts';
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
  /** Only where no run could begin: the newest that had ended then. */
  readonly after?: RunId | null;
  /** Only of a config that was refused: where. */
  readonly host?: string;
}

export function detailOf({ detail }: Pick<Condition, 'detail'>): Detail {
  // `as`: only `conditionsOf` and `publicationsOf` write details.
  return JSON.parse(detail) as Detail;
}

/** Subject of the condition that no run could begin. */
const begin = 'begin';

/** `notBegun`: why no run could begin just now; undefined where none was tried. */
export function conditionsOf(
  connector: Pick<ConnectorSettings, 'name'> & WithRetention,
  { overviews, fields, conditions, nowMs }: FoundState,
  notBegun?: unknown,
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
  const after = lastEnded?.run ?? null;
  const now = instant(nowMs);
  const refused = before.filter(
    (one) => one.kind === 'failed' && one.subject === begin && detailOf(one).after === after,
  );
  const isCut = lastEnded?.state === 'interrupted';
  return [
    found('watched', '', now, { text: '' }),
    ...(notBegun === undefined ? refused : [found('failed', begin, now, { ...failureOf(notBegun), after })]),
    // An interrupted run says neither that it works again nor that it does not.
    ...(isCut ? before.filter(({ kind, subject }) => isOfRuns(kind) && subject === '') : []),
    ...(overview === null || isCut ? [] : ofRun(overview, found)),
    ...(overview?.missing ?? []).flatMap(({ entity, withheld }) =>
      withheld === 0
        ? []
        : [
            found('withheld-deletes', entity, lastEnded?.finishedAt ?? now, {
              text: withheldText(entity, withheld),
            }),
          ],
    ),
    ...withheldByAgeOf(connector, overview?.withheldByAge ?? []).map(({ entity, withheld }) =>
      found('withheld-retention', entity, now, {
        text: withheldItemsText([entity], withheld),
      }),
    ),
    ...(overview === null ? [] : staleOf(connector, overview, before, found, nowMs)),
    ...(fields.get(name) ?? []).map((news) =>
      found('schema-change', newsName(news), news.since, {
        text: fieldText(news),
      }),
    ),
  ];
}

type Found = (kind: ConditionKind, subject: string, since: Instant, detail: Detail) => FoundCondition;

export function isOfRuns(kind: string): boolean {
  return kind === 'failed' || kind === 'incomplete';
}

/** Codes of listings that no later run reads before a person has changed something. */
const forPerson: ReadonlySet<ErrorCode> = new Set(['AUTH_FAILED', 'FORBIDDEN', 'SCHEMA_CHANGED'] as const);

/** What the newest run that ended found. */
function ofRun(
  { lastEnded, error, failures, unproven }: ConnectorOverview,
  found: Found,
): readonly FoundCondition[] {
  if (lastEnded === null) return [];
  const at = lastEnded.finishedAt ?? lastEnded.startedAt;
  if (lastEnded.state === 'failed') {
    const failed =
      error === null
        ? { text: 'It stopped on an error.', needsPerson: true }
        : { text: `${error.message} (${error.code})`, needsPerson: error.recovery !== 'retry' };
    return [found('failed', '', at, failed)];
  }
  const listings = unproven.reduce((sum, one) => sum + one.listings, 0);
  const why = [
    ...(lastEnded.state === 'degraded'
      ? [
          `Some listings failed${failures.length === 0 ? '' : ` (${failures.map(({ code }) => code).join(', ')})`}.`,
        ]
      : []),
    ...(listings === 0 ? [] : [`${counted(listings, 'listing')} may have records that did not come.`]),
  ];
  const needsPerson = failures.some(({ code, recovery }) => recovery === 'stop' || forPerson.has(code));
  return why.length === 0 ? [] : [found('incomplete', '', at, { text: why.join(' '), needsPerson })];
}

/** Nothing is stale before the first run has ended, and nothing gets stale that a person has paused. */
function staleOf(
  connector: Pick<ConnectorSettings, 'entities'>,
  { lastEnded, paused, freshness }: ConnectorOverview,
  before: readonly FoundCondition[],
  found: Found,
  nowMs: number,
): readonly FoundCondition[] {
  if (lastEnded === null) return [];
  const was = new Set(before.flatMap(({ kind, subject }) => (kind === 'stale' ? [subject] : [])));
  return freshnessOf(connector, freshness).flatMap(({ entity, asOf, freshWithinMs }) => {
    if (freshWithinMs === null || (paused !== null && !was.has(entity))) return [];
    if (asOf === null) {
      const text = `${entity} was never read completely.`;
      return [found('stale', entity, lastEnded.finishedAt ?? lastEnded.startedAt, { text })];
    }
    const dueMs = Date.parse(asOf) + freshWithinMs;
    if (nowMs <= dueMs) return [];
    const text = `${entity} is as of ${asOf}; it may be ${roughly(freshWithinMs)} old.`;
    return [found('stale', entity, instant(dueMs), { text })];
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
    return [
      ...others,
      { connector: '', kind: 'config-refused', subject: file, since: instant(nowMs), detail },
    ];
  }
  const was = refusedConfig(conditions, file);
  // What a worker elsewhere has refused is over with its own reload, or where a worker begins with the config.
  return was === undefined || isStart || detailOf(was).host === host ? others : [...others, was];
}

/** The condition that a config was refused; undefined: it was not. */
export function refusedConfig(
  conditions: FoundState['conditions'],
  file: string,
): FoundCondition | undefined {
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
  const detail = JSON.stringify(failureOf(ended.error));
  return [
    ...others,
    { connector: '', kind: 'publication-failed', subject: ended.target, since: instant(nowMs), detail },
  ];
}

export function failureOf(error: unknown): Detail {
  if (!(error instanceof SyncError)) {
    const message = error instanceof Error ? error.message : String(error);
    return { text: `${printableWithin(message, 1_000)} (INTERNAL)`, needsPerson: true };
  }
  const { message, code, recovery } = error;
  return { text: `${printableWithin(message, 1_000)} (${code})`, needsPerson: recovery !== 'retry' };
}
