import type { ConnectorName, EntityName, OfEntity } from '../../core/names.ts';
import { ask, put, type Tx } from '../../sql/database.ts';
import { knownOrMade } from '../../core/grouped.ts';
import type { Instant } from '../../core/clock.ts';
import type { PreparedRecord } from '../../core/records.ts';
import type { RawRecord, SameRow } from '../stored-keys.ts';
import type { PlannedTable } from './driver.ts';

/** Bytes about as many neighbouring rows of an entity as fit into it. */
interface Block {
  readonly entity: EntityName;
  readonly chunk: number;
  readonly bytes: Buffer;
  isChanged: boolean;
}

/**
 * Blocks of rows by number; up to `most` stay in memory between transactions. Rows must be loaded before they are asked
 * for, in the same transaction; changes are written in it.
 */
function openBlocks<One extends Block>(most: number, rowsPerOne: number) {
  const byEntity = new Map<EntityName, Map<number, One>>();
  let changed: One[] = [];
  let count = 0;
  let lastTx: Tx | null = null;
  const drop = (): void => {
    byEntity.clear();
    changed = [];
    count = 0;
  };
  const numberOf = (row: number): number => Math.floor(row / rowsPerOne);
  return {
    /** Drops all blocks in memory, because the transaction was rolled back. */
    drop,
    of: (entity: EntityName, row: number) => byEntity.get(entity)?.get(numberOf(row)),
    add: (block: One): One => {
      knownOrMade(byEntity, block.entity, () => new Map<number, One>()).set(block.chunk, block);
      count += 1;
      return block;
    },
    /** Numbers of the blocks of these rows that are not in memory. */
    missing: (tx: Tx, entity: EntityName, rows: readonly number[]): readonly number[] => {
      // Only between transactions: a transaction still needs the blocks that it has loaded.
      if (tx !== lastTx && count > most) drop();
      lastTx = tx;
      const known = byEntity.get(entity);
      return [...new Set(rows.map(numberOf))].filter((number) => known?.has(number) !== true);
    },
    change: (block: One): void => {
      if (block.isChanged) return;
      block.isChanged = true;
      changed.push(block);
    },
    /** Returns the changed blocks by entity and number, to be stored in one statement. Call it once per transaction. */
    takeChanged: (): readonly One[] => {
      const taken = changed.toSorted(
        (one, other) => compare(one.entity, other.entity) || one.chunk - other.chunk,
      );
      for (const block of taken) block.isChanged = false;
      changed = [];
      return taken;
    },
  };
}

function compare(one: string, other: string): number {
  return one < other ? -1 : Number(one > other);
}

// --- Seen rows: which rows a chain of runs has met

/** A chunk's first half says which rows were met, the second which of them in their owner. */
const chunkBytes = 1_024;
const ownerHalf = chunkBytes / 2;
const rowsPerChunk = ownerHalf * 8;
/** 1 MiB of chunks: rows of four million. */
const keptChunks = 1_024;

/**
 * Rows that a chain of runs has met: one bit per row number and entity, in chunks of 1 KiB. The second half of a chunk
 * marks rows met in their owner. Chunks are written in the page's transaction, so that they survive a kill with the
 * rows.
 */
export type SeenRows = ReturnType<typeof openSeenRows>;

export function openSeenRows(connector: ConnectorName, origin: number) {
  const chain = { connector, origin };
  const chunks = openBlocks(keptChunks, rowsPerChunk);
  /** Stored chunks as named by `keyOf`; null: not known. */
  let stored: Set<string> | null = null;

  /** Reads once which chunks are stored: the others are empty, and cost no statement to load. */
  const begin = async (tx: Tx): Promise<void> => {
    if (stored !== null) return;
    stored = new Set((await storedChunks(tx, chain)).map(keyOf));
  };
  const chunkOf = (entity: EntityName, row: number): Block => {
    const chunk = chunks.of(entity, row);
    if (chunk === undefined) throw new TypeError(`Seen rows of ${entity} are asked for that were not loaded`);
    return chunk;
  };
  const set = (chunk: Block, row: number, half: number): boolean => {
    if (isSet(chunk, row, half)) return true;
    const index = byteOf(row) + half;
    chunk.bytes[index] = (chunk.bytes[index] ?? 0) | bitOf(row);
    chunks.change(chunk);
    return false;
  };

  return {
    begin,
    /** Reads the chunks of these rows that are stored and not in memory, in one statement. */
    load: async (tx: Tx, entity: EntityName, rows: readonly number[]): Promise<void> => {
      await begin(tx);
      const missing = chunks.missing(tx, entity, rows);
      const wanted = missing.filter((chunk) => stored?.has(keyOf({ entity, chunk })) === true);
      const found = wanted.length === 0 ? [] : await readChunks(tx, { ...chain, entity, wanted });
      const bytesOf = new Map(found.map(({ chunk, bytes }) => [chunk, bytes]));
      for (const chunk of missing) {
        const bytes = bytesOf.get(chunk) ?? Buffer.alloc(chunkBytes);
        chunks.add({ entity, chunk, bytes, isChanged: false });
      }
    },
    /** Notes the row, and whether its owner has shown it; true when the chain had met it before, in any partition. */
    mark: (entity: EntityName, row: number, isInOwner: boolean): boolean => {
      const chunk = chunkOf(entity, row);
      if (isInOwner) set(chunk, row, ownerHalf);
      return set(chunk, row, 0);
    },
    /** Whether the chain has met the row. */
    has: (entity: EntityName, row: number) => isSet(chunkOf(entity, row), row, 0),
    /** Whether the chain has met the row in its owner. */
    hasInOwner: (entity: EntityName, row: number) => isSet(chunkOf(entity, row), row, ownerHalf),
    save: (tx: Tx): void => {
      const v = chunks.takeChanged();
      if (v.length === 0) return;
      putChunks(tx, { ...chain, v });
      for (const one of v) stored?.add(keyOf(one));
    },
    forget: (): void => {
      chunks.drop();
      stored = null;
    },
  };
}

type OfChain = { readonly connector: ConnectorName; readonly origin: number };
type ChunkName = Pick<Block, 'entity' | 'chunk'>;

const storedChunks = ask<OfChain, ChunkName>(
  `SELECT entity, chunk FROM _sync_seen WHERE connector = :connector AND origin = :origin`,
);
const readChunks = ask<
  OfChain & { readonly entity: EntityName; readonly wanted: readonly number[] },
  Pick<Block, 'chunk' | 'bytes'>
>(
  `SELECT chunk, bits AS bytes FROM _sync_seen
   WHERE connector = :connector AND entity = :entity AND origin = :origin AND chunk IN {wanted bigint}`,
);
const putChunks = put<OfChain & { readonly v: readonly Block[] }>(
  `INSERT INTO _sync_seen (connector, entity, origin, chunk, bits)
   SELECT CAST(:connector AS text), v.entity, CAST(:origin AS bigint), v.chunk, v.bytes
   FROM {v: entity text, chunk bigint, bytes bytea, n} ORDER BY v.n
   ON CONFLICT (connector, entity, origin, chunk) DO UPDATE SET bits = excluded.bits`,
);

function isSet({ bytes }: Block, row: number, half: number): boolean {
  return ((bytes[byteOf(row) + half] ?? 0) & bitOf(row)) !== 0;
}

function keyOf({ entity, chunk }: ChunkName): string {
  return `${chunk} ${entity}`;
}

function byteOf(row: number): number {
  return (row % rowsPerChunk) >> 3;
}

function bitOf(row: number): number {
  return 1 << (row & 7);
}

/**
 * The seen rows of a finished chain are no longer needed. Also of chains whose runs are past their retention: they are
 * never resumed.
 */
export const dropSeen = put<{ connector: ConnectorName; window: string }>(
  `DELETE FROM _sync_seen WHERE connector = :connector AND origin NOT IN
     (SELECT origin FROM _sync_runs WHERE connector = :connector AND chain <> :window)`,
);

// --- Raw rows: from which bytes rows were stored

/** 1 MiB of blocks: rows of 65,536 neighbours. */
const keptBlocks = 512;

interface RawBlock extends Block {
  replacedAt: Instant | null;
}

/**
 * Hashes of the bytes from which rows were stored: a slot per row number and entity, in blocks of 2 KiB, written in the
 * transaction that stores the rows. `startedAt`: start of the run's chain. The slot of a row no longer counts once
 * anything else writes the row, because its hashes then differ.
 */
export type RawRows = ReturnType<typeof openRawRows>;

export function openRawRows(connector: ConnectorName, startedAt: Instant) {
  const blocks = openBlocks<RawBlock>(keptBlocks, rowsPerBlock);
  /** The highest stored block of each entity; -1: there is none. */
  const highest = new Map<EntityName, number>();
  /** Whether any block was stored before this run stored its first. */
  const wasAny = new Map<EntityName, boolean>();

  const begin = async (tx: Tx, entities: readonly EntityName[]): Promise<void> => {
    const asked = entities.filter((entity) => !highest.has(entity)).map((entity) => ({ entity }));
    if (asked.length === 0) return;
    for (const { entity, chunk } of await highestChunks(tx, { connector, asked })) {
      highest.set(entity, chunk ?? -1);
      if (!wasAny.has(entity)) wasAny.set(entity, chunk !== null);
    }
  };
  /** Undefined for one that is not stored and would stay empty. */
  const blockOf = (entity: EntityName, row: number, isToBeFilled: boolean): RawBlock | undefined => {
    const block = blocks.of(entity, row);
    if (block !== undefined) return block;
    const chunk = chunkOf(row);
    if (chunk <= (highest.get(entity) ?? Infinity)) {
      throw new TypeError(`Bytes of rows of ${entity} are set that were not loaded`);
    }
    return isToBeFilled ? blocks.add(emptyBlock(entity, chunk)) : undefined;
  };
  const write = (block: RawBlock, row: number, record: OfBytes): void => {
    if (writeSlot(block.bytes, slotOf(row), record)) blocks.change(block);
  };

  return {
    /** Reads once for each entity how far blocks are stored: those above cost no statement to load. */
    begin,
    /** Reads the blocks of these rows that are stored and not in memory, in one statement. After `begin`. */
    load: async (tx: Tx, entity: EntityName, rows: readonly number[]): Promise<void> => {
      const last = highest.get(entity) ?? -1;
      const wanted = blocks.missing(tx, entity, rows).filter((chunk) => chunk <= last);
      if (wanted.length === 0) return;
      const found = await readBlocks(tx, { connector, entity, wanted });
      const stored = new Map(found.map((one) => [one.chunk, one]));
      for (const chunk of wanted) blocks.add({ ...emptyBlock(entity, chunk), ...stored.get(chunk) });
    },
    /** The row was written: from this record's bytes, or from unknown ones. */
    set: (entity: EntityName, row: number, record: OfBytes): void => {
      const block = blockOf(entity, row, record.raw !== undefined);
      if (block !== undefined) write(block, row, record);
    },
    /**
     * The row was met as it is. Other bytes of the same content take the place of known ones once a day in each block,
     * in one run: where a service never spells its records the same, blocks would be written with every page.
     */
    meet: (entity: EntityName, row: number, record: OfBytes, dayAgo: Instant): void => {
      const block = blockOf(entity, row, true);
      if (block === undefined || holds(block.bytes, slotOf(row), record)) return;
      const isKnown = tagAt(block.bytes, slotOf(row)) === tagOf(record);
      const { replacedAt } = block;
      const isDue = replacedAt === null || replacedAt === startedAt || replacedAt <= dayAgo;
      if (isKnown && !isDue) return;
      if (isKnown) block.replacedAt = startedAt;
      write(block, row, record);
    },
    save: (tx: Tx): void => {
      const v = blocks.takeChanged();
      if (v.length === 0) return;
      putBlocks(tx, { connector, v });
      for (const { entity, chunk } of v) highest.set(entity, Math.max(chunk, highest.get(entity) ?? -1));
    },
    forget: (): void => {
      blocks.drop();
      highest.clear();
    },
    /**
     * Answers `same` of the stored keys in one look-up. `read` is one snapshot; it is not read where nothing can be
     * found.
     */
    same: async (
      read: <Result>(work: (tx: Tx) => Promise<Result>) => Promise<Result>,
      entity: EntityName,
      table: PlannedTable,
      records: readonly RawRecord[],
    ): Promise<readonly (SameRow | 'other' | null)[]> => {
      const none = records.map(() => null);
      if (records.length === 0 || wasAny.get(entity) === false) return none;
      const found = table.beginLook();
      return await read(async (tx) => {
        if (!wasAny.has(entity)) {
          const [first] = await highestChunks(tx, { connector, asked: [{ entity }] });
          wasAny.set(entity, typeof first?.chunk === 'number');
          if (wasAny.get(entity) === false) return none;
        }
        const byKey = new Map(records.map((record) => [record.keyText, record]));
        const rows = await table.find(tx, [...byKey.values()]);
        const wanted = [...new Set([...rows.values()].map(({ row }) => chunkOf(row)))];
        const read = wanted.length === 0 ? [] : await readBlocks(tx, { connector, entity, wanted });
        const hashesOf = new Map(read.map(({ chunk, bytes }) => [chunk, bytes]));
        return records.map(({ keyText, raw }) => {
          const stored = rows.get(keyText);
          const hashes = stored && hashesOf.get(chunkOf(stored.row));
          if (stored === undefined || hashes === undefined || stored.deletedAt !== null) return null;
          const { row, hash, volatileHash } = stored;
          const slot = slotOf(row);
          if (tagAt(hashes, slot) !== tagOf({ hash, volatileHash })) return null;
          const isHeld = holds(hashes, slot, { raw, hash, volatileHash });
          return isHeld ? { hash, volatileHash, found: found(stored) } : 'other';
        });
      });
    },
  };
}

type StoredBlock = Pick<RawBlock, 'chunk' | 'bytes' | 'replacedAt'>;

const highestChunks = ask<
  { readonly connector: ConnectorName; readonly asked: readonly Pick<Block, 'entity'>[] },
  { readonly entity: EntityName; readonly chunk: number | null }
>(
  `SELECT asked.entity, (SELECT max(b.chunk) FROM _sync_raw AS b
     WHERE b.connector = :connector AND b.entity = asked.entity) AS chunk
   FROM {asked: entity text}`,
);
const readBlocks = ask<OfEntity & { readonly wanted: readonly number[] }, StoredBlock>(
  `SELECT chunk, hashes AS bytes, replaced_at FROM _sync_raw
   WHERE connector = :connector AND entity = :entity AND chunk IN {wanted bigint}`,
);
const putBlocks = put<{
  readonly connector: ConnectorName;
  readonly v: readonly (StoredBlock & Pick<Block, 'entity'>)[];
}>(
  `INSERT INTO _sync_raw (connector, entity, chunk, hashes, replaced_at)
   SELECT CAST(:connector AS text), v.entity, v.chunk, v.bytes, v.replaced_at
   FROM {v: entity text, chunk bigint, bytes bytea, replaced_at text, n} ORDER BY v.n
   ON CONFLICT (connector, entity, chunk) DO UPDATE SET hashes = excluded.hashes, replaced_at = excluded.replaced_at`,
);

function emptyBlock(entity: EntityName, chunk: number): RawBlock {
  return { entity, chunk, bytes: Buffer.alloc(blockBytes), replacedAt: null, isChanged: false };
}

/** These rows are no more: nothing of their bytes stays. */
export async function emptyRaw(tx: Tx, of: OfEntity, rows: readonly number[]): Promise<void> {
  const blocks = await readBlocks(tx, { ...of, wanted: [...new Set(rows.map(chunkOf))] });
  const v = blocks.map((block) => ({ ...block, entity: of.entity, bytes: Buffer.from(block.bytes) }));
  const hashesOf = new Map(v.map(({ chunk, bytes }) => [chunk, bytes]));
  for (const row of rows) {
    const hashes = hashesOf.get(chunkOf(row));
    if (hashes !== undefined) writeSlot(hashes, slotOf(row), { hash: '', volatileHash: null });
  }
  if (v.length > 0) putBlocks(tx, { connector: of.connector, v });
}

/** A row's slot has 12 bytes of `PreparedRecord.raw`, then 4 of the hashes that the row had then. Empty: zeros. */
const slotBytes = 16;
const rawBytes = 12;
const rowsPerBlock = 128;
const blockBytes = rowsPerBlock * slotBytes;

type OfBytes = Pick<PreparedRecord, 'raw' | 'hash' | 'volatileHash'>;

function chunkOf(row: number): number {
  return Math.floor(row / rowsPerBlock);
}

/** Start of the row's slot in its block. */
function slotOf(row: number): number {
  return (row % rowsPerBlock) * slotBytes;
}

/** 32 bits of both hashes: another content and other volatile fields differ from the remembered ones. */
function tagOf({ hash, volatileHash }: Omit<OfBytes, 'raw'>): number {
  const [content, volatile] = [hash, volatileHash ?? '0'].map((one) => Number.parseInt(one.slice(0, 8), 16));
  return ((content ?? 0) ^ (volatile ?? 0)) >>> 0;
}

function tagAt(hashes: Buffer, slot: number): number {
  return hashes.readUInt32BE(slot + rawBytes);
}

function holds(hashes: Buffer, slot: number, record: OfBytes): boolean {
  return (
    record.raw !== undefined &&
    tagAt(hashes, slot) === tagOf(record) &&
    hashes.toString('latin1', slot, slot + rawBytes) === record.raw.slice(0, rawBytes)
  );
}

const emptySlot = Buffer.alloc(slotBytes);

/** False where the slot had these bytes. */
function writeSlot(hashes: Buffer, slot: number, record: OfBytes): boolean {
  if (record.raw === undefined) {
    if (hashes.compare(emptySlot, 0, slotBytes, slot, slot + slotBytes) === 0) return false;
    emptySlot.copy(hashes, slot);
    return true;
  }
  if (holds(hashes, slot, record)) return false;
  hashes.write(record.raw, slot, rawBytes, 'latin1');
  hashes.writeUInt32BE(tagOf(record), slot + rawBytes);
  return true;
}
