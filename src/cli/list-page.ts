import {
  readOverview,
  type UnreadableSink,
  countStates,
  statesOf,
  troubleStates,
  type StateCounts,
  overviewOf,
  type SinkOverview,
} from '../app/connector-states.ts';
import { sinksOf } from '../settings/chosen-connectors.ts';
import type { ConnectorSettings } from '../settings/settings.ts';
import { counted, count } from '../telemetry/format.ts';
import type { FlagsOf } from './command.ts';
import { errorDocument } from './output/report-error.ts';
import { wholeNumber } from './parse-flags.ts';

/** The connectors that a list shows, and how those that it is about stand. */
interface ListPage {
  readonly connectors: readonly ConnectorSettings[];
  readonly offset: number;
  /** That match the flags, on this page or not. */
  readonly total: number;
  /** Of all that were named, whether they match the flags or not. */
  readonly counts: StateCounts;
}

const most = 1_000_000;

/** The options of a command that lists connectors. */
export const listOptions = {
  '--failing': 'only those whose newest run failed or left something out',
  '--stale': 'only those older than their freshWithin',
  '--limit <n>': { text: 'show at most so many; 0: all', default: '100' },
  '--offset <n>': { text: 'leave out so many of the first', default: '0' },
} as const;

export type ListFlags = FlagsOf<typeof listOptions>;

/** Throws USAGE for a flag that is no number. */
export function pageOf(
  connectors: readonly ConnectorSettings[],
  overviews: ReadonlyMap<string, SinkOverview>,
  flags: ListFlags,
  nowMs: number,
): ListPage {
  const limit = wholeNumber('--limit', flags.limit, most);
  const offset = wholeNumber('--offset', flags.offset, most);
  const all = connectors.map((connector) => ({
    connector,
    states: statesOf(connector, overviewOf(overviews, connector), nowMs),
  }));
  const isAny = !flags.failing && !flags.stale;
  const matching = all.filter(
    ({ states }) => isAny || (flags.failing && states.has('failing')) || (flags.stale && states.has('stale')),
  );
  return {
    connectors: matching
      .slice(offset, limit === 0 ? undefined : offset + limit)
      .map(({ connector }) => connector),
    offset,
    total: matching.length,
    counts: countStates(all.map(({ states }) => states)),
  };
}

/** What is not on the page; empty where everything is. */
export function pageRemarks(
  { connectors, offset, total, counts }: ListPage,
  flags: ListFlags,
): readonly string[] {
  const isNarrowed = flags.failing || flags.stale;
  if (connectors.length === total && !isNarrowed) return [];
  const troubles = troubleStates.flatMap((state) =>
    counts[state] === 0 ? [] : [`${count(counts[state])} ${state}`],
  );
  const last = offset + connectors.length;
  return [
    `${shownText(connectors.length, offset, total)} Of all: ${[`${count(counts.ok)} ok`, ...troubles].join(', ')}.`,
    ...(last < total ? [`"--offset ${last}" shows the next ones, "--limit 0" all.`] : []),
  ];
}

function shownText(shown: number, offset: number, total: number): string {
  if (shown === total) return `${count(total)} shown.`;
  if (shown === 0) return `None shown: there are ${count(total)}, and --offset leaves out ${count(offset)}.`;
  return `${count(offset + 1)} to ${count(offset + shown)} of ${count(total)} shown.`;
}

/** The sinks that a list of connectors could not read, in its JSON. */
export function unreadableSinkDocuments(unreadable: readonly UnreadableSink[]): readonly object[] {
  return unreadable.map(({ sink, connectors, error }) => ({
    sink: sink.name,
    connectors: connectors.map(({ name }) => name),
    error: errorDocument(error),
  }));
}

/** The same, below the list. */
export function unreadableSinkLines(unreadable: readonly UnreadableSink[]): readonly string[] {
  return unreadable.map(
    ({ sink, connectors, error }) =>
      `Not shown: ${counted(connectors.length, 'connector')} of the sink "${sink.name}". ${error.message}`,
  );
}

/** Of the sinks that can be read: what is wrong with another one is reported where the command opens it. */
export async function knownOverviews(
  connectors: readonly ConnectorSettings[],
): Promise<ReadonlyMap<string, SinkOverview>> {
  const overviews = new Map<string, SinkOverview>();
  for (const sink of sinksOf(connectors)) {
    try {
      overviews.set(sink.name, await readOverview(sink));
    } catch {
      // Reported where the command opens it.
    }
  }
  return overviews;
}
