import type Database from 'better-sqlite3';
import type { ConnectorName, EntityName } from '../../../core/names.ts';
import type { Commit } from '../ledger.ts';
import { openRows } from '../open-rows.ts';

/** What a delete takes along. */
export interface Cascade {
  /**
   * Rows that go when this record does, by entity, at any depth: what is at home in the partitions that it led to. Without those that this
   * chain has met elsewhere, and without entities that keep their rows. Also of entities that the run does not read.
   */
  below(commit: Commit, entity: EntityName, keyText: string): ReadonlyMap<EntityName, number>;
  /** Rows without a tombstone at home in the partition, behind row `after`. */
  liveRows(commit: Commit, partition: PartitionBelow, after: number): Iterable<number>;
  /** Whether records of the entity lead to partitions at all. */
  isParent(connector: ConnectorName, entity: EntityName): boolean;
}

export interface PartitionBelow {
  readonly id: number;
  readonly entity: EntityName;
}

const rowsAtOnce = 1_000;

export function prepareCascade(db: Database.Database): Cascade {
  const rows = openRows(db);
  // Those that are ended (`gone` 1) belong to a delete that has been judged already.
  const partitions = db.prepare<[string, string, string], PartitionBelow>(
    `SELECT id, entity FROM _sync_partitions
     WHERE connector = ? AND parent_entity = ? AND parent_key = ? AND backfill = '' AND gone <> 1`,
  );
  const leads = db.prepare<[string, string]>(
    'SELECT 1 FROM _sync_partitions WHERE connector = ? AND parent_entity = ? AND parent_key IS NOT NULL LIMIT 1',
  );
  const isParent: Cascade['isParent'] = (connector, entity) => leads.get(connector, entity) !== undefined;

  function* liveRows(commit: Commit, { id, entity }: PartitionBelow, from: number): Generator<number> {
    const { connector } = commit.held;
    const planned = commit.current.tables.get(entity)?.table;
    if (planned === undefined && commit.ledger.tables.known(connector, entity) === undefined) return;
    for (let after = from; ;) {
      const batch =
        planned?.liveRows(id, after, rowsAtOnce) ?? rows.liveRows(connector, entity, id, after, rowsAtOnce);
      for (const { row } of batch) yield row;
      const last = batch.at(-1);
      if (last === undefined || batch.length < rowsAtOnce) return;
      after = last.row;
    }
  }

  function keyOf({ ledger, held, current }: Commit, entity: EntityName, row: number): string | undefined {
    const planned = current.tables.get(entity);
    if (planned !== undefined) return planned.table.row(row)?.keyText;
    const key = ledger.tables.known(held.connector, entity)?.key ?? [];
    return rows.keyOf(held.connector, { entity, key }, row);
  }

  return {
    liveRows,
    isParent,
    below: (commit, entity, keyText) => {
      const { held, current } = commit;
      const counts = new Map<EntityName, number>();
      const parents = new Map<EntityName, boolean>();
      const visited = new Set<number>();
      const open = partitions.all(held.connector, entity, keyText);
      for (let next = open.pop(); next !== undefined; next = open.pop()) {
        const { id, entity: child } = next;
        if (visited.has(id) || current.keeps.has(child)) continue;
        visited.add(id);
        const leadsOn = parents.get(child) ?? isParent(held.connector, child);
        parents.set(child, leadsOn);
        for (const row of liveRows(commit, next, 0)) {
          if (current.seen.has(child, row) && !current.seen.hasAtHome(child, row)) continue;
          counts.set(child, (counts.get(child) ?? 0) + 1);
          const key = leadsOn ? keyOf(commit, child, row) : undefined;
          if (key !== undefined) open.push(...partitions.all(held.connector, child, key));
        }
      }
      return counts;
    },
  };
}
