import type Database from 'better-sqlite3';
import type { Instant } from '../../../core/clock.ts';
import type { ConnectorName, EntityName } from '../../../core/names.ts';
import type { CurrentRun } from '../ledger.ts';

export type Needs = 'nothing' | 'get' | 'walk';

/** A partition whose full walk of this chain is to be swept. */
export interface SweptPartition {
  readonly id: number;
  readonly entity: EntityName;
  readonly absence: Needs;
  /** 0 or more: rows of this home up to here are through. Below 0: all of them are, and guests up to row `-1 - sweptTo`. */
  readonly sweptTo: number;
}

/** Another partition that has shown a row. */
export interface OtherPlace {
  readonly partition: number;
  /** 0 where nothing leads to the partition (any more), or where this chain has walked it in full. */
  readonly mayShow: number;
  /** What its full walk in this chain says of what it did not meet; null for any other. */
  readonly absence: Needs | null;
  /** 1 where this chain has met the row there. */
  readonly hasShown: number;
}

/** A row that a partition has shown although it is not its home; `origin`: the chain that met it there last. */
export interface Guest {
  readonly row: number;
  readonly origin: number;
}

/** The sweep's way through partitions and `_sync_also`. */
export interface SweptPartitions {
  next(connector: ConnectorName, origin: number, entities: readonly EntityName[]): SweptPartition | undefined;
  moveTo(id: number, sweptTo: number): void;
  finish(id: number, fullAt: Instant): void;
  otherPlaces(
    connector: ConnectorName,
    entity: EntityName,
    row: number,
    chain: SweepingChain,
  ): readonly OtherPlace[];
  dropPlace(connector: ConnectorName, entity: EntityName, row: number, partition: number): void;
  /** Rows that the partition has shown although it is not their home, behind row `after`. */
  guests(
    connector: ConnectorName,
    entity: EntityName,
    partition: number,
    after: number,
    limit: number,
  ): readonly Guest[];
  /** Whether something leads to it: then it is, or will be, walked. */
  isLedTo(partition: number, chain: SweepingChain): boolean;
}

/** Of the current run. */
export type SweepingChain = Pick<CurrentRun, 'origin' | 'keepPartitionsSince'>;

/**
 * A root that this chain has not found is none of the settings' any more; what lies below a record may wait for long to be found
 * again, but not for longer than what nothing leads to is kept.
 */
const isLed = `place.gone = 0 AND (place.due_since IS NOT NULL OR place.origin = :origin
  OR place.parent_key IS NOT NULL AND place.found_at >= :since)`;

export function prepareSweptPartitions(db: Database.Database): SweptPartitions {
  const next = db.prepare<[string, number, string], SweptPartition>(
    `SELECT id, entity, coalesce(absence, 'walk') AS absence, swept_to AS sweptTo
     FROM _sync_partitions INDEXED BY _sync_partitions_sweep
     WHERE connector = ? AND sweep_origin = ? AND entity IN (SELECT value FROM json_each(?)) ORDER BY id LIMIT 1`,
  );
  const moveTo = db.prepare<[number, number]>('UPDATE _sync_partitions SET swept_to = ? WHERE id = ?');
  const finish = db.prepare<[string, number]>(
    'UPDATE _sync_partitions SET full_at = ?, sweep_origin = NULL, swept_to = 0 WHERE id = ?',
  );
  const otherPlaces = db.prepare<[BoundPlace], OtherPlace>(
    `SELECT also.partition, also.origin = :origin AS hasShown,
       coalesce(${isLed} AND place.full_origin IS NOT :origin, 0) AS mayShow,
       iif(place.gone = 0 AND place.full_origin = :origin, place.absence, NULL) AS absence
     FROM _sync_also AS also LEFT JOIN _sync_partitions AS place ON place.id = also.partition
     WHERE also.connector = :connector AND also.entity = :entity AND also.row = :row ORDER BY also.partition`,
  );
  const dropPlace = db.prepare<[string, string, number, number]>(
    'DELETE FROM _sync_also WHERE connector = ? AND entity = ? AND row = ? AND partition = ?',
  );
  const guests = db.prepare<[number, string, string, number, number], Guest>(
    `SELECT row, origin FROM _sync_also INDEXED BY _sync_also_partition
     WHERE partition = ? AND connector = ? AND entity = ? AND row > ? ORDER BY row LIMIT ?`,
  );
  const isLedTo = db
    .prepare<[BoundChain & { readonly partition: number }], number>(
      `SELECT 1 FROM _sync_partitions AS place WHERE id = :partition AND ${isLed}`,
    )
    .pluck();
  return {
    next: (connector, origin, entities) => next.get(connector, origin, JSON.stringify(entities)),
    moveTo: (id, sweptTo) => void moveTo.run(sweptTo, id),
    finish: (id, fullAt) => void finish.run(fullAt, id),
    otherPlaces: (connector, entity, row, chain) =>
      otherPlaces.all({ connector, entity, row, ...boundChain(chain) }),
    dropPlace: (connector, entity, row, partition) => void dropPlace.run(connector, entity, row, partition),
    guests: (connector, entity, partition, after, limit) =>
      guests.all(partition, connector, entity, after, limit),
    isLedTo: (partition, chain) => isLedTo.get({ partition, ...boundChain(chain) }) !== undefined,
  };
}

interface BoundChain {
  readonly origin: number;
  readonly since: Instant;
}

interface BoundPlace extends BoundChain {
  readonly connector: string;
  readonly entity: string;
  readonly row: number;
}

function boundChain({ origin, keepPartitionsSince }: SweepingChain): BoundChain {
  return { origin, since: keepPartitionsSince };
}
