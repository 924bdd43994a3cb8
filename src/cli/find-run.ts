import { usage } from '../core/usage-error.ts';
import { openExistingHistory } from '../sinks/open-history.ts';
import { isRunId } from '../core/names.ts';
import type { LocalSettings, SinkSettings } from '../settings/settings.ts';
import type { LedgerReader, RunSummary } from '../sinks/ledger-reader.ts';

export interface FoundRun {
  readonly run: RunSummary;
  readonly sink: SinkSettings;
}

/** The run of that id, whichever sink holds it. Throws USAGE where none does. */
export function findRun(settings: LocalSettings, id: string, program: string): FoundRun {
  const [found] = fromEverySink(settings, (history, sink) => {
    const run = isRunId(id) ? history.run(id) : null;
    return run === null ? [] : [{ run, sink }];
  }).flat();
  if (found !== undefined) return found;
  throw usage(
    isRunId(id)
      ? `No sink of the config has a run ${id}. "${program} runs" lists the runs.`
      : `Expected the id of a run, got "${id}". "${program} runs" lists them.`,
  );
}

/** Each sink of the config that exists, once. */
export function fromEverySink<Result>(
  settings: LocalSettings,
  read: (history: LedgerReader, sink: SinkSettings) => Result,
): readonly Result[] {
  return [...settings.sinks.values()].flatMap((sink) => {
    using history = openExistingHistory(sink);
    return history === null ? [] : [read(history, sink)];
  });
}
