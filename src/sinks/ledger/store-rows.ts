import type { Instant } from '../../core/clock.ts';
import { knownOrMade } from '../../core/grouped.ts';
import type { EntityName } from '../../core/names.ts';
import type { ContentDifference, PreparedRecord, Quarantined, RowContent } from '../../core/records.ts';
import { columnOf } from '../../sql/database.ts';
import { type StoredCounts, keepQuarantined } from './counts.ts';
import {
  classifyMet,
  hasHash,
  isNothingStored,
  meetingPlace,
  misfitError,
  staleBefore,
  storedHash,
  takesHash,
  type MeetingPlace,
  type MetRecord,
  type Showing,
  type StoredRow,
} from '../decisions/meet-record.ts';
import type { EntityRows } from '../sink.ts';
import { endMissing, meetElsewhere, type RowAt } from './deletes/noted-rows.ts';
import { noteFiles, type FileNote } from './downloads/ledger-files.ts';
import type { Commit } from './ledger.ts';
import { doubtListings, livePartitions } from './partitions/due-partitions.ts';
import type { PlannedTable, WrittenRow } from './driver.ts';
import { noteStored, tableNumbers, type TableNumbers } from './tables.ts';

/** Facts about a commit's records, read before the records are met. */
export type KnownRows = Awaited<ReturnType<typeof readStored>>;

/**
 * Reads in one round trip the rows stored under the records' keys, and all other facts that decide how the records are
 * stored and counted. `isMet` false: no walk has met the records, and the seen rows do not change. `missed`: entities
 * with rows that full walks have missed: only there can a met row end a miss.
 */
export async function readStored(commit: Commit, shown: readonly EntityRows[], isMet = true) {
  const { connector, current, tx } = commit;
  const keysOf = new Map<EntityName, Map<string, PreparedRecord>>();
  for (const rows of shown) {
    checkWidth(commit, rows);
    const keys = knownOrMade(keysOf, rows.entity, () => new Map<string, PreparedRecord>());
    for (const record of rows.records) {
      // A whole record of a key goes before one that came in part.
      if (record.partial === undefined || !keys.has(record.keyText)) keys.set(record.keyText, record);
    }
  }
  const entities = [...keysOf.keys()];
  const asked = entities.filter((entity) => (keysOf.get(entity)?.size ?? 0) > 0);
  const [numbers, missed, found] = await Promise.all([
    asked.length === 0
      ? new Map<EntityName, TableNumbers>()
      : tableNumbers(tx, { connector, entities: asked }),
    isMet && asked.length > 0 ? missedEntities(commit, asked) : new Set<EntityName>(),
    Promise.all(entities.map((entity) => findKnown(commit, entity, keysOf.get(entity) ?? new Map()))),
    isMet ? current.seen.begin(tx) : null,
  ]);
  const batches = new Map<EntityName, Batch>();
  for (const { entity, keys, table, rows } of found) {
    const met = Array.from(rows.values(), ({ row }) => row);
    const lastRow = numbers.get(entity)?.lastRow ?? 0;
    // Each new record is stored and gets the next number, except those that came only in part.
    let newest = lastRow;
    for (const [key, { partial }] of keys) {
      if (partial === undefined && !rows.has(key)) met.push((newest += 1));
    }
    if (newest > lastRow && !numbers.has(entity)) {
      throw new TypeError(`No table was declared for ${connector}/${entity}`);
    }
    const [contents] = await Promise.all([
      table.contents(tx, rowsToCompare(shown, entity, rows)),
      isMet && met.length > 0 ? current.seen.load(tx, entity, met) : null,
    ]);
    batches.set(entity, newBatch(entity, table, { rows, lastRow, contents: new Map(contents) }));
  }
  return { batches, numbers, missed, isMet };
}

/**
 * Stores the records of a commit's pages, in their order, and counts the outcomes for each of `shown`. Stored rows were
 * read before, all is decided here, and changes are written in sets.
 */
export async function storeRows(commit: Commit, shown: readonly ShownRows[], known: KnownRows) {
  const { batches, numbers, missed, isMet } = known;
  const meeting: Meeting = {
    commit,
    live: await liveOwners(commit, shown, batches),
    isMet,
    staleBefore: staleBefore(commit.ledger.clock.now()),
  };
  const counts = shown.map((rows) => {
    const batch = batches.get(rows.entity);
    if (batch === undefined) throw misfitError(rows.entity, 'it was not read');
    return meetRows(meeting, batch, rows);
  });
  for (const batch of batches.values()) {
    await writeBatch(commit, batch, missed.has(batch.entity));
    await doubtListings(commit, batch.entity, batch.collided);
  }
  const { current, connector, stamp, tx } = commit;
  noteStored(tx, connector, [...batches.values()], { origin: current.origin, now: stamp.now, numbers });
  return counts;
}

async function findKnown(
  { current, tx }: Commit,
  entity: EntityName,
  keys: ReadonlyMap<string, PreparedRecord>,
) {
  const table = current.tables.get(entity);
  if (table === undefined) throw misfitError(entity, 'the plan has no table for it');
  const rows = new Map<string, StoredRow>();
  const others: PreparedRecord[] = [];
  for (const [keyText, record] of keys) {
    const found = table.foundRow(record);
    if (found === null) others.push(record);
    else rows.set(keyText, found);
  }
  if (others.length > 0) for (const [keyText, row] of await table.find(tx, others)) rows.set(keyText, row);
  return { entity, keys, table, rows };
}

/** Rows that were not stored from the records that are shown: their values are compared. */
function rowsToCompare(
  shown: readonly EntityRows[],
  entity: EntityName,
  rows: ReadonlyMap<string, StoredRow>,
): readonly number[] {
  const toCompare = new Set<number>();
  for (const one of rows.size === 0 ? [] : shown) {
    if (one.entity !== entity) continue;
    for (const record of one.records) {
      const stored = rows.get(record.keyText);
      if (stored !== undefined && !hasHash(stored, record)) toCompare.add(stored.row);
    }
  }
  return [...toCompare];
}

function checkWidth({ current }: Commit, { entity, records }: EntityRows): void {
  const width = current.tables.get(entity)?.columns.length;
  if (width === undefined) return;
  const unfit = records.find(({ values, whole }) => whole === undefined && values.length !== width);
  if (unfit === undefined) return;
  throw misfitError(entity, `a record has ${unfit.values.length} values for ${width} columns`);
}

/** Existing partitions among the owners of rows that another partition shows. */
async function liveOwners({ tx }: Commit, shown: readonly ShownRows[], batches: KnownRows['batches']) {
  const owners = new Set<number>();
  const [first] = shown;
  const isOneOwner = shown.every(({ owner }) => owner === first?.owner);
  if (isOneOwner && [...batches.values()].every(({ rows }) => rows.size === 0)) return owners;
  const ownersOf = new Map<EntityName, Map<string, number>>();
  for (const { entity, owner, records } of shown) {
    if (owner === null) continue;
    const rows = batches.get(entity)?.rows;
    const ownerOf = knownOrMade(ownersOf, entity, () => new Map<string, number>());
    for (const { keyText } of records) {
      const known = ownerOf.get(keyText) ?? rows?.get(keyText)?.owner ?? null;
      if (known !== null && known !== owner) owners.add(known).add(owner);
      if (known === null) ownerOf.set(keyText, owner);
    }
  }
  return owners.size === 0 ? owners : await livePartitions(tx, [...owners]);
}

/** `EXISTS` would be planned as a join, which goes through all missing rows. */
async function missedEntities({ connector, tx }: Commit, entities: readonly EntityName[]) {
  const found = await columnOf<EntityName | null>(
    tx,
    `SELECT (SELECT m.entity FROM _sync_missing AS m
       WHERE m.connector = :connector AND m.entity = asked.entity LIMIT 1)
     FROM {asked: entity text}`,
    { asked: entities.map((entity) => ({ entity })), connector },
  );
  return new Set(found.filter((entity) => entity !== null));
}

async function writeBatch({ connector, current, tx, stamp }: Commit, batch: Batch, isAnyMissing: boolean) {
  const { entity, table, written, owners, hashes, elsewhere, firstMet, files, partial } = batch;
  const of = { connector, entity };
  await table.write(tx, written, stamp);
  const rowOwners = [...owners].map(([row, owner]) => ({ row, owner }));
  table.setOwners(tx, rowOwners);
  const rowHashes = Array.from(hashes, ([row, hash]) => ({ row, hash }));
  table.setHashes(tx, rowHashes);
  meetElsewhere(tx, { ...of, origin: current.origin }, elsewhere);
  if (isAnyMissing) endMissing(tx, of, [...firstMet]);
  await noteFiles(tx, of, files);
  keepQuarantined(tx, connector, partial, stamp);
}

/** Records of one entity, as a page shows them. */
interface ShownRows extends EntityRows, Showing {
  /** The partition that shows them; null outside a walk. */
  readonly owner: number | null;
}

type Batch = ReturnType<typeof newBatch>;

interface BatchRows {
  /** By key text, as left by the records so far. */
  readonly rows: Map<string, StoredRow>;
  /** The highest number of a row before the commit. */
  readonly lastRow: number;
  /** The content of rows that no record of this commit has written. */
  readonly contents: Map<number, RowContent>;
}

/** An entity's records in a commit: their stored rows, and the rows to write. */
function newBatch(entity: EntityName, table: PlannedTable, rows: BatchRows) {
  return {
    entity,
    table,
    ...rows,
    written: [] as WrittenRow[],
    owners: new Map<number, number>(),
    /** New hashes of rows that other bytes show with the same values. */
    hashes: new Map<number, string>(),
    elsewhere: [] as RowAt[],
    /** Stored rows that this chain has met for the first time. */
    firstMet: new Set<number>(),
    files: [] as FileNote[],
    /** Rows that their owners show as they were before another listing changed them. */
    collided: new Set<number>(),
    /** Records that came only in part; nothing of them is stored. */
    partial: [] as Quarantined[],
    inserted: 0,
    updated: 0,
    revived: 0,
  };
}

/** Context in which the records of a commit are met. */
interface Meeting {
  readonly commit: Commit;
  readonly live: ReadonlySet<number>;
  readonly isMet: boolean;
  /** A row that differs only in volatile fields is written again when it was last written at or before this. */
  readonly staleBefore: Instant;
}

/** Decides the outcome of each record, in order, and notes the rows to write in the batch. */
function meetRows(meeting: Meeting, batch: Batch, shown: ShownRows): StoredCounts {
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
  batch.inserted += 1;
  const row = batch.lastRow + batch.inserted;
  batch.written.push({ row, record, owner, isSame: false });
  noteWritten(batch, row, record, stamp.now, owner);
  if (isMet) current.seen.mark(batch.entity, row, true);
}

function meetRow(
  meeting: Meeting,
  batch: Batch,
  given: PreparedRecord,
  { stored, shown }: { readonly stored: StoredRow; readonly shown: ShownRows },
): MetRecord['kind'] {
  const { row } = stored;
  // Before it is parsed, a record has no values to compare.
  const record = hasHash(stored, given) ? given : wholeOf(batch, given);
  const { current, stamp } = meeting.commit;
  const place = meetingPlace(stored, shown.owner);
  const owner = ownerOf(meeting, batch, stored, place, shown.owner);
  const wasSeen = markSeen(meeting, batch, row, place !== 'shared');
  const { staleBefore } = meeting;
  const difference = differenceOf(batch, stored, record, shown.isInsertOnly);
  const met = classifyMet(stored, record, { ...shown, difference, wasSeen, staleBefore });
  if (met.kind === 'updated' && current.window === '') {
    const { collisions, seen } = current;
    const { entity } = batch;
    if (place === 'owner') {
      const before = collisions.byEntity.get(entity)?.get(row);
      if (before !== undefined && hasHash(before, record)) batch.collided.add(row);
    } else if (place === 'shared' && owner === stored.owner && shown.owner !== null) {
      collisions.changed(entity, { ...stored, by: shown.owner, wasMet: seen.hasInOwner(entity, row) });
    }
  }
  if (met.isWritten) {
    const whole = wholeOf(batch, record);
    batch.written.push({ row, record: whole, isSame: difference !== 'content' });
    noteWritten(batch, row, whole, stamp.now, owner);
  } else {
    const isOther = difference === 'same' && record.partial === undefined && !shown.isInsertOnly;
    if (isOther && takesHash(stored, record, stamp.now)) {
      batch.hashes.set(row, storedHash(record, stamp.now));
    }
    if (owner !== stored.owner) batch.rows.set(record.keyText, { ...stored, owner });
  }
  batch.updated += met.kind === 'updated' ? 1 : 0;
  batch.revived += stored.deletedAt === null ? 0 : 1;
  return met.kind;
}

/** The row is from now on as the record has left it. */
function noteWritten(
  { rows, contents, hashes }: Batch,
  row: number,
  record: PreparedRecord,
  now: Instant,
  owner: number | null,
): void {
  rows.set(record.keyText, { row, hash: storedHash(record, now), changedAt: now, deletedAt: null, owner });
  contents.delete(row);
  hashes.delete(row);
}

/** How the record differs from its row. */
function differenceOf(
  { contents, written, table: { columns } }: Batch,
  stored: StoredRow,
  record: PreparedRecord,
  isInsertOnly: boolean,
): ContentDifference {
  if (isInsertOnly || record.partial !== undefined || hasHash(stored, record)) return 'same';
  const row = contents.get(stored.row);
  if (row !== undefined) return record.compare(record, row);
  // An earlier record of this commit has written it.
  const earlier = written.findLast((one) => one.row === stored.row);
  return earlier === undefined ? 'content' : record.compare(record, { ...earlier.record, columns });
}

/** The record as it is stored: one that was not parsed is, because its row is no longer as it was found. */
function wholeOf({ entity, table }: Batch, record: PreparedRecord): PreparedRecord {
  const whole = record.whole?.() ?? record;
  if (whole.keyText === record.keyText && whole.values.length === table.columns.length) return whole;
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
