import type { Instant } from '../../../core/clock.ts';
import type { EntityName } from '../../../core/names.ts';
import { keptSince, mostKept } from '../../decisions/end-run.ts';
import { standing } from '../../decisions/standing.ts';
import { dropGuests } from '../deletes/places.ts';
import { grouped } from '../grouped.ts';
import type { Commit, CurrentRun } from '../ledger.ts';
import { transitions } from '../partitions/transitions.ts';
import type { Tx } from '../../../sql/database.ts';

const newestSync = `WITH newest_sync AS MATERIALIZED (
  SELECT number, origin FROM _sync_runs WHERE connector = :connector AND kind = 'sync' ORDER BY number DESC LIMIT 1)`;
const oldestKept = `SELECT number FROM _sync_runs WHERE connector = :connector ORDER BY number DESC LIMIT 1 OFFSET :kept`;
const isForgotten = `connector = :connector AND (number < coalesce((${oldestKept}), 0) OR started_at < :before)
  AND number <> (SELECT max(number) FROM _sync_runs WHERE connector = :connector)
  AND number NOT IN (SELECT number FROM newest_sync UNION ALL SELECT origin FROM newest_sync)`;

/**
 * Runs and quarantined records past their retention. The newest run always stays, and the newest sync with the run that
 * began its chain.
 */
export function forgetRuns({ ledger: { clock }, held: { connector }, tx }: Commit): void {
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
 * due stays, and so does below a record the home of rows until their deletion is through: when the record goes, they
 * are found by it.
 */
export async function forgetPartitions({ held: { connector }, current, tx }: Commit): Promise<void> {
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
    const homes = await homesAmong(tx, current, batch);
    const ids = batch.map(({ id }) => id).filter((id) => !homes.has(id));
    if (ids.length > 0) {
      await dropGuests(tx, ids);
      await transitions.forget(tx, { ids });
    }
    last = batch.at(-1);
  }
}

/**
 * Rows of an entity that keeps them whatever happens need no home; those of one that this run does not read are left to
 * another.
 */
async function homesAmong(
  tx: Tx,
  { tables, keeps }: CurrentRun,
  batch: readonly StalePartition[],
): Promise<ReadonlySet<number>> {
  const homes = new Set<number>();
  const below = batch.filter(({ isBelow }) => isBelow);
  for (const [entity, ofEntity] of grouped(below, (one) => one.entity)) {
    const ids = ofEntity.map(({ id }) => id);
    const planned = tables.get(entity);
    if (planned === undefined) for (const id of ids) homes.add(id);
    if (planned === undefined || keeps.has(entity)) continue;
    const from = ids.map((home) => ({ home, after: 0 }));
    for (const home of (await planned.countLive(tx, from, 1)).keys()) homes.add(home);
  }
  return homes;
}
