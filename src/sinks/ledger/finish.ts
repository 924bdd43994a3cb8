import { SyncError } from '../../core/errors.ts';
import type { RunId } from '../../core/names.ts';
import type { RunReport } from '../sink.ts';
import { writeJson } from './json-text.ts';
import type { HeldConnector, Ledger } from './ledger.ts';
import { inRun } from './transact.ts';

/**
 * Ends the run: closes what grew, stores the report, prunes. When the report's counts are not those of the ledger the
 * run is stored as `failed`, and `SyncError` ACCOUNTING is thrown.
 */
export function finishRun(ledger: Ledger, held: HeldConnector, run: RunId, report: RunReport): void {
  const error = inRun(ledger, held, run, () => {
    const wrong = accountingError(ledger, run, report);
    const stored = wrong === null ? report : { ...report, outcome: 'failed' as const, error: wrong };
    ledger.store.endRun(held.connector);
    ledger.runs.finish(run, stored.outcome, report.finishedAt, writeJson(stored));
    if (stored.outcome === 'ok' || stored.outcome === 'degraded') {
      ledger.dueWork.dropSeen(held.connector);
    }
    ledger.retention(held.connector, ledger.clock.now());
    return wrong;
  });
  held.run = null;
  // Moves the log into the file where nobody reads it just now; never waits for a reader.
  ledger.db.pragma('wal_checkpoint(PASSIVE)');
  if (error !== null) {
    throw new SyncError(error.message, { code: error.code, recovery: 'stop', context: { run } });
  }
}

function accountingError(
  ledger: Ledger,
  run: RunId,
  report: RunReport,
): { readonly code: 'ACCOUNTING'; readonly message: string } | null {
  const differences = ledger.counts.differences(run, report.entities);
  return differences.length === 0
    ? null
    : {
        code: 'ACCOUNTING',
        message:
          `The report of run ${run} does not agree with what was stored ` +
          `(fetched/filtered/quarantined/inserted/updated/duplicate/unchanged): ${differences.join('; ')}. ` +
          "This is a defect: report it with the run's log.",
      };
}
