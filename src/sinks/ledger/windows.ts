import type Database from 'better-sqlite3';
import type { Instant } from '../../core/clock.ts';
import type { ConnectorName, RunId } from '../../core/names.ts';

/** `_sync_windows`: windows of backfills that are done, and the partitions of those that are not. */
export interface Windows {
  /** The window's partitions have done their work. */
  drop(connector: ConnectorName, window: string): void;
  note(done: FinishedWindow): void;
}

export interface FinishedWindow {
  readonly connector: ConnectorName;
  readonly backfill: string;
  readonly window: string;
  readonly run: RunId;
  readonly finishedAt: Instant;
}

export function prepareWindows(db: Database.Database): Windows {
  const drop = db.prepare<[string, string]>(
    "DELETE FROM _sync_partitions WHERE connector = ? AND backfill = ? AND backfill <> ''",
  );
  const note = db.prepare<FinishedWindow>(
    `INSERT INTO _sync_windows (connector, backfill, window, run, finished_at)
     VALUES (:connector, :backfill, :window, :run, :finishedAt)
     ON CONFLICT (connector, backfill, window) DO UPDATE SET run = excluded.run, finished_at = excluded.finished_at`,
  );
  return {
    drop: (connector, window) => void drop.run(connector, window),
    note: (done) => void note.run(done),
  };
}
