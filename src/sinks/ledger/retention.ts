import type Database from 'better-sqlite3';
import { instant, type Instant } from '../../core/clock.ts';
import type { ConnectorName, EntityName } from '../../core/names.ts';
import type { Places } from './deletes/places.ts';
import { standing } from './partitions/states.ts';
import type { PartitionTransitions } from './partitions/transitions.ts';

export interface ForgottenPartition {
  readonly id: number;
  readonly entity: EntityName;
}

const dayMs = 24 * 60 * 60 * 1_000;
const keptRuns = 1_000;
const runDays = 90;
const quarantineDays = 90;
/** Newest first. A source that sends a broken record every minute would add 130,000 in 90 days. */
const keptQuarantine = 10_000;

/** Drops what is past its retention. */
export type Retention = ReturnType<typeof prepareRetention>;

export function prepareRetention(
  db: Database.Database,
  { transitions, places }: { readonly transitions: PartitionTransitions; readonly places: Places },
) {
  const oldestKept = db
    .prepare<[string, number], number>(
      'SELECT number FROM _sync_runs WHERE connector = ? ORDER BY number DESC LIMIT 1 OFFSET ?',
    )
    .pluck();
  const doomed = `connector = :connector AND (number < :oldestKept OR started_at < :before)
    AND number NOT IN (SELECT max(number) FROM _sync_runs WHERE connector = :connector)
    AND number NOT IN (SELECT value FROM
      (SELECT number, origin FROM _sync_runs WHERE connector = :connector AND kind = 'sync' ORDER BY number DESC LIMIT 1),
      json_each(json_array(number, origin)))`;
  const counts = db.prepare<DoomedRuns>(
    `DELETE FROM _sync_counts WHERE run IN (SELECT run FROM _sync_runs WHERE ${doomed})`,
  );
  const runs = db.prepare<DoomedRuns>(`DELETE FROM _sync_runs WHERE ${doomed}`);
  const quarantine = db.prepare<[string, string]>(
    'DELETE FROM _sync_quarantine WHERE connector = ? AND last_seen_at < ?',
  );
  const quarantined = db
    .prepare<[string], number>('SELECT count(*) FROM _sync_quarantine WHERE connector = ?')
    .pluck();
  const oldestQuarantine = db.prepare<[string, number]>(
    `DELETE FROM _sync_quarantine WHERE id IN (
       SELECT id FROM _sync_quarantine WHERE connector = ? ORDER BY last_seen_at, id LIMIT ?)`,
  );
  const stale = db.prepare<[DoomedPartitions & Passed], StalePartition>(
    `SELECT id, entity, parent_key IS NOT NULL AS isBelow, found_at AS foundAt FROM _sync_partitions INDEXED BY _sync_partitions_found
     WHERE connector = :connector AND found_at < :since AND (found_at, id) > (:foundAt, :id)
       AND due_since IS NULL AND gone <> ${standing.ended}
       AND (sealed_at IS NULL OR sealed_at < :since)
       AND id NOT IN (SELECT base FROM _sync_partitions
         WHERE connector = :connector AND backfill <> '' AND base IS NOT NULL)
     ORDER BY found_at, id LIMIT 1000`,
  );
  return {
    /** Runs and quarantined records. The newest run always stays, and the newest sync with the run that began its chain. */
    forgetRuns: (connector: ConnectorName, nowMs: number): void => {
      const before = instant(nowMs - runDays * dayMs);
      const doomedRuns = { connector, oldestKept: oldestKept.get(connector, keptRuns - 1) ?? 0, before };
      counts.run(doomedRuns);
      runs.run(doomedRuns);
      quarantine.run(connector, instant(nowMs - quarantineDays * dayMs));
      const tooMany = (quarantined.get(connector) ?? 0) - keptQuarantine;
      if (tooMany > 0) oldestQuarantine.run(connector, tooMany);
    },
    /**
     * Partitions that nothing has led to or was read in since then, and windows of backfills that were not resumed. What is due stays, and so
     * does below a record the home of rows (`isHome`) until their deletion is through: when the record goes, they are found by it.
     */
    forgetPartitions: (
      connector: ConnectorName,
      since: Instant,
      isHome: (partition: ForgottenPartition) => boolean,
    ): void => {
      transitions.abandon.run({ connector, since });
      for (let passed: Passed | undefined = { foundAt: '', id: 0 }; passed !== undefined;) {
        const batch = stale.all({ connector, since, ...passed });
        for (const one of batch) {
          if (one.isBelow === 1 && isHome(one)) continue;
          places.dropGuests.run(one.id);
          transitions.forget.run({ id: one.id });
        }
        passed = batch.at(-1);
      }
    },
  };
}

interface DoomedRuns {
  readonly connector: string;
  readonly oldestKept: number;
  readonly before: Instant;
}

interface Passed {
  readonly foundAt: string;
  readonly id: number;
}

interface StalePartition extends ForgottenPartition, Passed {
  readonly id: number;
  /** 1 where a record led to it. */
  readonly isBelow: number;
}

interface DoomedPartitions {
  readonly connector: string;
  readonly since: Instant;
}
