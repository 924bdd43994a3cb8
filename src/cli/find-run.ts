import { openExistingHistory } from '../app.ts';
import { SyncError } from '../core/errors.ts';
import type { Settings, SinkSettings } from '../settings/settings.ts';
import type { LedgerReader, RunSummary } from '../sinks/ledger-reader.ts';

export interface FoundRun {
  readonly run: RunSummary;
  readonly sink: SinkSettings;
}

/** The run of that id, whichever sink holds it. Throws USAGE where none does. */
export function findRun(settings: Settings, id: string, program: string): FoundRun {
  const [found] = fromEverySink(settings, (history, sink) => {
    const run = history.runs({ limit: Number.MAX_SAFE_INTEGER }).find((one) => one.run === id);
    return run === undefined ? [] : [{ run, sink }];
  }).flat();
  if (found !== undefined) return found;
  throw new SyncError(`Expected the id of a run, got "${id}". "${program} runs" lists them.`, {
    code: 'USAGE',
    recovery: 'stop',
  });
}

/** Each sink of the config that exists, once. */
export function fromEverySink<Result>(
  settings: Settings,
  read: (history: LedgerReader, sink: SinkSettings) => Result,
): readonly Result[] {
  return [...settings.sinks.values()].flatMap((sink) => {
    using history = openExistingHistory(sink);
    return history === null ? [] : [read(history, sink)];
  });
}
