import { instant } from '../../core/clock.ts';
import { SyncError } from '../../core/errors.ts';
import type { EntityName, RunId } from '../../core/names.ts';
import { accountingError } from '../decisions/add-up.ts';
import {
  agreesWithStored,
  isChainOver,
  isDoubted,
  keptSince,
  mostKept,
  readWhole,
} from '../decisions/end-run.ts';
import type { RunReport } from '../run-report.ts';
import { writeJson } from '../../core/json-text.ts';
import type { CurrentRun, HeldConnector, Ledger } from './ledger.ts';
import { dropGuests } from './deletes/sweep-rows.ts';
import { standing } from '../decisions/standing.ts';
import { dropSeen } from './store-rows.ts';
import { toSinkError } from '../sqlite-next/sink-error.ts';
import { storageFailure } from '../../sql/sqlite/sqlite-error.ts';
import { inRun } from './transact.ts';

/** Ends the run: closes what grew, stores the report, prunes. Throws ACCOUNTING, with the run stored as `failed`, where report and ledger differ. */
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
    ledger.runs.finish.run(stored.outcome, report.finishedAt, writeJson(stored), run);
    if (isChainOver(stored)) {
      dropSeen(ledger.db, held.connector, current.window);
      if (current.kind === 'sync') {
        noteWhole(ledger, held, current, stored);
        forgetPartitions(ledger, held, current);
      } else {
        endWindow(ledger, held, current, stored);
      }
    }
    if (isDoubted(stored)) ledger.runs.forbidContinuing.run(held.connector);
    forgetRuns(ledger, held);
    ledger.day.prune(held.connector, instant(ledger.clock.now()));
    return wrong;
  });
  held.run = null;
  foldLog(ledger);
  if (error !== null) {
    throw new SyncError(error.message, { code: error.code, recovery: error.recovery, context: { run } });
  }
}

/** Moves the log into the file as far as no reader uses it; never waits for a reader. Where the disk has no room, all is in the log: the run has ended well. */
function foldLog({ db, file }: Ledger): void {
  try {
    db.pragma('wal_checkpoint(PASSIVE)');
  } catch (error) {
    if (storageFailure(error)?.isFull !== true) throw toSinkError(error, file);
  }
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

function noteWhole(
  ledger: Ledger,
  { connector }: HeldConnector,
  { run, tables, entities, isFull }: CurrentRun,
  report: RunReport,
): void {
  for (const one of report.entities) {
    if (agreesWithStored(one, isFull)) ledger.tables.agreed.run(connector, one.entity);
  }
  for (const { entity, walked } of readWhole(report, tables.keys(), entities)) {
    ledger.tables.wasRead(connector, entity, run, walked);
    tables.get(entity)?.table.giveUpLost();
  }
}

/** Runs and quarantined records past their retention. The newest run always stays, and the newest sync with the run that began its chain. */
function forgetRuns({ db, clock }: Ledger, { connector }: HeldConnector): void {
  const since = keptSince(clock.now());
  const oldestKept = db
    .prepare<[string, number], number>(
      'SELECT number FROM _sync_runs WHERE connector = ? ORDER BY number DESC LIMIT 1 OFFSET ?',
    )
    .pluck()
    .get(connector, mostKept.runs - 1);
  const forgotten = `connector = :connector AND (number < :oldestKept OR started_at < :before)
    AND number NOT IN (SELECT max(number) FROM _sync_runs WHERE connector = :connector)
    AND number NOT IN (SELECT value FROM
      (SELECT number, origin FROM _sync_runs WHERE connector = :connector AND kind = 'sync' ORDER BY number DESC LIMIT 1),
      json_each(json_array(number, origin)))`;
  const which = { connector, oldestKept: oldestKept ?? 0, before: since.runs };
  db.prepare(`DELETE FROM _sync_counts WHERE run IN (SELECT run FROM _sync_runs WHERE ${forgotten})`).run(
    which,
  );
  db.prepare(`DELETE FROM _sync_runs WHERE ${forgotten}`).run(which);
  db.prepare('DELETE FROM _sync_quarantine WHERE connector = ? AND last_seen_at < ?').run(
    connector,
    since.quarantined,
  );
  db.prepare(
    `DELETE FROM _sync_quarantine WHERE id IN (
       SELECT id FROM _sync_quarantine WHERE connector = ? ORDER BY last_seen_at DESC, id DESC LIMIT -1 OFFSET ?)`,
  ).run(connector, mostKept.quarantined);
}

interface StalePartition {
  readonly id: number;
  readonly entity: EntityName;
  readonly foundAt: string;
  readonly isBelowRecord: 0 | 1;
}

/** Forgets partitions that nothing has led to or read for long, and abandoned windows. What is due stays, and homes of rows below a record, which go with it. */
function forgetPartitions(
  { db, transitions }: Ledger,
  { connector }: HeldConnector,
  current: CurrentRun,
): void {
  const since = current.keepPartitionsSince;
  transitions.abandon.run({ connector, since });
  const stale = db.prepare<[Readonly<Record<string, string | number>>], StalePartition>(
    `SELECT id, entity, parent_key IS NOT NULL AS isBelowRecord, found_at AS foundAt FROM _sync_partitions INDEXED BY _sync_partitions_found
     WHERE connector = :connector AND found_at < :since AND (found_at, id) > (:foundAt, :id)
       AND due_since IS NULL AND gone <> ${standing.ended}
       AND (sealed_at IS NULL OR sealed_at < :since)
       AND id NOT IN (SELECT base FROM _sync_partitions
         WHERE connector = :connector AND backfill <> '' AND base IS NOT NULL)
     ORDER BY found_at, id LIMIT 1000`,
  );
  let last: Pick<StalePartition, 'id' | 'foundAt'> | undefined = { foundAt: '', id: 0 };
  while (last !== undefined) {
    const batch = stale.all({ connector, since, foundAt: last.foundAt, id: last.id });
    for (const partition of batch) {
      if (partition.isBelowRecord === 1 && isHome(current, partition)) continue;
      dropGuests(db).run(partition.id);
      transitions.forget.run({ id: partition.id });
    }
    last = batch.at(-1);
  }
}

/** Rows of an entity that keeps them whatever happens need no home; those of one that this run does not read are left to another. */
function isHome({ tables, keeps }: CurrentRun, { id, entity }: StalePartition): boolean {
  const planned = tables.get(entity);
  if (planned === undefined) return true;
  return !keeps.has(entity) && planned.table.liveRows(id, 0, 1).length > 0;
}
