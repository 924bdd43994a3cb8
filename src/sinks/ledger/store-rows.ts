import type { EntityName } from '../../core/names.ts';
import type { StoredCounts } from '../decisions/add-up.ts';
import {
  classifyMet,
  meetingPlace,
  misfitError,
  staleBefore,
  type StoredRow,
} from '../decisions/meet-record.ts';
import type { EntityRows } from '../sink.ts';
import type { Commit } from './ledger.ts';
import type { RecordTable } from './record-store.ts';

interface Showing {
  /** The partition that shows them; null outside a walk. */
  readonly home: number | null;
  /** Exploded rows: what is stored is never replaced, unless the store has lost it. */
  readonly isInsertOnly: boolean;
  /** False: the chain has not met them. */
  readonly countsAsSeen: boolean;
}

/** Stores a page's records of one entity and counts what they were. */
export function storeRows(commit: Commit, { entity, records }: EntityRows, showing: Showing): StoredCounts {
  const { ledger, held, current, stamp } = commit;
  const { connector } = held;
  const planned = current.tables.get(entity);
  if (planned === undefined) throw misfitError(entity, 'the plan has no table for it');
  const { table, width } = planned;
  const markSeen = showing.countsAsSeen ? seenMarker(commit, entity) : () => false;
  const stale = staleBefore(ledger.clock.now());
  const counts = { inserted: 0, updated: 0, duplicate: 0, unchanged: 0 };
  let revived = 0;
  for (const record of records) {
    if (record.values.length !== width) {
      throw misfitError(entity, `a record has ${record.values.length} values for ${width} columns`);
    }
    const stored = table.find(record);
    if (stored === undefined) {
      markSeen(table.insert(record, showing.home, stamp), true);
      counts.inserted += 1;
    } else {
      const isAtHome = meetRow(commit, entity, table, stored, showing.home);
      const wasSeen = markSeen(stored.row, isAtHome);
      const met = classifyMet(stored, record, { ...showing, wasSeen, staleBefore: stale });
      if (met.isWritten) table.update(stored.row, record, stamp);
      counts[met.kind] += 1;
      revived += stored.deletedAt === null ? 0 : 1;
    }
    if (record.file !== undefined) ledger.downloads.note(connector, entity, record.keyText, record.file);
  }
  ledger.tables.addRows(connector, entity, counts.inserted);
  ledger.tables.addDeleted(connector, entity, -revived);
  ledger.day.add(connector, entity, counts.inserted + revived, { origin: current.origin, now: stamp.now });
  return counts;
}

/** Notes where a stored row was met; true where that is its home. */
function meetRow(
  { ledger, held: { connector }, current: { origin } }: Commit,
  entity: EntityName,
  table: RecordTable,
  stored: StoredRow,
  partition: number | null,
): boolean {
  const { row, home } = stored;
  const place = meetingPlace(stored, partition);
  if (place === 'home' || partition === null) return true;
  const isGuest = place === 'guest' && home !== null && ledger.partitions.isLive.get(home) !== undefined;
  if (isGuest) ledger.places.meet.run({ connector, entity, row, partition, origin });
  else table.setHome(row, partition);
  return place === 'new-home';
}

/** Notes a row as met by the chain; true when it had been met before. A look for missing rows costs each page one statement, and each record one only where there are any. */
function seenMarker(
  { ledger, held, current }: Commit,
  entity: EntityName,
): (row: number, isAtHome: boolean) => boolean {
  const isAnyMissing = ledger.missing.isAny.get(held.connector, entity) !== undefined;
  return (row, isAtHome) => {
    const wasSeen = current.seen.mark(entity, row, isAtHome);
    if (isAnyMissing && !wasSeen) ledger.missing.forget.run(held.connector, entity, row);
    return wasSeen;
  };
}
