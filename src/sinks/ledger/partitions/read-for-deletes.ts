import type Database from 'better-sqlite3';
import type { EntityName } from '../../../core/names.ts';
import type { Needs } from '../../decisions/missing-rows.ts';
import { standing } from './states.ts';

export interface UnsweptPartition {
  readonly id: number;
  readonly entity: EntityName;
  readonly absence: Needs;
  /** 0 or more: rows of this home up to here are through. Below 0: all of them are, and guests up to row `-1 - sweptTo`. */
  readonly sweptTo: number;
}

/** A partition below a tombstoned record. */
export interface EndedPartitionRow {
  readonly id: number;
  readonly entity: EntityName;
  /** Rows up to here have been looked at, and stay. */
  readonly sweptTo: number;
}

interface ParentOf {
  readonly parentEntity: EntityName;
  readonly parentKey: string;
}

export function prepareDeleteReads(db: Database.Database) {
  const ended = `FROM _sync_partitions INDEXED BY _sync_partitions_gone WHERE connector = :connector AND gone = ${standing.ended}`;
  // The index holds what was set aside: few rows, however many partitions there are.
  const setAside =
    'FROM _sync_partitions INDEXED BY _sync_partitions_set_aside WHERE connector = ? AND set_aside_run = ?';
  return {
    /** The next partition whose full walk of this chain is to be swept. */
    nextUnswept: db.prepare<[{ connector: string; origin: number; entities: string }], UnsweptPartition>(
      `SELECT id, entity, coalesce(absence, 'walk') AS absence, swept_to AS sweptTo
       FROM _sync_partitions INDEXED BY _sync_partitions_sweep
       WHERE connector = :connector AND sweep_origin = :origin AND entity IN (SELECT value FROM json_each(:entities)) ORDER BY id LIMIT 1`,
    ),
    /** Below tombstoned records: those whose rows are still to be deleted. */
    nextEnded: db.prepare<[{ connector: string; entities: string }], EndedPartitionRow>(
      `SELECT id, entity, swept_to AS sweptTo ${ended} AND entity IN (SELECT value FROM json_each(:entities)) ORDER BY id LIMIT 1`,
    ),
    allEnded: db.prepare<[{ connector: string }], EndedPartitionRow>(
      `SELECT id, entity, swept_to AS sweptTo ${ended}`,
    ),
    /** That a record has led to. Those that are ended belong to a delete that has been judged already. */
    below: db.prepare<
      [connector: string, entity: string, keyText: string],
      Pick<EndedPartitionRow, 'id' | 'entity'>
    >(
      `SELECT id, entity FROM _sync_partitions
       WHERE connector = ? AND parent_entity = ? AND parent_key = ? AND backfill = '' AND gone <> ${standing.ended}`,
    ),
    /** Whether records of the entity lead to partitions at all. */
    leadsOn: db.prepare<[connector: string, entity: string]>(
      'SELECT 1 FROM _sync_partitions WHERE connector = ? AND parent_entity = ? AND parent_key IS NOT NULL LIMIT 1',
    ),
    /** Records that led to what this run was told not to exist. */
    notFoundBelow: db.prepare<[connector: string, run: string], ParentOf>(
      `SELECT DISTINCT parent_entity AS parentEntity, parent_key AS parentKey ${setAside}
         AND parent_key IS NOT NULL AND gone = ${standing.live} AND json_extract(failure, '$.code') = 'NOT_FOUND'`,
    ),
    endedBelow: db.prepare<[connector: string, run: string], Pick<EndedPartitionRow, 'id' | 'entity'>>(
      `SELECT id, entity ${setAside} AND gone > ${standing.live}`,
    ),
  };
}
