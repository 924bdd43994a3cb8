import { countWords, healthOf, type HealthCounts } from '../app/connector-health.ts';
import { healthWords, type Health } from '../core/health.ts';
import { overviewOf, readOverviewsOfReadable } from '../app/connector-states.ts';
import type { ConnectorSettings } from '../settings/settings.ts';
import { counted, count } from '../telemetry/format.ts';
import { type FlagsOf, wholeNumber } from './command.ts';
import { errorDocument, exitCodeOfError, gravestExitCode } from './output/exit-codes.ts';

const most = 1_000_000;

/** The options of a command that lists connectors. */
export const listOptions = {
  '--failing': 'only those that are failed or incomplete',
  '--late': 'only those with an entity older than its freshWithin',
  '--limit <n>': { text: 'show at most so many; 0: all', default: '100' },
  '--offset <n>': { text: 'leave out so many of the first', default: '0' },
} as const;

export type ListFlags = FlagsOf<typeof listOptions>;

/**
 * The connectors that a list shows, what is known of them, and how those that it is about stand. A sink that cannot be
 * read does not hide the others. Throws USAGE for a flag that is no number, and where no sink can be read.
 */
export async function openListPage(chosen: readonly ConnectorSettings[], flags: ListFlags, nowMs: number) {
  const { overviews, readable, unreadable } = await readOverviewsOfReadable(chosen);
  const limit = wholeNumber('--limit', flags.limit, most);
  const offset = wholeNumber('--offset', flags.offset, most);
  const all = readable.map((connector) => ({
    connector,
    health: healthOf(connector, overviewOf(overviews, connector), nowMs),
  }));
  const asked: readonly Health[] = [
    ...(flags.failing ? (['failed', 'incomplete'] as const) : []),
    ...(flags.late ? (['late'] as const) : []),
  ];
  const isNarrowed = asked.length > 0;
  const matching = all.filter(({ health }) => !isNarrowed || asked.some((word) => health.words.has(word)));
  const shown = matching.slice(offset, limit === 0 ? undefined : offset + limit);
  const total = matching.length;
  const counts = countWords(all.map(({ health }) => health));
  return {
    connectors: shown.map(({ connector }) => connector),
    /** Of a shown one, without its sign-in. */
    healthOf: (connector: ConnectorSettings) => healthOf(connector, overviewOf(overviews, connector), nowMs),
    overviews,
    /** In JSON: `total` match the flags, on this page or not; `counts` are of all that were named. */
    sums: { total, counts },
    /** The sinks that could not be read, in JSON. */
    unreadableSinks: unreadable.map(({ sink, connectors, error }) => ({
      sink: sink.name,
      connectors: connectors.map(({ name }) => name),
      error: errorDocument(error),
    })),
    /** Below the list: what is not on the page, and the sinks that could not be read. */
    remarks: [
      ...(shown.length < total || isNarrowed ? pageRemarks(shown.length, offset, total, counts) : []),
      ...unreadable.map(
        ({ sink, connectors, error }) =>
          `Not shown: ${counted(connectors.length, 'connector')} of the sink "${sink.name}". ${error.message}`,
      ),
    ],
    exitCode: gravestExitCode(unreadable.map(({ error }) => exitCodeOfError(error))),
  };
}

function pageRemarks(shown: number, offset: number, total: number, counts: HealthCounts): readonly string[] {
  const all = healthWords.flatMap((word) => (counts[word] === 0 ? [] : [`${count(counts[word])} ${word}`]));
  const last = offset + shown;
  return [
    `${shownText(shown, offset, total)} Of all: ${all.join(', ')}.`,
    ...(last < total ? [`"--offset ${last}" shows the next ones, "--limit 0" all.`] : []),
  ];
}

function shownText(shown: number, offset: number, total: number): string {
  if (shown === total) return `${count(total)} shown.`;
  if (shown === 0) return `None shown: there are ${count(total)}, and --offset leaves out ${count(offset)}.`;
  return `${count(offset + 1)} to ${count(offset + shown)} of ${count(total)} shown.`;
}
