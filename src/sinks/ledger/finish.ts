import { instant } from '../../core/clock.ts';
import { SyncError } from '../../core/errors.ts';
import type { EntityName, RunId } from '../../core/names.ts';
import { accountingError } from '../decisions/add-up.ts';
import type { RunReport } from '../run-report.ts';
import { writeJson } from './json-text.ts';
import type { CurrentRun, HeldConnector, Ledger } from './ledger.ts';
import type { ForgottenPartition } from './retention.ts';
import { dropSeen } from './seen-rows.ts';
import { inRun } from './transact.ts';

/**
 * Ends the run: closes what grew, stores the report, prunes. When the report's counts are not those of the ledger the
 * run is stored as `failed`, and `SyncError` ACCOUNTING is thrown.
 */
export async function finishRun(
  ledger: Ledger,
  held: HeldConnector,
  run: RunId,
  report: RunReport,
): Promise<void> {
  const error = await inRun(ledger, held, run, ({ current }) => {
    const wrong = accountingError(run, ledger.counts.ofRun.all(run), report.entities);
    const stored = wrong === null ? report : { ...report, outcome: 'failed' as const, error: wrong };
    ledger.store.endRun(held.connector);
    ledger.runs.finish(run, stored.outcome, report.finishedAt, writeJson(stored));
    if (stored.outcome === 'ok' || stored.outcome === 'degraded') {
      dropSeen(ledger.db, held.connector, current.window);
      if (current.kind === 'sync') {
        noteWhole(ledger, held, current, stored);
        ledger.retention.forgetPartitions(held.connector, current.keepPartitionsSince, (partition) =>
          isHome(current, partition),
        );
      } else {
        endWindow(ledger, held, current, stored);
      }
    }
    ledger.retention.forgetRuns(held.connector, ledger.clock.now());
    ledger.day.prune(held.connector, instant(ledger.clock.now()));
    return wrong;
  });
  held.run = null;
  // Moves the log into the file where nobody reads it just now; never waits for a reader.
  ledger.db.pragma('wal_checkpoint(PASSIVE)');
  if (error !== null) {
    throw new SyncError(error.message, { code: error.code, recovery: error.recovery, context: { run } });
  }
}

/** Rows of an entity that keeps them whatever happens need no home; those of one that this run does not read are left to another. */
function isHome({ tables, keeps }: CurrentRun, { id, entity }: ForgottenPartition): boolean {
  const planned = tables.get(entity);
  if (planned === undefined) return true;
  return !keeps.has(entity) && planned.table.liveRows(id, 0, 1).length > 0;
}

function endWindow(
  ledger: Ledger,
  { connector }: HeldConnector,
  { run, window, backfill }: CurrentRun,
  { outcome, finishedAt }: RunReport,
): void {
  const { db, transitions } = ledger;
  transitions.dropWindow.run({ connector, window });
  if (backfill === '' || outcome !== 'ok') return;
  db.prepare(
    `INSERT INTO _sync_windows (connector, backfill, window, run, finished_at) VALUES (?, ?, ?, ?, ?)
     ON CONFLICT (connector, backfill, window) DO UPDATE SET run = excluded.run, finished_at = excluded.finished_at`,
  ).run(connector, backfill, window, run, finishedAt);
}

/** Rows made of an entity's elements come from its walks: their table stands behind the entity's in the plan. */
function noteWhole(
  ledger: Ledger,
  { connector }: HeldConnector,
  { run, tables, entities, isFull }: CurrentRun,
  report: RunReport,
): void {
  const agreeing = report.entities.filter(
    ({ isWhole, withheld, pending }) => isFull && isWhole && withheld + pending === 0,
  );
  for (const { entity } of agreeing) ledger.tables.agreed(connector, entity);
  const whole = new Set(report.entities.filter(({ isWhole }) => isWhole).map(({ entity }) => entity));
  let walked: EntityName | null = null;
  for (const [entity, { table }] of tables) {
    walked = entities.has(entity) || walked === null ? entity : walked;
    if (!whole.has(entity)) continue;
    ledger.tables.wasRead(connector, entity, run, walked);
    table.giveUpLost();
  }
}
