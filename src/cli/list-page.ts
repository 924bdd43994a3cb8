import type { Command } from 'commander';
import type { ConnectorSettings } from '../settings/settings.ts';
import { count } from '../telemetry/progress-text.ts';
import {
  countStates,
  statesOf,
  troubleStates,
  type StateCounts,
  overviewOf,
  type SinkOverview,
} from '../app/connector-states.ts';
import { wholeNumber } from './whole-number.ts';

/** The flags of a command that lists connectors. */
export interface ListFlags {
  readonly failing?: boolean;
  readonly stale?: boolean;
  readonly limit: string;
  readonly offset: string;
}

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

export function addListFlags(command: Command): Command {
  return command
    .option('--failing', 'only those whose newest run failed or left something out')
    .option('--stale', 'only those older than their freshWithin')
    .option('--limit <n>', 'show at most so many; 0: all', '100')
    .option('--offset <n>', 'leave out so many of the first', '0');
}

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
  const isAny = flags.failing !== true && flags.stale !== true;
  const matching = all.filter(
    ({ states }) =>
      isAny ||
      (flags.failing === true && states.has('failing')) ||
      (flags.stale === true && states.has('stale')),
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
  const isNarrowed = flags.failing === true || flags.stale === true;
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
