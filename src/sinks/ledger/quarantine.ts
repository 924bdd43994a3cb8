import { createHash } from 'node:crypto';
import type Database from 'better-sqlite3';
import type { ConnectorName } from '../../core/names.ts';
import type { Quarantined } from '../../core/records.ts';
import type { WriteStamp } from './record-store.ts';

/** `_sync_quarantine`: records that cannot be stored as they are, kept whole, once per content. */
export function prepareQuarantine(db: Database.Database) {
  const keep = db.prepare(
    `INSERT INTO _sync_quarantine
       (connector, entity, content_hash, reason, detail, record, first_seen_at, last_seen_at, last_run)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
     ON CONFLICT (connector, entity, content_hash) DO UPDATE SET
       reason = excluded.reason, detail = excluded.detail, last_seen_at = excluded.last_seen_at,
       last_run = excluded.last_run`,
  );
  return {
    keep: (
      connector: ConnectorName,
      { entity, reason, detail, record }: Quarantined,
      { now, run }: WriteStamp,
    ): void => {
      const hash = createHash('sha256').update(record).digest('hex');
      keep.run(connector, entity, hash, reason, detail, record, now, now, run);
    },
  };
}
