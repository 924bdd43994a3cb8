import type { Instant } from '../../core/clock.ts';
import type { PreparedRecord } from '../../core/records.ts';
import { isHash, type RecordTable, type StoredRow, type WriteStamp } from './record-store.ts';

/** What a record turned out to be. The order of the checks is part of the promise: see `storeRecord`. */
export type Classified = 'inserted' | 'updated' | 'duplicate' | 'unchanged';

export interface Classifying {
  readonly table: RecordTable;
  readonly stamp: WriteStamp;
  /** The partition that shows the record; null outside a walk. */
  readonly home: number | null;
  /** Notes the row as met by the chain, in its home or elsewhere; true when it had been met before. */
  readonly markSeen: (row: number, isAtHome: boolean) => boolean;
  /** A stored row is shown by a partition that is not its home. */
  readonly meetElsewhere: (stored: StoredRow, partition: number) => void;
  /** A tombstone was taken back. */
  readonly revived: (row: number) => void;
  /** Exploded rows: what is stored is never replaced, unless the store has lost it. */
  readonly isInsertOnly: boolean;
  /** A row that differs only in volatile fields is written again when it was last written at or before this. */
  readonly staleBefore: Instant;
}

/**
 * Stores a record and says what it was: inserted (new key), updated (another hash, or it was tombstoned), duplicate
 * (already met by this chain), unchanged. The last two cost no row write, save for stale volatile fields.
 */
export function storeRecord(record: PreparedRecord, how: Classifying): Classified {
  const { table, stamp, home } = how;
  const stored = table.find(record);
  if (stored === undefined) {
    how.markSeen(table.insert(record, home, stamp), true);
    return 'inserted';
  }
  const isElsewhere = home !== null && stored.home !== home;
  if (isElsewhere) how.meetElsewhere(stored, home);
  const isAtHome = !isElsewhere || stored.home === null || stored.deletedAt !== null;
  const wasSeen = how.markSeen(stored.row, isAtHome);
  const isDifferent = stored.hash !== record.hash && !(how.isInsertOnly && isHash(stored.hash));
  if (isDifferent || stored.deletedAt !== null) {
    table.update(stored.row, record, stamp);
    if (stored.deletedAt !== null) how.revived(stored.row);
    return 'updated';
  }
  const hasVolatileChange = stored.volatileHash !== record.volatileHash && !how.isInsertOnly;
  if (hasVolatileChange && stored.changedAt <= how.staleBefore) table.update(stored.row, record, stamp);
  return wasSeen ? 'duplicate' : 'unchanged';
}
