import { usage } from '../core/usage-error.ts';
import { openExistingHistory } from '../sinks/registry.ts';
import { isRunId } from '../core/names.ts';
import type { LocalSettings, SinkSettings } from '../settings/settings.ts';
import type { LedgerReader, RunSummary } from '../sinks/ledger-reader.ts';
import type { RunReport } from '../sinks/run-report.ts';

export interface FoundRun {
  readonly run: RunSummary;
  readonly sink: SinkSettings;
}

/** The run of that id, whichever sink holds it. Throws USAGE where none does. */
export async function findRun(settings: LocalSettings, id: string, program: string): Promise<FoundRun> {
  const found = (
    await fromEverySink(settings, async (history, sink) => {
      const run = isRunId(id) ? await history.run(id) : null;
      return run === null ? [] : [{ run, sink }];
    })
  ).flat()[0];
  if (found !== undefined) return found;
  throw usage(
    isRunId(id)
      ? `No sink of the config has a run ${id}. "${program} runs" lists the runs.`
      : `Expected the id of a run, got "${id}". "${program} runs" lists them.`,
  );
}

/** Each sink of the config that exists, once. */
export async function fromEverySink<Result>(
  settings: LocalSettings,
  read: (history: LedgerReader, sink: SinkSettings) => Promise<Result>,
): Promise<readonly Result[]> {
  const results: Result[] = [];
  for (const sink of settings.sinks.values()) {
    await using history = await openExistingHistory(sink);
    if (history !== null) results.push(await read(history, sink));
  }
  return results;
}

/** More than the ledger keeps. */
const mostRuns = 1000;

/**
 * The first reports of the same connectors, where those read everything; none where one is missing, or among `reports`.
 */
export async function firstReports(
  settings: LocalSettings,
  reports: readonly RunReport[],
): Promise<readonly RunReport[]> {
  const oldest = await fromEverySink(settings, async (history) => {
    const runs = reports.map(({ connector }) => history.runs({ connector, kind: 'sync', limit: mostRuns }));
    return (await Promise.all(runs)).flatMap((all) => all.at(-1) ?? []);
  });
  const first = oldest.flat().flatMap(({ state, report }) => (state === 'ok' ? (report ?? []) : []));
  const isEarlier = first.every(({ run }) => reports.every((report) => report.run !== run));
  return isEarlier && first.length === reports.length ? first : [];
}
