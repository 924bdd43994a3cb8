import { countWords, type ConnectorHealth } from '../app/connector-health.ts';
import { healthWords } from '../core/health.ts';
import { overviewOf } from '../app/connector-states.ts';
import { readSignIns } from '../app/read-sign-ins.ts';
import type { WatchedSinks } from '../app/watch-sinks.ts';
import type { ConnectorSettings } from '../settings/settings.ts';
import type { ConnectorOverview } from '../sinks/ledger-reader.ts';
import { shownRuns } from './run-bars.ts';

/** What the address asks for, as `?q=news&state=failed&sort=age&page=2`. */
export interface OverviewQuery {
  /** Part of a connector's name, or of its definition's or sink's; empty: all. */
  readonly q: string;
  readonly state: OverviewState | null;
  readonly sort: OverviewSort;
  /** From 1. */
  readonly page: number;
}

/** A health word, or those with something that needs a person, or that heals by itself. */
export const overviewStates = [...healthWords, 'attention', 'healing'] as const;
export type OverviewState = (typeof overviewStates)[number];
export const overviewSorts = ['health', 'name', 'age', 'run', 'rows'] as const;
export type OverviewSort = (typeof overviewSorts)[number];

const perPage = 50;

export interface ListedConnector {
  readonly connector: ConnectorSettings;
  readonly overview: ConnectorOverview | null;
  readonly health: ConnectorHealth;
}

export type OverviewData = Awaited<ReturnType<typeof readOverviewPage>>;

/**
 * Those that a filter leaves, by what the ledgers' overviews and the sign-ins say, which is cheap for all connectors.
 * `named`: by `q` alone.
 */
export async function matchingConnectors(
  connectors: readonly ConnectorSettings[],
  watched: WatchedSinks,
  { q, state }: Pick<OverviewQuery, 'q' | 'state'>,
  nowMs: number,
) {
  const { overviews, ...sinks } = await watched.overviews();
  const away = new Set(sinks.unreadable.map(({ sink }) => sink.name));
  const readable = connectors.filter(({ sink }) => !away.has(sink.name));
  const signIns = await readSignIns(readable);
  const all = readable.map((connector): ListedConnector => {
    const overview = overviewOf(overviews, connector);
    const health = watched.healthOf(connector, overview, nowMs, signIns.get(connector.name));
    return { connector, overview, health };
  });
  const named = all.filter((one) => matchesText(one, q.trim().toLowerCase()));
  return {
    named,
    matching: named.filter(({ health }) => matchesState(health, state)),
    unreadable: sinks.unreadable,
  };
}

/** Filters and sorts all connectors; everything else is read for the shown ones alone. */
export async function readOverviewPage(
  connectors: readonly ConnectorSettings[],
  watched: WatchedSinks,
  query: OverviewQuery,
  nowMs: number,
) {
  const { named, unreadable, ...found } = await matchingConnectors(connectors, watched, query, nowMs);
  const matching = found.matching.sort(
    (left, right) => orders[query.sort](left, right) || byName(left, right),
  );
  const pages = Math.max(1, Math.ceil(matching.length / perPage));
  const page = Math.min(query.page, pages);
  const shown = matching.slice((page - 1) * perPage, page * perPage);
  const recent = await watched.recentHistory(
    shown.map(({ connector }) => connector),
    shownRuns,
    nowMs,
  );
  return {
    query: { ...query, page },
    shown: shown.map((one) => ({
      ...one,
      runs: recent.get(one.connector.name)?.runs ?? [],
      today: recent.get(one.connector.name)?.today ?? null,
    })),
    total: matching.length,
    pages,
    /** Of those that the text matches, by word. */
    counts: countWords(named.map(({ health }) => health)),
    /** Of those that the text matches. */
    named,
    unreadable: unreadable.map(({ sink, problem }) => ({
      sink: sink.name,
      problem,
      connectors: connectors.filter((one) => one.sink.name === sink.name).length,
    })),
  };
}

function matchesText({ connector: { name, definition, sink } }: ListedConnector, text: string): boolean {
  return text === '' || [name, definition.name, sink.name].some((one) => one.toLowerCase().includes(text));
}

export function matchesState(health: ConnectorHealth, state: OverviewState | null): boolean {
  if (state === null) return true;
  if (state === 'attention') return health.needsPerson;
  if (state === 'healing') return health.troubles.some(({ isForPerson }) => !isForPerson);
  return health.word === state || (state === 'running' && health.isRunning);
}

type Order = (left: ListedConnector, right: ListedConnector) => number;

const byName: Order = (left, right) => (left.connector.name < right.connector.name ? -1 : 1);

/** The worst, the oldest, the newest and the largest come first. */
const orders: Readonly<Record<OverviewSort, Order>> = {
  health: (left, right) => severity(right) - severity(left),
  name: () => 0,
  age: (left, right) => compared(ageKey(left), ageKey(right)),
  run: (left, right) => compared(runKey(right), runKey(left)),
  rows: (left, right) => (right.overview?.rows ?? 0) - (left.overview?.rows ?? 0),
};

function severity({ health }: ListedConnector): number {
  return (health.needsPerson ? healthWords.length : 0) - healthWords.indexOf(health.word);
}

/** Instants compare as texts; what was never read is the oldest. */
function ageKey({ health: { stalest } }: ListedConnector): string {
  return stalest?.asOf ?? '';
}

function runKey({ overview }: ListedConnector): string {
  return overview?.lastRun?.startedAt ?? '';
}

function compared(left: string, right: string): number {
  return left === right ? 0 : left < right ? -1 : 1;
}
