import type Database from 'better-sqlite3';
import type { ConnectorName, EntityName } from '../../core/names.ts';
import type { StoredCounts } from '../decisions/add-up.ts';
import {
  classifyMet,
  isNothingStored,
  meetingPlace,
  misfitError,
  staleBefore,
  type Showing,
  type StoredRow,
} from '../decisions/meet-record.ts';
import { standing } from '../decisions/standing.ts';
import type { EntityRows } from '../sink.ts';
import type { Commit, SeenRows } from './ledger.ts';
import type { RecordTable } from './record-store.ts';
import { columnOf, statement } from './statement.ts';

interface ShowingIn extends Showing {
  /** The partition that shows them; null outside a walk. */
  readonly home: number | null;
  /** False: the chain has not met them. */
  readonly countsAsSeen: boolean;
}

/** Stores a page's records of one entity and counts what they were. */
export function storeRows(commit: Commit, { entity, records }: EntityRows, showing: ShowingIn): StoredCounts {
  const { ledger, held, current, stamp } = commit;
  const { connector } = held;
  const planned = current.tables.get(entity);
  if (planned === undefined) throw misfitError(entity, 'the plan has no table for it');
  const { table, width } = planned;
  const markSeen = showing.countsAsSeen ? seenMarker(commit, entity) : () => false;
  const stale = staleBefore(ledger.clock.now());
  const counts = { quarantined: 0, inserted: 0, updated: 0, duplicate: 0, unchanged: 0 };
  let revived = 0;
  for (const record of records) {
    if (record.values.length !== width) {
      throw misfitError(entity, `a record has ${record.values.length} values for ${width} columns`);
    }
    const stored = table.find(record);
    if (record.partial !== undefined && isNothingStored(record, stored)) {
      ledger.quarantine.keep(connector, record.partial, stamp);
      counts.quarantined += 1;
    } else if (stored === undefined) {
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
  const isGuest = place === 'guest' && home !== null && isLivePartition(ledger.db).get(home) !== undefined;
  if (isGuest) meetElsewhere(ledger.db).run({ connector, entity, row, partition, origin });
  else table.setHome(row, partition);
  return place === 'new-home';
}

/** Notes a row as met by the chain; true when it had been met before. A look for missing rows costs each page one statement, and each record one only where there are any. */
function seenMarker(
  { ledger, held, current }: Commit,
  entity: EntityName,
): (row: number, isAtHome: boolean) => boolean {
  const isAnyNoted = isAnyMissing(ledger.db).get(held.connector, entity) !== undefined;
  return (row, isAtHome) => {
    const wasSeen = current.seen.mark(entity, row, isAtHome);
    if (isAnyNoted && !wasSeen) forgetMissing(ledger.db).run(held.connector, entity, row);
    return wasSeen;
  };
}

/** The row was met in a partition that is not its home. */
const meetElsewhere = statement<
  [
    {
      readonly connector: ConnectorName;
      readonly entity: EntityName;
      readonly row: number;
      readonly partition: number;
      readonly origin: number;
    },
  ]
>(
  `INSERT INTO _sync_also (connector, entity, row, partition, origin) VALUES (:connector, :entity, :row, :partition, :origin)
   ON CONFLICT (connector, entity, row, partition) DO UPDATE SET origin = excluded.origin
   WHERE origin <> excluded.origin`,
);
const isLivePartition = statement<[id: number]>(
  `SELECT 1 FROM _sync_partitions WHERE id = ? AND gone = ${standing.live}`,
);
/** Whether any row of the entity is noted as missing: only then meeting a row can end that. */
const isAnyMissing = statement<[connector: ConnectorName, entity: EntityName]>(
  'SELECT 1 FROM _sync_missing WHERE connector = ? AND entity = ? LIMIT 1',
);
/** The row exists after all, or is tombstoned: whatever walks have missed it does not count any more. */
export const forgetMissing = statement<[connector: ConnectorName, entity: EntityName, row: number]>(
  'DELETE FROM _sync_missing WHERE connector = ? AND entity = ? AND row = ?',
);

/** A chunk's first half says which rows were met, the second which of them in their home. */
export const chunkBytes = 4_096;
export const readChunk = columnOf<
  [connector: ConnectorName, entity: string, origin: number, chunk: number],
  Buffer
>('SELECT bits FROM _sync_seen WHERE connector = ? AND entity = ? AND origin = ? AND chunk = ?');
export const writeChunk = statement<
  [connector: ConnectorName, entity: string, origin: number, chunk: number, bits: Buffer]
>(
  `INSERT INTO _sync_seen (connector, entity, origin, chunk, bits) VALUES (?, ?, ?, ?, ?)
   ON CONFLICT (connector, entity, origin, chunk) DO UPDATE SET bits = excluded.bits`,
);
const homeHalf = chunkBytes / 2;
const rowsPerChunk = homeHalf * 8;
/** 1 MiB of chunks stays in memory between commits: rows of four million. */
const keptChunks = 256;

interface Chunk {
  readonly entity: EntityName;
  readonly number: number;
  readonly bits: Buffer;
  isChanged: boolean;
}

/** A bit per row number and entity, in chunks that are written in the page's transaction. */
export function openSeenRows(db: Database.Database, connector: ConnectorName, origin: number): SeenRows {
  const chunksByEntity = new Map<EntityName, Map<number, Chunk>>();
  let changed: Chunk[] = [];
  let count = 0;
  let last: Chunk | null = null;

  const load = (entity: EntityName, number: number): Chunk => {
    const chunks = chunksByEntity.get(entity) ?? new Map<number, Chunk>();
    chunksByEntity.set(entity, chunks);
    const known = chunks.get(number);
    if (known !== undefined) return known;
    const bits = readChunk(db).get(connector, entity, origin, number) ?? Buffer.alloc(chunkBytes);
    const chunk = { entity, number, bits, isChanged: false };
    chunks.set(number, chunk);
    count += 1;
    return chunk;
  };

  const forget = (): void => {
    chunksByEntity.clear();
    changed = [];
    count = 0;
    last = null;
  };

  const chunkOf = (entity: EntityName, row: number): Chunk => {
    const number = Math.floor(row / rowsPerChunk);
    if (last?.number !== number || last.entity !== entity) last = load(entity, number);
    return last;
  };

  const set = (chunk: Chunk, row: number, half: number): boolean => {
    const index = byteOf(row) + half;
    const byte = chunk.bits[index] ?? 0;
    if ((byte & bitOf(row)) !== 0) return true;
    chunk.bits[index] = byte | bitOf(row);
    if (!chunk.isChanged) changed.push(chunk);
    chunk.isChanged = true;
    return false;
  };

  const isSet = (entity: EntityName, row: number, half: number): boolean => {
    if (count > keptChunks && changed.length === 0) forget();
    return ((chunkOf(entity, row).bits[byteOf(row) + half] ?? 0) & bitOf(row)) !== 0;
  };

  return {
    mark: (entity, row, isAtHome) => {
      const chunk = chunkOf(entity, row);
      if (isAtHome) set(chunk, row, homeHalf);
      return set(chunk, row, 0);
    },
    has: (entity, row) => isSet(entity, row, 0),
    hasAtHome: (entity, row) => isSet(entity, row, homeHalf),
    save: () => {
      for (const chunk of changed) {
        writeChunk(db).run(connector, chunk.entity, origin, chunk.number, chunk.bits);
        chunk.isChanged = false;
      }
      changed = [];
      if (count > keptChunks) forget();
    },
    forget,
  };
}

function byteOf(row: number): number {
  return (row % rowsPerChunk) >> 3;
}

function bitOf(row: number): number {
  return 1 << (row & 7);
}

/** What a finished chain had met is needed no more. Also of chains whose runs are past their retention: they are never resumed. */
export function dropSeen(db: Database.Database, connector: ConnectorName, window: string): void {
  db.prepare<[string, string, string]>(
    `DELETE FROM _sync_seen WHERE connector = ? AND origin NOT IN
       (SELECT origin FROM _sync_runs WHERE connector = ? AND chain <> ?)`,
  ).run(connector, connector, window);
}
