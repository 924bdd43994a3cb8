import type Database from 'better-sqlite3';
import type { ConnectorName, EntityName, RunId } from '../../core/names.ts';
import type { PageCounts } from '../../core/records.ts';
import { numbersOf, type CountsOfEntity } from '../decisions/add-up.ts';
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
