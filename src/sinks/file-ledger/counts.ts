import { createHash } from 'node:crypto';
import type Database from 'better-sqlite3';
import type { ConnectorName, EntityName, RunId } from '../../core/names.ts';
import type { PageCounts, Quarantined } from '../../core/records.ts';
import { numbersOf, type CountsOfEntity } from '../decisions/add-up.ts';
import type { WriteStamp } from './record-store.ts';
import type { EarlierCounts } from '../sink.ts';

/** `_sync_counts`: what became of every record of a run, per entity. */
export function prepareCounts(db: Database.Database) {
  const add = db.prepare<[string, string, ...number[]]>(
    `INSERT INTO _sync_counts
       (run, entity, fetched, filtered, quarantined, inserted, updated, duplicate, unchanged)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
     ON CONFLICT (run, entity) DO UPDATE SET
       fetched = fetched + excluded.fetched, filtered = filtered + excluded.filtered,
       quarantined = quarantined + excluded.quarantined, inserted = inserted + excluded.inserted,
       updated = updated + excluded.updated, duplicate = duplicate + excluded.duplicate,
       unchanged = unchanged + excluded.unchanged`,
  );
  const ofChain = db.prepare<[string, number, number], EarlierCounts>(
    `WITH chain AS (SELECT run, report FROM _sync_runs WHERE connector = ? AND number >= ? AND origin = ?)
     SELECT entity, sum(fetched) AS fetched, sum(quarantined) AS quarantined, coalesce((
         SELECT sum(json_extract(reported.value, '$.depthLimited'))
         FROM chain, json_each(chain.report, '$.entities') AS reported
         WHERE json_extract(reported.value, '$.entity') = _sync_counts.entity
       ), 0) AS depthLimited
     FROM _sync_counts WHERE run IN (SELECT run FROM chain) GROUP BY entity`,
  );
  return {
    add: (run: RunId, entity: EntityName, counts: PageCounts): void =>
      void add.run(run, entity, ...numbersOf(counts)),
    /** Of all runs so far of the chain whose first run has the number `origin`. */
    ofChain: (connector: ConnectorName, origin: number): readonly EarlierCounts[] =>
      ofChain.all(connector, origin, origin),
    ofRun: db.prepare<[run: string], CountsOfEntity>(
      `SELECT entity, fetched, filtered, quarantined, inserted, updated, duplicate, unchanged
       FROM _sync_counts WHERE run = ?`,
    ),
  };
}

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
