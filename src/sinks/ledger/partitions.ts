import type Database from 'better-sqlite3';
import type { Instant } from '../../core/clock.ts';
import { SyncError } from '../../core/errors.ts';
import type { ConnectorName, EntityName } from '../../core/names.ts';
import type { FoundPartition, Position } from '../sink.ts';
import { writeJson } from './json-text.ts';

/** A partition as a commit needs it. */
export interface PartitionRow {
  readonly id: number;
  readonly entity: EntityName;
  readonly tree: number | null;
  readonly dueSince: Instant | null;
  readonly listed: number;
}

export interface Finding {
  readonly connector: ConnectorName;
  /** Number of the chain's first run. */
  readonly origin: number;
  readonly now: Instant;
  /** Whether the run reads the entity: partitions of others are due, but left to a run that does. */
  readonly isRead: boolean;
}

/** `_sync_partitions`: finding them, and how far their walks have come. */
export interface Partitions {
  /** Throws `SyncError` FENCED when the connector has no such partition (any more). */
  get(connector: ConnectorName, id: number): PartitionRow;
  /** Makes a partition due unless this chain already found it; true when it became due. */
  find(found: FoundPartition, finding: Finding): boolean;
  advance(id: number, position: Position): void;
  setAside(id: number, run: string, failure: string, failedAt: Instant, dropPosition: boolean): void;
}

type FindingValues = [
  connector: string,
  entity: string,
  params: string,
  inject: string,
  rank: number,
  tree: number | null,
  treeDepth: number | null,
  origin: number,
  foundAt: Instant,
  dueSince: Instant,
  ready: number,
];

const maxPositionBytes = 64 * 1024;

export function preparePartitions(db: Database.Database): Partitions {
  const get = db.prepare<[number, string], PartitionRow>(
    `SELECT id, entity, tree, due_since AS dueSince, listed FROM _sync_partitions WHERE id = ? AND connector = ?`,
  );
  const find = db.prepare<FindingValues, { isMidway: number }>(
    `INSERT INTO _sync_partitions
       (connector, entity, params, inject, rank, tree, tree_depth, origin, found_at, due_since, ready, listed)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0)
     ON CONFLICT (connector, entity, params) DO UPDATE SET
       inject = excluded.inject, rank = excluded.rank, tree = excluded.tree, tree_depth = excluded.tree_depth,
       origin = excluded.origin, found_at = excluded.found_at, due_since = excluded.due_since,
       ready = excluded.ready, listed = 0,
       position = CASE WHEN due_since IS NULL THEN position END, set_aside_run = NULL, failure = NULL, failed_at = NULL
     WHERE origin <> excluded.origin
     RETURNING position IS NOT NULL AS isMidway`,
  );
  const takeOver = db.prepare<[number, string, string]>(
    'UPDATE _sync_tables SET taken_over = ? WHERE connector = ? AND entity = ?',
  );
  const advance = db.prepare<[string, number]>('UPDATE _sync_partitions SET position = ? WHERE id = ?');
  const setAside = db.prepare<[string, string, string, number, number]>(
    `UPDATE _sync_partitions SET ready = 0, set_aside_run = ?, failure = ?, failed_at = ?,
       position = CASE WHEN ? THEN NULL ELSE position END
     WHERE id = ? AND due_since IS NOT NULL`,
  );
  return {
    get: (connector, id) => {
      const row = get.get(id, connector);
      if (row === undefined) {
        throw new SyncError(
          `Partition ${id} of connector "${connector}" is not in the ledger (any more). End this run; a newer one goes on.`,
          { code: 'FENCED', recovery: 'stop', context: { connector, partition: id } },
        );
      }
      return row;
    },
    find: (found, { connector, origin, now, isRead }) => {
      const params = writeJson(found.params);
      const inject = writeJson(found.inject);
      const { entity, rank, tree, treeDepth } = found;
      const ready = isRead ? 1 : 0;
      const due = find.get(connector, entity, params, inject, rank, tree, treeDepth, origin, now, now, ready);
      if (due?.isMidway === 1) takeOver.run(origin, connector, entity);
      return due !== undefined;
    },
    advance: (id, position) => void advance.run(positionText(position), id),
    setAside: (id, run, failure, failedAt, dropPosition) =>
      void setAside.run(run, failure, failedAt, dropPosition ? 1 : 0, id),
  };
}

function positionText(position: Position): string {
  const text = writeJson(position);
  const bytes = Buffer.byteLength(text);
  if (bytes > maxPositionBytes) {
    throw new SyncError(
      `A position may take ${maxPositionBytes} bytes, but a "${position.kind}" one takes ${bytes}. Shorten what it keeps.`,
      { code: 'INTERNAL', recovery: 'stop', context: { bytes } },
    );
  }
  return text;
}
