import type Database from 'better-sqlite3';
import type { ConnectorName, EntityName } from '../../../core/names.ts';
import type { EntityMissing } from '../../deletes.ts';
import type { Commit } from '../ledger.ts';
import type { MissingRows } from './missing-rows.ts';
import type { GonePartitions } from './orphans.ts';

const countedAtOnce = 1_000;

/** Live rows of a table, by its account. */
export type LiveCount = (connector: ConnectorName, entity: EntityName) => number;

export function prepareLiveCount(db: Database.Database): LiveCount {
  const live = db
    .prepare<[string, string], number>(
      'SELECT rows - deleted FROM _sync_tables WHERE connector = ? AND entity = ?',
    )
    .pluck();
  return (connector, entity) => live.get(connector, entity) ?? 0;
}

interface Counting {
  readonly missing: MissingRows;
  readonly gone: GonePartitions;
  readonly live: LiveCount;
}

/** How the missing rows of the plan's entities stand. What lies below vanished records is neither missing nor live. */
export function countMissing(commit: Commit, counting: Counting): readonly EntityMissing[] {
  const { held, current } = commit;
  return counting.missing
    .counts(held.connector, current.origin)
    .filter(({ entity }) => current.entities.has(entity))
    .map(({ wasSwept, ...counts }) => {
      const { entity, missing } = counts;
      const live = counting.live(held.connector, entity) - orphans(commit, counting.gone, entity);
      const isEmpty = wasSwept === 1 && missing > 0 && missing >= live && !current.seen.isAnySeen(entity);
      return { ...counts, live, isEmpty };
    });
}

function orphans({ held, current }: Commit, gone: GonePartitions, entity: EntityName): number {
  const table = current.tables.get(entity)?.table;
  let count = 0;
  for (const partition of gone.all(held.connector)) {
    if (table === undefined || partition.entity !== entity) continue;
    for (let after: number | undefined = 0; after !== undefined;) {
      const rows = table.liveRows(partition.id, after, countedAtOnce);
      count += rows.length;
      after = rows.length < countedAtOnce ? undefined : rows.at(-1)?.row;
    }
  }
  return count;
}
