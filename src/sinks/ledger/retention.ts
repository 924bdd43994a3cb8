import type Database from 'better-sqlite3';
import { instant } from '../../core/clock.ts';
import type { ConnectorName } from '../../core/names.ts';

/** Drops what is past its retention. The newest run always stays. */
export type Retention = (connector: ConnectorName, nowMs: number) => void;

const dayMs = 24 * 60 * 60 * 1_000;
const keptRuns = 1_000;
const runDays = 90;
const quarantineDays = 90;
/** Partitions that no chain has found for this long belong to parents that are gone. */
const partitionDays = 30;

export function prepareRetention(db: Database.Database): Retention {
  const newest = db
    .prepare<[string], number>('SELECT max(number) FROM _sync_runs WHERE connector = ?')
    .pluck();
  const oldestKept = db
    .prepare<[string, number], number>(
      'SELECT number FROM _sync_runs WHERE connector = ? ORDER BY number DESC LIMIT 1 OFFSET ?',
    )
    .pluck();
  const doomed = 'connector = ? AND number < ? AND (number < ? OR started_at < ?)';
  const counts = db.prepare<[string, number, number, string]>(
    `DELETE FROM _sync_counts WHERE run IN (SELECT run FROM _sync_runs WHERE ${doomed})`,
  );
  const runs = db.prepare<[string, number, number, string]>(`DELETE FROM _sync_runs WHERE ${doomed}`);
  const quarantine = db.prepare<[string, string]>(
    'DELETE FROM _sync_quarantine WHERE connector = ? AND last_seen_at < ?',
  );
  const partitions = db.prepare<[string, string]>(
    `DELETE FROM _sync_partitions INDEXED BY _sync_partitions_found
     WHERE connector = ? AND found_at < ? AND due_since IS NULL`,
  );
  return (connector, nowMs) => {
    const before = (days: number): string => instant(nowMs - days * dayMs);
    const bounds = [
      connector,
      newest.get(connector) ?? 0,
      oldestKept.get(connector, keptRuns - 1) ?? 0,
      before(runDays),
    ] as const;
    counts.run(...bounds);
    runs.run(...bounds);
    quarantine.run(connector, before(quarantineDays));
    partitions.run(connector, before(partitionDays));
  };
}
