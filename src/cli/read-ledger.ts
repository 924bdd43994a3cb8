import { openExistingHistory } from '../sinks/open-history.ts';
import type { ConnectorSettings } from '../settings/settings.ts';
import type { PausedConnector, RunSummary } from '../sinks/ledger-reader.ts';

/** What a schedule depends on; nothing of it where there is no sink yet. */
export function readLedger({ name, sink }: ConnectorSettings): {
  readonly paused: PausedConnector | null;
  /** The newest sync: a backfill is no run that was due. */
  readonly lastRun: RunSummary | null;
} {
  using history = openExistingHistory(sink);
  if (history === null) return { paused: null, lastRun: null };
  return {
    paused: history.pauses().find(({ connector }) => connector === name) ?? null,
    lastRun: history.runs({ connector: name, kind: 'sync', limit: 1 })[0] ?? null,
  };
}
