import { instant, type Instant } from '../../core/clock.ts';
import { SyncError } from '../../core/errors.ts';
import type { EntityName } from '../../core/names.ts';
import type { PageCounts, PreparedRecord } from '../../core/records.ts';
import type { EntityRows } from '../sink.ts';
import type { Commit } from './ledger.ts';
import { isHash, type RecordTable, type StoredRow } from './record-store.ts';

const volatileAfterMs = 24 * 60 * 60 * 1_000;

/** What records turned out to be. */
type StoredCounts = Pick<PageCounts, 'inserted' | 'updated' | 'duplicate' | 'unchanged'>;

/** How records came. */
interface Showing {
  /** The partition that shows them; null outside a walk. */
  readonly home: number | null;
  /** Exploded rows: what is stored is never replaced, unless the store has lost it. */
  readonly isInsertOnly: boolean;
  /** Notes a row as met by the chain, in its home or elsewhere; true when it had been met before. */
  readonly markSeen: (row: number, isAtHome: boolean) => boolean;
}

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
  const { connector } = held;
  const planned = current.tables.get(entity);
  if (planned === undefined) {
    throw misfit(entity, 'the plan has no table for it');
  }
  const staleBefore = instant(ledger.clock.now() - volatileAfterMs);
  const counts = { inserted: 0, updated: 0, duplicate: 0, unchanged: 0 };
  let revived = 0;
  for (const record of records) {
    if (record.values.length !== planned.width) {
      throw misfit(entity, `a record has ${record.values.length} values for ${planned.width} columns`);
    }
    const stored = planned.table.find(record);
    if (stored === undefined) {
      showing.markSeen(planned.table.insert(record, showing.home, stamp), true);
      counts.inserted += 1;
    } else {
      counts[meetRecord(commit, entity, planned.table, { record, stored, showing, staleBefore })] += 1;
      revived += stored.deletedAt === null ? 0 : 1;
    }
    if (record.file !== undefined) ledger.downloads.note(connector, entity, record.keyText, record.file);
  }
  ledger.tables.addRows(connector, entity, counts.inserted);
  ledger.tables.addDeleted(connector, entity, -revived);
  ledger.day.add(connector, entity, counts.inserted + revived, { origin: current.origin, now: stamp.now });
  return counts;
}

interface MetRecord {
  readonly record: PreparedRecord;
  readonly stored: StoredRow;
  readonly showing: Showing;
  /** A row that differs only in volatile fields is written again when it was last written at or before this. */
  readonly staleBefore: Instant;
}

/**
 * What a record with a stored key is: updated (another hash, or it was tombstoned), duplicate (already met by this chain), unchanged; in this
 * order. The last two cost no row write, save for stale volatile fields.
 */
function meetRecord(
  commit: Commit,
  entity: EntityName,
  table: RecordTable,
  { record, stored, showing: { home, isInsertOnly, markSeen }, staleBefore }: MetRecord,
): 'updated' | 'duplicate' | 'unchanged' {
  const { row, hash, deletedAt } = stored;
  const isElsewhere = home !== null && stored.home !== home;
  if (isElsewhere) meetElsewhere(commit, entity, stored, home);
  const wasSeen = markSeen(row, !isElsewhere || stored.home === null || deletedAt !== null);
  const isDifferent = hash !== record.hash && !(isInsertOnly && isHash(hash));
  if (isDifferent || deletedAt !== null) {
    table.update(row, record, commit.stamp);
    return 'updated';
  }
  const hasVolatileChange = stored.volatileHash !== record.volatileHash && !isInsertOnly;
  if (hasVolatileChange && stored.changedAt <= staleBefore) table.update(row, record, commit.stamp);
  return wasSeen ? 'duplicate' : 'unchanged';
}

/** A look for missing rows costs each page one statement, and each record one only where there are any. */
function seenMarker({ ledger, held, current }: Commit, entity: EntityName): Showing['markSeen'] {
  const isAnyMissing = ledger.missing.isAny.get(held.connector, entity) !== undefined;
  return (row, isAtHome) => {
    const wasSeen = current.seen.mark(entity, row, isAtHome);
    if (isAnyMissing && !wasSeen) ledger.missing.end.run(held.connector, entity, row);
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

function misfit(entity: EntityName, why: string): SyncError {
  return new SyncError(
    `Records of "${entity}" were not prepared for this run's plan: ${why}. This is a defect: report it with the run's log.`,
    { code: 'INTERNAL', recovery: 'stop', context: { entity } },
  );
}
