import type Database from 'better-sqlite3';
import type { Instant } from '../../../core/clock.ts';
import type { EntityName } from '../../../core/names.ts';
import type { Needs } from '../../decisions/missing-rows.ts';
import { standing } from '../../decisions/standing.ts';
import { anyKnown, anyLive, transition } from './states.ts';

/** Those of backfills are left alone: their chains end by themselves. */
const below =
  "connector = :connector AND parent_entity = :entity AND parent_key = :keyText AND backfill = ''";

/** What deletes do to partitions. */
export const deleting = {
  // 0 or more: the rows at home here are through up to this one. Below 0, in a sweep alone: all of them are, and so are the guests up to row `-1 - sweptTo`.
  sweepTo: transition<{ readonly id: number; readonly sweptTo: number }>({
    what: 'its rows have been looked at up to this one',
    from: ['unswept', 'ended'],
    by: ['deletes/sweep-rows', 'deletes/delete-rows'],
    sql: 'UPDATE _sync_partitions SET swept_to = :sweptTo WHERE id = :id',
  }),
  endSweep: transition<{ readonly id: number; readonly fullAt: Instant }>({
    what: 'its full walk counts: the rows that it did not meet are noted as missing',
    from: ['unswept'],
    to: ['idle'],
    by: ['deletes/sweep-rows'],
    sql: 'UPDATE _sync_partitions SET full_at = :fullAt, sweep_origin = NULL, swept_to = 0 WHERE id = :id',
  }),
  withdraw: transition<{ readonly id: number }>({
    what: 'its walk missed a record that is there: it proved nothing, and the next one is full',
    from: anyKnown,
    by: ['deletes/ledger-deletes'],
    sql: 'UPDATE _sync_partitions SET full_at = NULL, marker = NULL, watermark = NULL WHERE id = :id',
  }),
  // Also what it has ended before: rows may have come back in another way than by a walk. Who set it aside is kept for the report.
  end: transition<Below, { readonly id: number }>({
    what: 'the record above is deleted: not walked any more, and nothing that was known of it counts',
    from: [...anyLive, 'emptied', 'resting'],
    to: ['ended'],
    by: ['deletes/delete-rows'],
    sql: `UPDATE _sync_partitions SET gone = ${standing.ended}, due_since = NULL, ready = 0, listed = 0, position = NULL, watermark = NULL,
        marker = NULL, found_marker = NULL, full_at = NULL, full_origin = NULL, sweep_origin = NULL, swept_to = 0,
        failure = NULL, failed_at = NULL
      WHERE ${below} AND gone <> ${standing.ended} RETURNING id`,
  }),
  empty: transition<{ readonly id: number }>({
    what: 'its rows are deleted, have another home, or wait for a `get`',
    from: ['ended'],
    to: ['emptied'],
    by: ['deletes/delete-rows'],
    sql: `UPDATE _sync_partitions SET gone = ${standing.emptied}, swept_to = 0 WHERE id = :id`,
  }),
  rest: transition<Below, { readonly id: number }>({
    what: 'listings leave the record above out although it exists: rests until one shows it again',
    from: anyLive,
    to: ['resting'],
    by: ['deletes/ledger-deletes'],
    sql: `UPDATE _sync_partitions SET gone = ${standing.resting}, due_since = NULL, ready = 0, listed = 0, position = NULL,
        failure = NULL, failed_at = NULL
      WHERE ${below} AND gone = ${standing.live} RETURNING id`,
  }),
  giveBack: transition<Below & { readonly origin: number; readonly now: Instant }>({
    what: 'the record above is back although no walk has found it: the next chain walks it from the start',
    from: ['ended', 'emptied', 'resting'],
    to: ['idle', 'unswept'],
    by: ['repair/ledger-repair'],
    sql: `UPDATE _sync_partitions SET gone = ${standing.live}, origin = :origin, found_at = :now
      WHERE ${below} AND gone > ${standing.live}`,
  }),
} as const;

export interface Below {
  readonly connector: string;
  readonly entity: string;
  readonly keyText: string;
}

export interface UnsweptPartition {
  readonly id: number;
  readonly entity: EntityName;
  readonly absence: Needs;
  /** How far its sweep has come: see `sweepTo`. */
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

/** What deletes read of `_sync_partitions`. */
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
