import { canonicalJson } from '../core/canonical-json.ts';
import { instant, systemClock, type Instant } from '../core/clock.ts';
import { grouped } from '../core/grouped.ts';
import { type EntityName, isDeclaredName, type RunId } from '../core/names.ts';
import type { Params } from '../core/records.ts';
import { nextSlots } from '../settings/cron.ts';
import type { ConnectorSettings, LocalSettings } from '../settings/settings.ts';
import type { ChangesOfDay, EntityStatus, RunSummary, ScopeChange } from '../sinks/ledger-reader.ts';
import type { DriftRow } from '../sinks/readings.ts';
import { openExistingHistory } from '../sinks/registry.ts';
import type { ActionName } from '../sinks/requests.ts';
import { withoutKey } from '../sinks/run-report.ts';
import { healthOf } from './connector-health.ts';
import { freshnessOf, overviewOf } from './connector-states.ts';
import { isGone } from './find-run.ts';
import { type NotedRequest, requestsOf } from './user-actions.ts';
import { readStatuses, type StoredConnector } from './read-statuses.ts';
import type { WatchedSinks } from './watch-sinks.ts';

type ConnectorPast = Awaited<ReturnType<typeof readConnectorPast>>;
export type ReadConnector = Extract<Awaited<ReturnType<typeof readConnector>>, { kind: 'read' }>;

interface Asked {
  readonly nowMs: number;
  /** The visitor may see values and keys of records. */
  readonly maySee: boolean;
  /** Length of each list at most. */
  readonly shown: number;
}

/**
 * Data that `status`, `schema diff`, `runs` and `actions` show of one connector, the newest `shown` of each list;
 * `unreadable`: why its sink cannot be read.
 */
export async function readConnector(
  settings: LocalSettings,
  connector: ConnectorSettings,
  watched: WatchedSinks,
  { nowMs, maySee, shown }: Asked,
) {
  const { overviews, unreadable } = await watched.overviews();
  const away = unreadable.find(({ sink }) => sink.name === connector.sink.name);
  if (away !== undefined) return { kind: 'unreadable', problem: away.problem } as const;
  const overview = overviewOf(overviews, connector);
  const [known] = await readStatuses([connector], overviews, { ...systemClock, now: () => nowMs });
  const stored = known === undefined || maySee ? known : withoutValues(known);
  const past = await readConnectorPast(connector, shown, instant(nowMs - mostDays * dayMs));
  const [newest] = past.runs;
  const holder = stored?.status?.lastHolder;
  // Its process was on this machine and has ended: the next run resumes from what it stored.
  const isLost = holder !== undefined && isGone(holder);
  return {
    kind: 'read',
    connector,
    overview,
    health: stored?.health ?? healthOf(connector, overview, nowMs),
    stored: stored ?? null,
    entities: stored === undefined ? [] : entityTree(connector, stored),
    past,
    changes: changesOf(past.byDay, nowMs),
    tooShort: limitTooShort(connector, nowMs),
    /** Progress of the current run; null: there is none. */
    running: newest?.state === 'running' ? { run: newest, counts: past.counts, isLost } : null,
    targets: [...settings.publish.values()].filter((target) => target.connectors.includes(connector)),
  } as const;
}

const noChangesByDay = {
  scopeChanges: [] as readonly ScopeChange[],
  byDay: { changes: [] as readonly ChangesOfDay[], oldestKept: null as Instant | null },
};

/**
 * History of one connector, each list newest first and at most `limit` long. `counts`: the work of the newest run so
 * far. `byDay`: changes since then, and `scopeChanges`; both empty without it.
 */
export async function readConnectorPast(
  { name, sink }: ConnectorSettings,
  limit: number,
  changesSince?: Instant,
) {
  await using history = await openExistingHistory(sink);
  const runs = (await history?.runs({ connector: name, limit })) ?? [];
  const [newest] = runs;
  return {
    runs,
    counts: newest === undefined ? [] : ((await history?.counts(newest.run)) ?? []),
    actions: (await history?.actions({ connector: name, limit })) ?? [],
    drift: (await history?.drift(name)) ?? [],
    ...(changesSince === undefined
      ? noChangesByDay
      : {
          scopeChanges: (await history?.scopeChanges(name, limit)) ?? [],
          byDay: (await history?.changes(name, changesSince)) ?? noChangesByDay.byDay,
        }),
  };
}

/** Without the keys and values that failures, doubts and refused records name, for who may not see values. */
function withoutValues(stored: StoredConnector): StoredConnector {
  const { status, failures, fileFailures, quarantine } = stored;
  const withoutParams = <One>(one: One) => ({ ...one, params: {} });
  const entities = (status?.entities ?? []).map((one) => {
    return { ...one, partMissing: one.partMissing && withoutParams(withoutKey(one.partMissing)) };
  });
  return {
    ...stored,
    status: status && { ...status, entities },
    failures: failures.map(withoutParams),
    fileFailures: fileFailures.map(withoutParams),
    quarantine: quarantine.map((one) => ({ ...one, detail: '' })),
  };
}

const dayMs = 86_400_000;
const mostDays = 30;

/** Rows that changed on one day. */
export type DayChanges = Pick<ChangesOfDay, 'added' | 'changed' | 'deleted'>;
export const noChanges: DayChanges = { added: 0, changed: 0, deleted: 0 };

/** Changes of all entities and of each by day, the last day today. Days whose runs may not all be kept are left out. */
function changesOf({ changes, oldestKept }: ConnectorPast['byDay'], nowMs: number) {
  const days = Array.from({ length: mostDays }, (_, index) =>
    instant(nowMs - (mostDays - 1 - index) * dayMs).slice(0, 10),
  ).filter((day, index) => oldestKept === null || day > oldestKept || index === mostDays - 1);
  const by = (of: readonly ChangesOfDay[]): readonly (DayChanges | undefined)[] => {
    const ofDay = grouped(of, ({ day }) => day);
    return days.map((day) => ofDay.get(day)?.reduce(bothChanges, noChanges));
  };
  const byEntity = grouped(changes, ({ entity }) => entity);
  return {
    days,
    all: by(changes),
    of: (entity: EntityName) => by(byEntity.get(entity) ?? []),
    isCut: days.length < mostDays,
  };
}

function bothChanges(one: DayChanges, { added, changed, deleted }: DayChanges): DayChanges {
  return { added: one.added + added, changed: one.changed + changed, deleted: one.deleted + deleted };
}

/**
 * The entity whose limit of age is shorter than the time between two runs of the schedule, so that it gets too old
 * between them; null: the schedule keeps every limit.
 */
function limitTooShort(connector: ConnectorSettings, nowMs: number) {
  const { schedule } = connector;
  if (schedule === null) return null;
  const [shortest] = freshnessOf(connector)
    .flatMap(({ entity, freshWithinMs: limitMs }) => (limitMs === null ? [] : [{ entity, limitMs }]))
    .toSorted((one, other) => one.limitMs - other.limitMs);
  const slots = schedule.kind === 'every' ? [] : nextSlots(schedule, nowMs, comingRuns);
  const pausesMs = slots.map((slot, index) => slot - (slots[index - 1] ?? slot));
  const betweenMs = schedule.kind === 'every' ? schedule.everyMs : Math.max(0, ...pausesMs);
  return shortest !== undefined && shortest.limitMs < betweenMs ? { ...shortest, betweenMs } : null;
}

/** Number of next runs that are compared: a week of a pattern that runs twice a day. */
const comingRuns = 15;

/**
 * Entities below those that lead to them, then stored data of others. `depth`: number of entities that lead to it.
 * `status` null: nothing of it is stored yet. `completeness`: of an entity without its own, that of the one above it.
 */
export function entityTree(
  { entities, definition }: ConnectorSettings,
  { status: stored }: Pick<StoredConnector, 'status'>,
) {
  const statusOf = new Map((stored?.entities ?? []).map((one) => [one.entity, one]));
  const placed = new Map<EntityName, PlacedEntity>();
  const place = (entity: EntityName, depth: number, above: EntityStatus['completeness']): void => {
    if (placed.has(entity)) return;
    const status = statusOf.get(entity) ?? null;
    placed.set(entity, { entity, depth, status, completeness: status?.completeness ?? above });
    const own = status?.completeness ?? null;
    const elements = definition.entities.get(entity)?.explodedTable?.entity;
    if (elements !== undefined && isDeclaredName(elements)) place(elements, depth + 1, own);
    for (const [name, { parents }] of entities) if (parents[0] === entity) place(name, depth + 1, own);
  };
  for (const [name, { parents }] of entities) {
    if (parents[0] === undefined || !entities.has(parents[0])) place(name, 0, null);
  }
  for (const name of [...entities.keys(), ...statusOf.keys()]) place(name, 0, null);
  return [...placed.values()];
}

export interface PlacedEntity extends Pick<EntityStatus, 'entity' | 'completeness'> {
  readonly depth: number;
  readonly status: EntityStatus | null;
}

/** Runs in a row, up to the newest, in which this part failed, and the start of the first of them. */
export function failedRuns(
  { runs }: Pick<ConnectorPast, 'runs'>,
  part: { readonly entity: EntityName; readonly params: Params },
) {
  const params = canonicalJson(part.params);
  const isOf = ({ report }: RunSummary): boolean =>
    report?.failures.some((one) => one.entity === part.entity && canonicalJson(one.params) === params) ===
    true;
  const ended = runs.filter(({ kind, report }) => kind === 'sync' && report !== null);
  const good = ended.findIndex((run) => !isOf(run));
  const failed = ended.slice(0, good === -1 ? undefined : good);
  return { times: failed.length, since: failed.at(-1)?.startedAt ?? null };
}

/** Kinds of events, as an address may choose them. */
export const eventKinds = ['runs', 'people', 'settings', 'fields'] as const;
type EventKind = (typeof eventKinds)[number];

export type PastEvent = { readonly at: Instant } & (
  | { readonly kind: 'run'; readonly run: RunSummary; readonly who: string | null; readonly isPlain: boolean }
  | { readonly kind: 'act'; readonly request: NotedRequest }
  | { readonly kind: 'scope'; readonly change: ScopeChange }
  /** Fields that came for the first time in one run. */
  | { readonly kind: 'fields'; readonly rows: readonly DriftRow[] }
);

/** Events of a connector, newest first. `show` null: all kinds. */
export function pastEvents(
  { runs, actions, drift, scopeChanges }: Pick<ConnectorPast, 'runs' | 'actions' | 'drift' | 'scopeChanges'>,
  show: EventKind | null,
): readonly PastEvent[] {
  const has = (kind: EventKind): boolean => show === null || show === kind;
  const listed = new Set(has('runs') ? runs.map(({ run }) => run) : []);
  // The line of a run names who asked for it.
  const starts = new Map<RunId | null, string>(
    actions.flatMap(({ run, action, who }) => (startActs.has(action) ? [[run, who] as const] : [])),
  );
  const acts = actions.filter(({ run, action }) => {
    if (startActs.has(action) && run !== null && listed.has(run)) return false;
    return has('people') || (has('settings') && settingsActs.has(action));
  });
  const fields = grouped(drift, ({ entity, kind, firstRun }) => `${entity} ${kind} ${firstRun}`);
  const events = [
    ...(has('runs') ? runs.map((run, index) => runEvent(run, starts.get(run.run) ?? null, index)) : []),
    ...requestsOf(acts).map((request) => ({ kind: 'act', at: request.at, request }) as const),
    ...(has('settings')
      ? scopeChanges.map((change) => ({ kind: 'scope', at: change.startedAt, change }) as const)
      : []),
    ...(has('fields')
      ? [...fields.values()].map(
          (rows) => ({ kind: 'fields', at: rows[0]?.firstSeenAt ?? '', rows }) as const,
        )
      : []),
  ];
  return events.toSorted((left, right) => (left.at < right.at ? 1 : left.at > right.at ? -1 : 0));
}

const startActs: ReadonlySet<ActionName> = new Set(['run-now', 'read-in-full', 'allow-deletes'] as const);
const settingsActs: ReadonlySet<ActionName> = new Set(['schedule', 'add', 'remove', 'adopt'] as const);

/** The newest runs stay in sight. */
const unfolded = 2;

function runEvent(run: RunSummary, who: string | null, index: number): PastEvent {
  const quiet = run.report?.entities.every(({ deleted, withheld }) => deleted + withheld === 0) === true;
  const isPlain = run.state === 'ok' && run.kind === 'sync' && quiet && who === null && index >= unfolded;
  return { kind: 'run', at: run.startedAt, run, who, isPlain };
}
