import type Database from 'better-sqlite3';
import type { ConnectorName } from '../../core/names.ts';
import type { Pause } from '../lease.ts';

/** `_sync_pauses`: connectors that are not to be run, whether they were ever synced or not. */
export function preparePauses(db: Database.Database) {
  const pause = db.prepare<[string, string, string]>(
    `INSERT INTO _sync_pauses (connector, since, reason) VALUES (?, ?, ?)
     ON CONFLICT (connector) DO UPDATE SET reason = excluded.reason`,
  );
  const resume = db.prepare<[string]>('DELETE FROM _sync_pauses WHERE connector = ?');
  return {
    /** Keeps `since` where the connector is paused already. */
    pause: (connector: ConnectorName, { since, reason }: Pause): void =>
      void pause.run(connector, since, reason),
    /** True when the connector was paused. */
    resume: (connector: ConnectorName): boolean => resume.run(connector).changes > 0,
  };
}
