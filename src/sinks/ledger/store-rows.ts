import { instant, type Instant } from '../../core/clock.ts';
import { SyncError } from '../../core/errors.ts';
import type { EntityName } from '../../core/names.ts';
import type { PageCounts, PreparedRecord } from '../../core/records.ts';
import type { EntityRows } from '../sink.ts';
import type { Commit, PlannedTable } from './ledger.ts';
import { isHash, type RecordTable, type StoredRow, type WriteStamp } from './record-store.ts';

const volatileAfterMs = 24 * 60 * 60 * 1_000;

type StoredCounts = Pick<PageCounts, 'inserted' | 'updated' | 'duplicate' | 'unchanged'>;

/** How records came. */
type Showing = Pick<Classifying, 'home' | 'isInsertOnly' | 'markSeen'>;

/**
 * Stores a page's records of one entity and counts what they were. `isInsertOnly`: exploded rows. `home`: the partition
 * that shows them; null outside a walk.
 */
export function storeRows(
  commit: Commit,
  rows: EntityRows,
  isInsertOnly: boolean,
  home: number | null,
): StoredCounts {
  return storeRecords(commit, rows, { isInsertOnly, home, markSeen: seenMarker(commit, rows.entity) });
}

/** `storeRows` with another say in what counts as seen by the chain. */
export function storeRecords(
  commit: Commit,
  { entity, records }: EntityRows,
  showing: Showing,
): StoredCounts {
  const { ledger, held, current, stamp } = commit;
  const planned = current.tables.get(entity);
  if (planned === undefined) {
    throw misfit(entity, 'the plan has no table for it');
  }
  let revived = 0;
  const how: Classifying = {
    ...showing,
    table: planned.table,
    stamp,
    meetElsewhere: (stored, partition) => meetElsewhere(commit, entity, stored, partition),
    revived: () => {
      revived += 1;
    },
    staleBefore: instant(ledger.clock.now() - volatileAfterMs),
  };
  const stored = { inserted: 0, updated: 0, duplicate: 0, unchanged: 0 };
  for (const record of records) {
    checkWidth(entity, record, planned);
    stored[storeRecord(record, how)] += 1;
    if (record.file !== undefined) {
      ledger.downloads.note(held.connector, entity, record.keyText, record.file);
    }
  }
  ledger.tables.addRows(held.connector, entity, stored.inserted);
  ledger.tables.addDeleted(held.connector, entity, -revived);
  ledger.day.add(held.connector, entity, stored.inserted + revived, {
    origin: current.origin,
    now: stamp.now,
  });
  return stored;
}

/** A look for missing rows costs each page one statement, and each record one only where there are any. */
function seenMarker({ ledger, held, current }: Commit, entity: EntityName): Classifying['markSeen'] {
  if (!ledger.missing.isAny(held.connector, entity)) {
    return (row, isAtHome) => current.seen.mark(entity, row, isAtHome);
  }
  return (row, isAtHome) => {
    const wasSeen = current.seen.mark(entity, row, isAtHome);
    if (!wasSeen) {
      ledger.missing.end(held.connector, entity, row);
    }
    return wasSeen;
  };
}

/** A row without a home, or one that is only being revived, gets this one; any other keeps its own as long as that is there. */
function meetElsewhere(
  { ledger, held, current }: Commit,
  entity: EntityName,
  { row, home, deletedAt }: StoredRow,
  partition: number,
): void {
  if (home === null || deletedAt !== null || ledger.partitions.isLive.get(home) === undefined) {
    current.tables.get(entity)?.table.setHome(row, partition);
  } else {
    ledger.places.meet.run({ connector: held.connector, entity, row, partition, origin: current.origin });
  }
}

function checkWidth(entity: EntityName, { values }: PreparedRecord, { width }: PlannedTable): void {
  if (values.length !== width) {
    throw misfit(entity, `a record has ${values.length} values for ${width} columns`);
  }
}

function misfit(entity: EntityName, why: string): SyncError {
  return new SyncError(
    `Records of "${entity}" were not prepared for this run's plan: ${why}. This is a defect: report it with the run's log.`,
    { code: 'INTERNAL', recovery: 'stop', context: { entity } },
  );
}

/** What a record turned out to be. The order of the checks is part of the promise: see `storeRecord`. */
type Classified = 'inserted' | 'updated' | 'duplicate' | 'unchanged';

interface Classifying {
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
function storeRecord(record: PreparedRecord, how: Classifying): Classified {
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
