import type Database from 'better-sqlite3';
import type { ConnectorName, EntityName } from '../../../core/names.ts';
import type { DeletedRows } from '../../deletes.ts';
import type { Commit } from '../ledger.ts';
import type { RecordTable } from '../record-store.ts';
import type { MissingRows } from './missing-rows.ts';
import { deleteRow, type Gate } from './gate.ts';

interface GonePartition {
  readonly id: number;
  readonly entity: EntityName;
  /** Rows up to here have been looked at, and stay. */
  readonly sweptTo: number;
}

/** Partitions below tombstoned records, and who else shows their rows. */
export interface GonePartitions {
  next(connector: ConnectorName, entities: readonly EntityName[]): GonePartition | undefined;
  all(connector: ConnectorName): readonly GonePartition[];
  /** Rows up to this one have been looked at. */
  moveTo(id: number, row: number): void;
  /** Its rows are gone too, or stay, or wait for a `get`: nothing is left to do. */
  settle(id: number): void;
  /** Another partition that shows the row and that something leads to. */
  otherHome(connector: ConnectorName, entity: EntityName, row: number): number | undefined;
  dropPlace(connector: ConnectorName, entity: EntityName, row: number, partition: number): void;
}

export function prepareGonePartitions(db: Database.Database): GonePartitions {
  const gone = 'FROM _sync_partitions INDEXED BY _sync_partitions_gone WHERE connector = ? AND gone = 1';
  const next = db.prepare<[string, string], GonePartition>(
    `SELECT id, entity, swept_to AS sweptTo ${gone} AND entity IN (SELECT value FROM json_each(?)) ORDER BY id LIMIT 1`,
  );
  const all = db.prepare<[string], GonePartition>(`SELECT id, entity, swept_to AS sweptTo ${gone}`);
  const settle = db.prepare<[number]>('UPDATE _sync_partitions SET gone = 2, swept_to = 0 WHERE id = ?');
  const moveTo = db.prepare<[number, number]>('UPDATE _sync_partitions SET swept_to = ? WHERE id = ?');
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
    moveTo: (id, row) => void moveTo.run(row, id),
    settle: (id) => {
      dropGuests.run(id);
      settle.run(id);
    },
    otherHome: (connector, entity, row) => otherHome.get(connector, entity, row),
    dropPlace: (connector, entity, row, partition) => void dropPlace.run(connector, entity, row, partition),
  };
}

interface Orphaning {
  readonly missing: MissingRows;
  readonly gone: GonePartitions;
  readonly gate: Gate;
}

/**
 * Up to `limit` steps (a row or a partition each) of deleting what lies below deleted records, at any depth, which was judged with them. A batch
 * that only found new homes, or rows to ask for, says so with 0 rows: empty means that none is left.
 */
export function deleteOrphans(commit: Commit, orphaning: Orphaning, limit: number): readonly DeletedRows[] {
  const { held, current } = commit;
  const entities = [...current.entities];
  const rowsByEntity = new Map<EntityName, number>();
  let left = limit;
  for (const { entity, row } of orphaning.missing.orphansGone(held.connector, current.run, limit)) {
    const stored = current.tables.get(entity)?.table.row(row);
    if (stored === undefined) continue;
    deleteRow(commit, orphaning.gate, entity, stored, 'along');
    rowsByEntity.set(entity, (rowsByEntity.get(entity) ?? 0) + 1);
    left -= 1;
  }
  while (left > 0) {
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
  orphaning: Orphaning,
  { id, entity, sweptTo }: GonePartition,
  limit: number,
): { readonly steps: number; readonly rows: number } {
  const { current } = commit;
  const table = current.tables.get(entity)?.table;
  const live = table === undefined || current.keeps.has(entity) ? [] : table.liveRows(id, sweptTo, limit);
  let rows = 0;
  for (const { row } of live) {
    rows += table !== undefined && endRow(commit, orphaning, { entity, table, row, partition: id }) ? 1 : 0;
  }
  const last = live.at(-1);
  if (last === undefined || live.length < limit) {
    orphaning.gone.settle(id);
  } else {
    orphaning.gone.moveTo(id, last.row);
  }
  return { steps: live.length, rows };
}

interface OrphanedRow {
  readonly entity: EntityName;
  readonly table: RecordTable;
  readonly row: number;
  readonly partition: number;
}

/** True when the row was tombstoned; false when it has another home, or may have one that no walk has shown yet. */
function endRow(
  commit: Commit,
  { missing, gone, gate }: Orphaning,
  { entity, table, row, partition }: OrphanedRow,
): boolean {
  const { held, current, stamp } = commit;
  const { connector } = held;
  const home = gone.otherHome(connector, entity, row);
  if (home !== undefined) {
    table.setHome(row, home);
    gone.dropPlace(connector, entity, row, home);
    return false;
  }
  if (current.reading.get(entity)?.mayMove === true) {
    missing.noteOrphan({ connector, entity, row, partition, origin: current.origin, since: stamp.now });
    return false;
  }
  const stored = table.row(row);
  if (stored !== undefined) deleteRow(commit, gate, entity, stored, 'along');
  return stored !== undefined;
}
