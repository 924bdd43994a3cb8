import type Database from 'better-sqlite3';
import type { ConnectorName, EntityName } from '../../../core/names.ts';
import type { DeletedRows } from '../../deletes.ts';
import type { Commit } from '../ledger.ts';
import type { RecordTable } from '../record-store.ts';
import { tombstoneRow, type PartitionsBelow } from './tombstone-row.ts';

interface GonePartition {
  readonly id: number;
  readonly entity: EntityName;
}

/** Partitions below tombstoned records, and who else shows their rows. */
export interface GonePartitions {
  next(connector: ConnectorName, entities: readonly EntityName[]): GonePartition | undefined;
  all(connector: ConnectorName): readonly GonePartition[];
  /** Its rows are gone too, or stay: nothing is left to do. */
  settle(id: number): void;
  /** Another partition that shows the row and that something leads to. */
  otherHome(connector: ConnectorName, entity: EntityName, row: number): number | undefined;
  dropPlace(connector: ConnectorName, entity: EntityName, row: number, partition: number): void;
}

export function prepareGonePartitions(db: Database.Database): GonePartitions {
  const gone = 'FROM _sync_partitions INDEXED BY _sync_partitions_gone WHERE connector = ? AND gone = 1';
  const next = db.prepare<[string, string], GonePartition>(
    `SELECT id, entity ${gone} AND entity IN (SELECT value FROM json_each(?)) ORDER BY id LIMIT 1`,
  );
  const all = db.prepare<[string], GonePartition>(`SELECT id, entity ${gone}`);
  const settle = db.prepare<[number]>('UPDATE _sync_partitions SET gone = 2 WHERE id = ?');
  const dropGuests = db.prepare<[number]>('DELETE FROM _sync_also WHERE partition = ?');
  const otherHome = db
    .prepare<[string, string, number], number>(
      `SELECT also.partition FROM _sync_also AS also JOIN _sync_partitions AS place ON place.id = also.partition
       WHERE also.connector = ? AND also.entity = ? AND also.row = ? AND place.gone = 0
       ORDER BY also.partition LIMIT 1`,
    )
    .pluck();
  const dropPlace = db.prepare<[string, string, number, number]>(
    'DELETE FROM _sync_also WHERE connector = ? AND entity = ? AND row = ? AND partition = ?',
  );
  return {
    next: (connector, entities) => next.get(connector, JSON.stringify(entities)),
    all: (connector) => all.all(connector),
    settle: (id) => {
      dropGuests.run(id);
      settle.run(id);
    },
    otherHome: (connector, entity, row) => otherHome.get(connector, entity, row),
    dropPlace: (connector, entity, row, partition) => void dropPlace.run(connector, entity, row, partition),
  };
}

interface Orphaning {
  readonly gone: GonePartitions;
  readonly below: PartitionsBelow;
}

/**
 * Up to `limit` steps (a row or a partition each) of tombstoning what lies below tombstoned records, at any depth. A batch
 * that only found new homes says so with 0 rows: empty means that none is left.
 */
export function tombstoneOrphans(
  commit: Commit,
  orphaning: Orphaning,
  limit: number,
): readonly DeletedRows[] {
  const { held, current } = commit;
  const entities = [...current.entities];
  const rowsByEntity = new Map<EntityName, number>();
  for (let left = limit; left > 0;) {
    const partition = orphaning.gone.next(held.connector, entities);
    if (partition === undefined) break;
    const { steps, rows } = emptyPartition(commit, orphaning, partition, left);
    rowsByEntity.set(partition.entity, (rowsByEntity.get(partition.entity) ?? 0) + rows);
    left -= 1 + steps;
  }
  return [...rowsByEntity].map(([entity, rows]) => ({ entity, rows }));
}

function emptyPartition(
  commit: Commit,
  { gone, below }: Orphaning,
  { id, entity }: GonePartition,
  limit: number,
): { readonly steps: number; readonly rows: number } {
  const { current } = commit;
  const table = current.tables.get(entity)?.table;
  const isDeletable = current.reading.get(entity)?.isDeletable === true;
  const live = table === undefined || !isDeletable ? [] : table.liveRows(id, 0, limit);
  let rows = 0;
  for (const { row } of live) {
    rows += table !== undefined && endRow(commit, { gone, below }, { entity, table, row }) ? 1 : 0;
  }
  if (live.length < limit) {
    gone.settle(id);
  }
  return { steps: live.length, rows };
}

/** True when the row was tombstoned; false when it has another home. */
function endRow(
  commit: Commit,
  { gone, below }: Orphaning,
  { entity, table, row }: { readonly entity: EntityName; readonly table: RecordTable; readonly row: number },
): boolean {
  const { connector } = commit.held;
  const home = gone.otherHome(connector, entity, row);
  if (home !== undefined) {
    table.setHome(row, home);
    gone.dropPlace(connector, entity, row, home);
    return false;
  }
  const stored = table.row(row);
  if (stored !== undefined) {
    tombstoneRow(commit, below, entity, stored);
  }
  return stored !== undefined;
}
