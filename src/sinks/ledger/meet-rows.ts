import type { Instant } from '../../core/clock.ts';
import type { EntityName } from '../../core/names.ts';
import type { PreparedRecord, Quarantined } from '../../core/records.ts';
import type { StoredCounts } from '../decisions/add-up.ts';
import {
  classifyMet,
  isAsStored,
  isNothingStored,
  meetingPlace,
  misfitError,
  type MeetingPlace,
  type MetRecord,
  type Showing,
  type StoredRow,
} from '../decisions/meet-record.ts';
import type { EntityRows } from '../sink.ts';
import type { RowAt } from './deletes/places.ts';
import type { FileNote } from './downloads/note-files.ts';
import type { Commit } from './ledger.ts';
import type { RecordTable, WrittenRow } from './record-table.ts';

/** Records of one entity, as a page shows them. */
export interface ShownRows extends EntityRows, Showing {
  /** The partition that shows them; null outside a walk. */
  readonly owner: number | null;
}

/** An entity's records in a commit: what is known of them, and what is to be written. */
export interface Batch {
  readonly entity: EntityName;
  readonly table: RecordTable;
  /** By key text; as the records so far have left them. */
  readonly rows: Map<string, StoredRow>;
  /** Row numbers of the keys that are new. */
  readonly newRows: Map<string, number>;
  readonly written: WrittenRow[];
  readonly owners: Map<number, number>;
  readonly elsewhere: RowAt[];
  /** Stored rows that this chain has met for the first time. */
  readonly firstMet: Set<number>;
  readonly files: FileNote[];
  /** Rows that their owners show as they were before another listing changed them. */
  readonly collided: Set<number>;
  /** Of which only a part came, and nothing is stored. */
  readonly partial: Quarantined[];
  inserted: number;
  updated: number;
  revived: number;
}

/** What the records of a commit are met with. */
export interface Meeting {
  readonly commit: Commit;
  readonly live: ReadonlySet<number>;
  readonly isMet: boolean;
  /** A row that differs only in volatile fields is written again when it was last written at or before this. */
  readonly staleBefore: Instant;
}

/** Decides what each record is, in order, and notes in the batch what is to be written. */
export function meetRows(meeting: Meeting, batch: Batch, shown: ShownRows): StoredCounts {
  const counts = { quarantined: 0, inserted: 0, updated: 0, duplicate: 0, unchanged: 0 };
  for (const record of shown.records) {
    const stored = batch.rows.get(record.keyText);
    if (record.partial !== undefined && isNothingStored(record, stored)) {
      batch.partial.push(record.partial);
      counts.quarantined += 1;
    } else if (stored === undefined) {
      insertRow(meeting, batch, record, shown.owner);
      counts.inserted += 1;
    } else {
      counts[meetRow(meeting, batch, record, { stored, shown })] += 1;
    }
    if (record.file !== undefined) batch.files.push({ keyText: record.keyText, file: record.file });
  }
  return counts;
}

function insertRow(
  { commit: { current, stamp }, isMet }: Meeting,
  batch: Batch,
  given: PreparedRecord,
  owner: number | null,
): void {
  const record = wholeOf(batch, given);
  const { keyText, hash, volatileHash } = record;
  const row = batch.newRows.get(keyText) ?? 0;
  batch.written.push({ row, record, owner });
  batch.rows.set(keyText, { row, hash, volatileHash, changedAt: stamp.now, deletedAt: null, owner });
  current.raw.set(batch.entity, row, record);
  if (isMet) current.seen.mark(batch.entity, row, true);
  batch.inserted += 1;
}

function meetRow(
  meeting: Meeting,
  batch: Batch,
  record: PreparedRecord,
  { stored, shown }: { readonly stored: StoredRow; readonly shown: ShownRows },
): MetRecord['kind'] {
  const { row } = stored;
  const { current, stamp } = meeting.commit;
  const place = meetingPlace(stored, shown.owner);
  const owner = ownerOf(meeting, batch, stored, place, shown.owner);
  const wasSeen = markSeen(meeting, batch, row, place !== 'shared');
  const { staleBefore } = meeting;
  const met = classifyMet(stored, record, { ...shown, wasSeen, staleBefore });
  if (met.kind === 'updated' && current.window === '') {
    const { collisions, seen } = current;
    const { entity } = batch;
    if (place === 'owner') {
      const before = collisions.byEntity.get(entity)?.get(row)?.hash;
      if (before === record.hash) batch.collided.add(row);
    } else if (place === 'shared' && owner === stored.owner && shown.owner !== null) {
      collisions.changed(entity, { ...stored, by: shown.owner, wasMet: seen.hasInOwner(entity, row) });
    }
  }
  if (met.isWritten) {
    const whole = wholeOf(batch, record);
    const { keyText, hash, volatileHash } = whole;
    batch.written.push({ row, record: whole });
    current.raw.set(batch.entity, row, whole);
    const changedAt = stamp.now;
    batch.rows.set(keyText, { row, hash, volatileHash, changedAt, deletedAt: null, owner });
  } else {
    if (isToRemember(stored, record)) current.raw.meet(batch.entity, row, record, staleBefore);
    if (owner !== stored.owner) batch.rows.set(record.keyText, { ...stored, owner });
  }
  batch.updated += met.kind === 'updated' ? 1 : 0;
  batch.revived += stored.deletedAt === null ? 0 : 1;
  return met.kind;
}

/** It was parsed, and says what its row says. */
function isToRemember(stored: StoredRow, record: PreparedRecord): boolean {
  const isWhole = record.whole === undefined && record.partial === undefined;
  return record.raw !== undefined && isWhole && isAsStored(stored, record);
}

/** The record as it is stored: one that was not parsed is, because its row is no longer as it was found. */
function wholeOf({ entity }: Batch, record: PreparedRecord): PreparedRecord {
  const whole = record.whole?.() ?? record;
  if (whole.keyText === record.keyText && whole.values.length === record.values.length) return whole;
  throw misfitError(entity, 'parsed as a whole, a record has another key or width');
}

/**
 * The row's owner from now on. A shared row keeps its owner while that exists; otherwise the partition that shows the
 * row becomes its owner.
 */
function ownerOf(
  { live }: Meeting,
  batch: Batch,
  { row, owner }: StoredRow,
  place: MeetingPlace,
  partition: number | null,
): number | null {
  if (place === 'owner' || partition === null) return owner;
  if (place === 'shared' && owner !== null && live.has(owner)) {
    batch.elsewhere.push({ row, partition });
    return owner;
  }
  batch.owners.set(row, partition);
  return partition;
}

function markSeen(
  { commit: { current }, isMet }: Meeting,
  { entity, firstMet }: Batch,
  row: number,
  isInOwner: boolean,
): boolean {
  if (!isMet) return false;
  const wasSeen = current.seen.mark(entity, row, isInOwner);
  if (!wasSeen) firstMet.add(row);
  return wasSeen;
}
