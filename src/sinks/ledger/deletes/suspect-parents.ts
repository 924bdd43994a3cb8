import type Database from 'better-sqlite3';
import type { EntityName } from '../../../core/names.ts';
import type { EndedPartition } from '../../deletes.ts';
import type { Commit } from '../ledger.ts';

/** What an unknown child says of the record that led to it. */
export interface SuspectParents {
  /** Notes as missing the parents of what this run was told not to exist; see `Deletes.suspectParents`. */
  suspect(commit: Commit, confirmable: readonly EntityName[]): void;
  /** What this run has set aside and is below a tombstoned record now. */
  ended(commit: Commit): readonly EndedPartition[];
}

interface Unknown {
  readonly parentEntity: EntityName;
  readonly parentKey: string;
}

/** The index holds what was set aside: few rows, however many partitions there are. */
const setAsideNow = `FROM _sync_partitions INDEXED BY _sync_partitions_set_aside
  WHERE connector = ? AND set_aside_run = ?`;

export function prepareSuspectParents(db: Database.Database): SuspectParents {
  const unknown = db.prepare<[string, string], Unknown>(
    `SELECT DISTINCT parent_entity AS parentEntity, parent_key AS parentKey ${setAsideNow}
       AND parent_key IS NOT NULL AND gone = 0 AND json_extract(failure, '$.code') = 'NOT_FOUND'`,
  );
  // Vouched for from the start: where `get` still finds the record, no walk was wrong about it.
  const note = db.prepare<[string, string, number, number, number, string]>(
    `INSERT INTO _sync_missing
       (connector, entity, row, partition, origin, missed, since, needs, is_allowed, is_vouched_for)
     VALUES (?, ?, ?, ?, ?, 1, ?, 'get', 0, 1)
     ON CONFLICT (connector, entity, row) DO UPDATE SET missed = max(missed, 1), needs = 'get'`,
  );
  const ended = db.prepare<[string, string], EndedPartition>(`SELECT id, entity ${setAsideNow} AND gone > 0`);
  return {
    suspect: ({ held: { connector }, current, stamp }, confirmable) => {
      for (const { parentEntity, parentKey } of unknown.all(connector, current.run)) {
        const parent = current.tables.get(parentEntity)?.table.rowOf(parentKey);
        const isOpen =
          parent !== undefined &&
          parent.deletedAt === null &&
          parent.home !== null &&
          confirmable.includes(parentEntity) &&
          !current.seen.has(parentEntity, parent.row);
        if (isOpen) note.run(connector, parentEntity, parent.row, parent.home, current.origin, stamp.now);
      }
    },
    ended: ({ held, current }) => ended.all(held.connector, current.run),
  };
}
