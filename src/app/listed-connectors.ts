import { instant, type Instant } from '../core/clock.ts';
import { healthWords } from '../core/health.ts';
import type { ConnectorSettings } from '../settings/settings.ts';
import type { RunFacts } from '../sinks/ledger-reader.ts';
import type { ConnectorOverview } from '../sinks/sink-access.ts';
import { type ConnectorHealth, countWords, healthOf } from './connector-health.ts';
import { nextRunOf, overviewOf, readSignIns } from './connector-states.ts';
import type { WatchedSinks } from './watch-sinks.ts';

/** A connector as the sinks know it. */
export interface KnownConnector {
  readonly connector: ConnectorSettings;
  readonly overview: ConnectorOverview | null;
  readonly health: ConnectorHealth;
  /** Its newest runs, newest first; without them no reader learns since when it fails. */
  readonly runs: readonly RunFacts[];
}

export type ListedConnector = Omit<KnownConnector, 'runs'>;

/** A health word, or the connectors that need a person. */
export const listedStates = [...healthWords, 'needs-you'] as const;
export const listedOrders = ['health', 'name', 'age', 'rows', 'run', 'next'] as const;
export type ListedOrder = (typeof listedOrders)[number];

/** `q`: part of a connector's name, or of its definition's or sink's. `state` null: all. `page` counts from 1. */
interface ListQuery {
  readonly q: string;
  readonly state: (typeof listedStates)[number] | null;
  readonly sort: ListedOrder;
  readonly page: number;
}

/**
 * Connectors that a filter matches, according to the ledgers' overviews and the sign-ins, which are cheap to read for
 * all connectors. `all`: those whose sinks can be read; `named`: those of them that match `q`.
 */
export async function matchingConnectors(
  connectors: readonly ConnectorSettings[],
  watched: WatchedSinks,
  { q, state }: Pick<ListQuery, 'q' | 'state'>,
  nowMs: number,
) {
  const { overviews, unreadable } = await watched.overviews();
  const readable = connectors.filter(({ sink }) => overviews.has(sink.name));
  const signIns = await readSignIns(readable);
  const all = readable.map((connector): ListedConnector => {
    const overview = overviewOf(overviews, connector);
    const health = healthOf(connector, overview, nowMs, signIns.get(connector.name));
    return { connector, overview, health };
  });
  const text = q.trim().toLowerCase();
  const named = all.filter(({ connector: { name, definition, sink } }) =>
    [name, definition.name, sink.name].some((one) => one.toLowerCase().includes(text)),
  );
  const matching = named.filter(
    ({ health }) => state === null || (state === 'needs-you' ? health.needsPerson : health.word === state),
  );
  return { all, named, matching, unreadable };
}

const perPage = 50;
const mostNeeds = 8;
/** Runs of each shown connector at most. */
export const recentRuns = 20;

/** A page of connectors, filtered and sorted; what is not in the overviews is read for the shown ones alone. */
export async function listConnectors(
  connectors: readonly ConnectorSettings[],
  watched: WatchedSinks,
  query: ListQuery,
  nowMs: number,
) {
  const found = await matchingConnectors(connectors, watched, query, nowMs);
  const { all, named, unreadable } = found;
  const orders = ordersAt(nowMs);
  const matching = found.matching.sort(orders[query.sort]);
  const pages = Math.max(1, Math.ceil(matching.length / perPage));
  const at = Math.min(query.page, pages);
  const shown = matching.slice((at - 1) * perPage, at * perPage);
  const needing = all.filter(({ health }) => health.needsPerson).sort(orders.health);
  const needs = needing.slice(0, mostNeeds);
  const healing = all.filter(
    ({ health }) => !health.needsPerson && !health.words.has('paused') && health.troubles.length > 0,
  );
  const asked = new Set(
    [...shown, ...needs, ...healing.slice(0, mostNeeds)].map(({ connector }) => connector),
  );
  const runs = await watched.recentRuns([...asked], recentRuns);
  const withRuns = (one: ListedConnector): KnownConnector => {
    return { ...one, runs: runs.get(one.connector.name) ?? [] };
  };
  return {
    query: { ...query, page: at },
    all,
    isAllFine: all.every(({ health }) => fineWords.has(health.word)),
    rows: all.reduce((sum, { overview }) => sum + (overview?.rows ?? 0), 0),
    oldest: oldestOf(all),
    nextRun: nextTimes(all, nowMs)[0] ?? null,
    /** Numbers of connectors that the text matches, by state. */
    counts: countStates(named),
    total: matching.length,
    paused: matching.filter(({ overview }) => (overview?.paused ?? null) !== null).length,
    pages,
    shown: shown.map(withRuns),
    needing: needing.length,
    /** The first of those that need a person, whatever the filter. */
    needs: needs.map(withRuns),
    /** Connectors whose trouble the next run may resolve, and when the last of them runs. */
    healing: { connectors: healing.map(withRuns), until: nextTimes(healing, nowMs).at(-1) ?? null },
    unreadable: unreadable.map(({ sink: { name }, problem }) => {
      return { sink: name, problem, connectors: connectors.filter(({ sink }) => sink.name === name).length };
    }),
  };
}

const fineWords: ReadonlySet<string> = new Set(['ok', 'new', 'running', 'paused'] as const);

/** The connector nearest to a limit of age, or furthest beyond it; without limits, the one with the oldest data. */
function oldestOf(all: readonly ListedConnector[]): ListedConnector | null {
  const known = all.filter(
    ({ overview, health }) => health.stalest?.asOf && (overview?.paused ?? null) === null,
  );
  const limited = known.filter(({ health }) => health.stalest?.freshWithinMs);
  const dueMs = ({ health: { stalest } }: ListedConnector): number =>
    Date.parse(stalest?.asOf ?? '') + (stalest?.freshWithinMs ?? 0);
  const [oldest = null] = (limited.length > 0 ? limited : known).sort(
    (one, other) => dueMs(one) - dueMs(other),
  );
  return oldest;
}

/** Times of the next runs that have one, the first run first. */
function nextTimes(all: readonly ListedConnector[], nowMs: number): readonly Instant[] {
  const next = all.map(({ connector, overview }) => nextRunOf(connector, overview, nowMs));
  return next.flatMap((one) => (one.kind === 'at' ? [one.at] : [])).sort();
}

function countStates(named: readonly ListedConnector[]): ReadonlyMap<ListQuery['state'], number> {
  const words = countWords(named.map(({ health }) => health));
  return new Map<ListQuery['state'], number>([
    [null, named.length],
    ['needs-you', named.filter(({ health }) => health.needsPerson).length],
    ...healthWords.map((word) => [word, words[word]] as const),
  ]);
}

type Order = (left: ListedConnector, right: ListedConnector) => number;

/** The worst, the oldest, the newest and the largest come first, and the next to run. */
function ordersAt(nowMs: number): Readonly<Record<ListedOrder, Order>> {
  const by =
    (keyOf: (one: ListedConnector) => number | string): Order =>
    (left, right) =>
      compared(keyOf(left), keyOf(right)) || compared(left.connector.name, right.connector.name);
  return {
    health: by(({ health }) => 2 * healthWords.indexOf(health.word) - Number(health.needsPerson)),
    name: by(() => 0),
    // Instants compare as texts; an entity that was never read is the oldest.
    age: by(({ health: { stalest } }) => stalest?.asOf ?? ''),
    run: by(({ overview }) => -Date.parse(overview?.lastRun?.startedAt ?? instant(0))),
    rows: by(({ overview }) => -(overview?.rows ?? 0)),
    next: by(({ connector, overview }) => {
      const next = nextRunOf(connector, overview, nowMs);
      if (next.kind === 'now') return instant(nowMs);
      return next.kind === 'at' || next.kind === 'overdue' ? next.at : next.kind;
    }),
  };
}

/** Both numbers, or both texts. */
function compared(left: number | string, right: number | string): number {
  return left === right ? 0 : left < right ? -1 : 1;
}
