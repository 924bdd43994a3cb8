import type Database from 'better-sqlite3';
import type { ConnectorName, EntityName, RunId } from '../../core/names.ts';
import { SyncError } from '../../core/errors.ts';
import { addCounts, addsUp, noCounts, type PageCounts } from '../../core/records.ts';
import type { EntityReport } from '../run-report.ts';
import type { EarlierCounts } from '../sink.ts';

/** `_sync_counts`: what became of every record of a run, per entity. */
export interface Counts {
  add(run: RunId, entity: EntityName, counts: PageCounts): void;
  /** Of all runs so far of the chain whose first run has the number `origin`. */
  ofChain(connector: ConnectorName, origin: number): readonly EarlierCounts[];
  /** Per entity in which the ledger and the report differ: one line that names both. */
  differences(run: RunId, report: readonly EntityReport[]): readonly string[];
}

export function prepareCounts(db: Database.Database): Counts {
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
  const sums = db.prepare<[string], PageCounts & { readonly entity: EntityName }>(
    `SELECT entity, fetched, filtered, quarantined, inserted, updated, duplicate, unchanged
     FROM _sync_counts WHERE run = ?`,
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
    add: (run, entity, counts) => void add.run(run, entity, ...numbers(counts)),
    ofChain: (connector, origin) => ofChain.all(connector, origin, origin),
    differences: (run, report) => {
      const stored = new Map<EntityName, PageCounts>(sums.all(run).map((sum) => [sum.entity, sum]));
      const reported = new Map<EntityName, PageCounts>();
      for (const { entity, counts } of report) {
        reported.set(entity, addCounts(reported.get(entity) ?? noCounts, counts));
      }
      return [...new Set([...stored.keys(), ...reported.keys()])].flatMap((entity) => {
        const left = numbers(stored.get(entity) ?? noCounts).join('/');
        const right = numbers(reported.get(entity) ?? noCounts).join('/');
        return left === right ? [] : [`${entity}: the ledger has ${left}, the report ${right}`];
      });
    },
  };
}

/** Throws `SyncError` ACCOUNTING unless every fetched record is accounted for. */
export function checkCounts(entity: EntityName, counts: PageCounts): void {
  if (!addsUp(counts)) {
    throw new SyncError(
      `A page of "${entity}" does not add up: fetched/filtered/quarantined/inserted/updated/duplicate/unchanged is ` +
        `${numbers(counts).join('/')}. Nothing of it was stored. This is a defect: report it with the run's log.`,
      { code: 'ACCOUNTING', recovery: 'stop', context: { entity, ...counts } },
    );
  }
}

function numbers(counts: PageCounts): number[] {
  const { fetched, filtered, quarantined, inserted, updated, duplicate, unchanged } = counts;
  return [fetched, filtered, quarantined, inserted, updated, duplicate, unchanged];
}
