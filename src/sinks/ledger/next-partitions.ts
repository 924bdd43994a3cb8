import type Database from 'better-sqlite3';
import type { ConnectorName, EntityName } from '../../core/names.ts';
import type { Partition } from '../sink.ts';
import { parseParams, parsePosition } from './ledger-json.ts';

/** What the current run still has to walk, deepest first, then in the order found. Costs `limit` rows, however many are due. */
export type NextPartitions = (connector: ConnectorName, limit: number) => readonly Partition[];

export function prepareNextPartitions(db: Database.Database): NextPartitions {
  const ready = db.prepare<[string, number], ReadyRow>(
    `SELECT id, entity, params, inject, rank, tree, tree_depth AS treeDepth, position
     FROM _sync_partitions INDEXED BY _sync_partitions_ready
     WHERE connector = ? AND ready = 1 ORDER BY rank DESC, id LIMIT ?`,
  );
  return (connector, limit) => ready.all(connector, limit).map(readPartition);
}

interface ReadyRow {
  readonly id: number;
  readonly entity: EntityName;
  readonly params: string;
  readonly inject: string;
  readonly rank: number;
  readonly tree: number | null;
  readonly treeDepth: number | null;
  readonly position: string | null;
}

function readPartition(row: ReadyRow): Partition {
  return {
    ...row,
    params: parseParams(row.params),
    inject: parseParams(row.inject),
    position: row.position === null ? null : parsePosition(row.position),
  };
}
