import { accountingError } from '../../decisions/add-up.ts';
import {
  agreesWithStored,
  isChainOver,
  isDoubted,
  readWhole,
  keptSince,
  mostKept,
} from '../../decisions/end-run.ts';
import { writeJson } from '../../../core/json-text.ts';
import { withoutKey, type RunReport } from '../../run-report.ts';
import { pruneActions } from '../actions.ts';
import { pruneDay } from '../day-account.ts';
import { maskedWhole } from '../masks.ts';
import { pruneDays } from '../days.ts';
import type { Commit, CurrentRun } from '../ledger.ts';
import { transitions } from '../partitions/transitions.ts';
import { countsOfRun } from '../counts.ts';
import { dropSeen } from '../seen-rows.ts';
import { dropProgress } from '../shown-progress.ts';
import { agreed, wasRead } from '../stored-rows.ts';
import { endRun, forbidContinuing, hasBegun } from './runs.ts';
import type { Instant } from '../../../core/clock.ts';
import type { EntityName } from '../../../core/names.ts';
import { standing } from '../../decisions/standing.ts';
import { dropShared } from '../deletes/places.ts';
import { grouped } from '../../../core/grouped.ts';
import type { Tx } from '../../../sql/database.ts';

/**
 * Ends the run: stores the report, prunes what is past its retention. When the report's counts are not
 * those of the ledger the run is stored as `failed`, and that is the error given.
 */
export async function finishRun(commit: Commit, report: RunReport): Promise<RunReport['error']> {
  const { held, current, tx, stamp } = commit;
  const { connector } = held;
  const wrong = accountingError(current.run, await countsOfRun(tx, current.run), report.entities);
  const stored = wrong === null ? report : { ...report, outcome: 'failed' as const, error: wrong };
  const { outcome: state, finishedAt, resumeAt } = stored;
  await noteDepthLimited(commit, stored);
  // A purge, or a mask, would have to look for keys in all reports.
  const kept = { ...stored, partMissing: stored.partMissing.map(withoutKey) };
  endRun(tx, current.run, { state, finishedAt, resumeAt, report: writeJson(kept) });
  if (isChainOver(stored)) {
    dropSeen(tx, connector, current.window);
    if (current.kind === 'sync') {
      await noteWhole(commit, stored);
      await forgetPartitions(commit);
    } else {
      await endWindow(commit, stored);
    }
  }
  if (isDoubted(stored)) await forbidContinuing(tx, connector);
  forgetRuns(commit);
  dropProgress(tx, connector);
  pruneDay(tx, connector, stamp.now);
  pruneDays(tx, connector, stamp.now);
  pruneActions(tx, connector, stamp.now);
  return wrong;
}

/** For the runs that resume this one: `_sync_counts` has the rest. */
async function noteDepthLimited({ current, tx }: Commit, { entities }: RunReport): Promise<void> {
  const reported = entities.filter(({ depthLimited }) => depthLimited > 0);
  if (reported.length === 0) return;
  await tx.run(
    `UPDATE _sync_counts AS counted SET depth_limited = reported.depth_limited
     FROM {reported: entity text, depth_limited bigint}
     WHERE counted.run = :run AND counted.entity = reported.entity`,
    { run: current.run, reported },
  );
}

async function endWindow(
  { held: { connector }, current: { run, window, backfill }, tx }: Commit,
  { outcome, finishedAt }: RunReport,
): Promise<void> {
  await transitions.dropWindow(tx, { connector, window });
  if (backfill === '' || outcome !== 'ok') return;
  await tx.run(
    `INSERT INTO _sync_windows (connector, backfill, "window", run, finished_at)
     VALUES (:connector, :backfill, :window, :run, :finishedAt)
     ON CONFLICT (connector, backfill, "window") DO UPDATE SET run = excluded.run, finished_at = excluded.finished_at`,
    { connector, backfill, window, run, finishedAt },
  );
}

async function noteWhole(
  { held: { connector }, current, tx, stamp }: Commit,
  report: RunReport,
): Promise<void> {
  const { run, isFull, tables, entities } = current;
  const agreeing = report.entities.filter((one) => agreesWithStored(one, isFull));
  agreed(
    tx,
    connector,
    agreeing.map(({ entity }) => entity),
  );
  const whole = readWhole(report, tables.keys(), entities);
  wasRead(tx, connector, run, whole);
  maskedWhole(
    tx,
    connector,
    whole.map(({ entity }) => entity),
    stamp.now,
  );
}

const newestSync = `WITH newest_sync AS MATERIALIZED (
  SELECT number, origin FROM _sync_runs WHERE connector = :connector AND kind = 'sync' AND ${hasBegun} ORDER BY number DESC LIMIT 1)`;
const oldestKept = `SELECT number FROM _sync_runs WHERE connector = :connector ORDER BY number DESC LIMIT 1 OFFSET :kept`;
const isForgotten = `connector = :connector AND (number < coalesce((${oldestKept}), 0) OR started_at < :before)
  AND number <> (SELECT max(number) FROM _sync_runs WHERE connector = :connector)
  AND number NOT IN (SELECT number FROM newest_sync UNION ALL SELECT origin FROM newest_sync)`;

/**
 * Runs and quarantined records past their retention. The newest run always stays, and the newest sync with the run that
 * began its chain.
 */
function forgetRuns({ ledger: { clock }, held: { connector }, tx }: Commit): void {
  const since = keptSince(clock.now());
  const runs = { connector, kept: mostKept.runs - 1, before: since.runs };
  tx.put(
    `${newestSync} DELETE FROM _sync_counts WHERE run IN (SELECT run FROM _sync_runs WHERE ${isForgotten})`,
    runs,
  );
  tx.put(`${newestSync} DELETE FROM _sync_runs WHERE ${isForgotten}`, runs);
  tx.put(`DELETE FROM _sync_quarantine WHERE connector = :connector AND last_seen_at < :before`, {
    connector,
    before: since.quarantined,
  });
  tx.put(
    `DELETE FROM _sync_quarantine WHERE connector = :connector AND (last_seen_at, id) <= (
       SELECT last_seen_at, id FROM _sync_quarantine WHERE connector = :connector
       ORDER BY last_seen_at DESC, id DESC LIMIT 1 OFFSET :kept)`,
    { connector, kept: mostKept.quarantined },
  );
}

interface StalePartition {
  readonly id: number;
  readonly entity: EntityName;
  readonly foundAt: Instant;
  /** A record led to it. */
  readonly isBelow: boolean;
}

/**
 * Partitions that nothing has led to or was read in for long, and windows of backfills that were not resumed. What is
 * due stays, and so does below a record the owner of rows until their deletion is through: when the record is deleted,
 * they are found by it.
 */
async function forgetPartitions({ held: { connector }, current, tx }: Commit): Promise<void> {
  const since = current.keepPartitionsSince;
  await transitions.abandon(tx, { connector, since });
  for (
    let last: Pick<StalePartition, 'id' | 'foundAt'> | undefined = { foundAt: '', id: 0 };
    last !== undefined;
  ) {
    const batch: readonly StalePartition[] = await tx.rows<StalePartition>(
      `SELECT id, entity, parent_key IS NOT NULL AS is_below, found_at
       FROM _sync_partitions {index _sync_partitions_found}
       WHERE connector = :connector AND found_at < :since AND (found_at, id) > (:foundAt, :id)
         AND due_since IS NULL AND gone <> ${standing.ended}
         AND (sealed_at IS NULL OR sealed_at < :since)
         AND id NOT IN (SELECT base FROM _sync_partitions
           WHERE connector = :connector AND backfill <> '' AND base IS NOT NULL)
       ORDER BY found_at, id LIMIT 1000`,
      { connector, since, foundAt: last.foundAt, id: last.id },
    );
    const owners = await ownersAmong(tx, current, batch);
    const ids = batch.map(({ id }) => id).filter((id) => !owners.has(id));
    if (ids.length > 0) {
      await dropShared(tx, ids);
      await transitions.forget(tx, { ids });
    }
    last = batch.at(-1);
  }
}

/**
 * Rows of an entity that keeps them whatever happens need no owner; those of one that this run does not read are left
 * to another.
 */
async function ownersAmong(
  tx: Tx,
  { tables, keeps }: CurrentRun,
  batch: readonly StalePartition[],
): Promise<ReadonlySet<number>> {
  const owners = new Set<number>();
  const below = batch.filter(({ isBelow }) => isBelow);
  for (const [entity, ofEntity] of grouped(below, (one) => one.entity)) {
    const ids = ofEntity.map(({ id }) => id);
    const planned = tables.get(entity);
    if (planned === undefined) for (const id of ids) owners.add(id);
    if (planned === undefined || keeps.has(entity)) continue;
    const from = ids.map((owner) => ({ owner, after: 0 }));
    for (const owner of (await planned.countLive(tx, from, 1)).keys()) owners.add(owner);
  }
  return owners;
}
