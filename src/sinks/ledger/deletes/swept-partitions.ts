import type Database from 'better-sqlite3';
import type { Instant } from '../../../core/clock.ts';
import type { ConnectorName, EntityName } from '../../../core/names.ts';

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
  /** 0 where the partition is no more, where nothing leads to it, or where this chain has walked it in full. */
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
    origin: number,
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
  isThere(partition: number): boolean;
}

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
  const otherPlaces = db.prepare<[number, number, number, string, string, number], OtherPlace>(
    `SELECT also.partition, also.origin = ? AS hasShown, coalesce(place.gone = 0 AND place.full_origin IS NOT ?, 0) AS mayShow,
       iif(place.gone = 0 AND place.full_origin = ?, place.absence, NULL) AS absence
     FROM _sync_also AS also LEFT JOIN _sync_partitions AS place ON place.id = also.partition
     WHERE also.connector = ? AND also.entity = ? AND also.row = ? ORDER BY also.partition`,
  );
  const dropPlace = db.prepare<[string, string, number, number]>(
    'DELETE FROM _sync_also WHERE connector = ? AND entity = ? AND row = ? AND partition = ?',
  );
  const guests = db.prepare<[number, string, string, number, number], Guest>(
    `SELECT row, origin FROM _sync_also INDEXED BY _sync_also_partition
     WHERE partition = ? AND connector = ? AND entity = ? AND row > ? ORDER BY row LIMIT ?`,
  );
  const isThere = db.prepare<[number], number>('SELECT 1 FROM _sync_partitions WHERE id = ?').pluck();
  return {
    next: (connector, origin, entities) => next.get(connector, origin, JSON.stringify(entities)),
    moveTo: (id, sweptTo) => void moveTo.run(sweptTo, id),
    finish: (id, fullAt) => void finish.run(fullAt, id),
    otherPlaces: (connector, entity, row, origin) =>
      otherPlaces.all(origin, origin, origin, connector, entity, row),
    dropPlace: (connector, entity, row, partition) => void dropPlace.run(connector, entity, row, partition),
    guests: (connector, entity, partition, after, limit) =>
      guests.all(partition, connector, entity, after, limit),
    isThere: (partition) => isThere.get(partition) !== undefined,
  };
}
