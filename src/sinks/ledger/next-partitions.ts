import type Database from 'better-sqlite3';
import type { ConnectorName } from '../../core/names.ts';
import type { Partition } from '../partition.ts';
import { parseDifferences, parseParams, parsePosition } from './ledger-json.ts';

/** What a chain still has to walk; costs `limit` rows, however many are due. */
export interface NextPartitions {
  /** Deepest first, then in the order found. */
  deepest(connector: ConnectorName, window: string, limit: number): readonly ReadyPartition[];
  /** Those that were not read for longest first, never read ones before all others. */
  stalest(connector: ConnectorName, window: string, limit: number): readonly ReadyPartition[];
}

/** As far as the ledger's own tables know it. */
export type ReadyPartition = Omit<Partition, 'storedRows'>;

export function prepareNextPartitions(db: Database.Database): NextPartitions {
  const columns = `id, entity, params, inject, rank, tree, tree_depth AS treeDepth, position, mode, watermark,
      json_extract(proof, '$.clockDifferences') AS clockDifferences FROM _sync_partitions`;
  const isReady = 'connector = ? AND backfill = ? AND ready = 1';
  const deepest = db.prepare<[string, string, number], ReadyRow>(
    `SELECT ${columns} INDEXED BY _sync_partitions_ready WHERE ${isReady} ORDER BY rank DESC, id LIMIT ?`,
  );
  const stalest = db.prepare<[string, string, number], ReadyRow>(
    `SELECT ${columns} INDEXED BY _sync_partitions_overdue WHERE ${isReady}
     ORDER BY sealed_at, rank DESC, id LIMIT ?`,
  );
  return {
    deepest: (connector, window, limit) => deepest.all(connector, window, limit).map(readPartition),
    stalest: (connector, window, limit) => stalest.all(connector, window, limit).map(readPartition),
  };
}

interface ReadyRow extends Omit<
  Partition,
  'params' | 'inject' | 'position' | 'storedRows' | 'clockDifferences'
> {
  readonly params: string;
  readonly inject: string;
  readonly position: string | null;
  readonly clockDifferences: string | null;
}

function readPartition(row: ReadyRow): ReadyPartition {
  return {
    ...row,
    params: parseParams(row.params),
    inject: parseParams(row.inject),
    position: row.position === null ? null : parsePosition(row.position),
    clockDifferences: row.clockDifferences === null ? [] : parseDifferences(row.clockDifferences),
  };
}
