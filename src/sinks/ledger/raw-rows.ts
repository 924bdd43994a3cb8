import type { Instant } from '../../core/clock.ts';
import { knownOrMade } from '../../core/grouped.ts';
import type { ConnectorName, EntityName, OfEntity } from '../../core/names.ts';
import type { PreparedRecord } from '../../core/records.ts';
import { ask, put, type Tx } from '../../sql/database.ts';
import type { RawRecord, SameRow } from '../stored-keys.ts';
import type { PlannedTable } from './record-table.ts';

/** 1 MiB of blocks stays in memory between transactions: rows of 65,536 neighbours. */
const keptBlocks = 512;

interface Block {
  readonly entity: EntityName;
  readonly chunk: number;
  readonly hashes: Buffer;
  replacedAt: Instant | null;
  isChanged: boolean;
}

/**
 * From which bytes rows were stored: a slot per row number, per entity, in blocks of 2 KiB, written in the transaction
 * that stores the rows. `startedAt`: when the chain of the run began. Rows must be loaded before their slots are set,
 * in the same transaction. Of a row that is written by anything else the slot no longer counts: its hashes are others.
 */
export type RawRows = ReturnType<typeof openRawRows>;

export function openRawRows(connector: ConnectorName, startedAt: Instant) {
  const blocksByEntity = new Map<EntityName, Map<number, Block>>();
  /** The highest stored block of each entity; -1: there is none. */
  const highest = new Map<EntityName, number>();
  /** Whether any block was stored before this run stored its first. */
  const wasAny = new Map<EntityName, boolean>();
  let changed: Block[] = [];
  let count = 0;
  let lastTx: Tx | null = null;

  const drop = (): void => {
    blocksByEntity.clear();
    changed = [];
    count = 0;
  };
  const begin = async (tx: Tx, entities: readonly EntityName[]): Promise<void> => {
    const asked = entities.filter((entity) => !highest.has(entity)).map((entity) => ({ entity }));
    if (asked.length === 0) return;
    for (const { entity, chunk } of await highestChunks(tx, { connector, asked })) {
      highest.set(entity, chunk ?? -1);
      if (!wasAny.has(entity)) wasAny.set(entity, chunk !== null);
    }
  };
  const add = (block: Block): Block => {
    knownOrMade(blocksByEntity, block.entity, () => new Map<number, Block>()).set(block.chunk, block);
    count += 1;
    return block;
  };
  /** Undefined for one that is not stored and would stay empty. */
  const blockOf = (entity: EntityName, row: number, isToBeFilled: boolean): Block | undefined => {
    const chunk = chunkOf(row);
    const block = blocksByEntity.get(entity)?.get(chunk);
    if (block !== undefined) return block;
    if (chunk <= (highest.get(entity) ?? Infinity)) {
      throw new TypeError(`Bytes of rows of ${entity} are set that were not loaded`);
    }
    return isToBeFilled ? add(emptyBlock(entity, chunk)) : undefined;
  };
  const write = (block: Block, row: number, record: OfBytes): void => {
    if (!writeSlot(block.hashes, slotOf(row), record) || block.isChanged) return;
    block.isChanged = true;
    changed.push(block);
  };

  return {
    /** Reads once for each entity how far blocks are stored: those above cost no statement to load. */
    begin,
    /** Reads the blocks of these rows that are stored and not in memory, in one statement. After `begin`. */
    load: async (tx: Tx, entity: EntityName, rows: readonly number[]): Promise<void> => {
      // Only between transactions: a transaction still needs what it has loaded.
      if (tx !== lastTx && count > keptBlocks) drop();
      lastTx = tx;
      const known = blocksByEntity.get(entity);
      const last = highest.get(entity) ?? -1;
      const wanted = [...new Set(rows.map(chunkOf))].filter(
        (chunk) => chunk <= last && known?.has(chunk) !== true,
      );
      if (wanted.length === 0) return;
      const found = await readBlocks(tx, { connector, entity, wanted });
      for (const one of found) add({ ...one, entity, isChanged: false });
      const stored = new Set(found.map(({ chunk }) => chunk));
      for (const chunk of wanted) if (!stored.has(chunk)) add(emptyBlock(entity, chunk));
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
      if (block === undefined || holds(block.hashes, slotOf(row), record)) return;
      const isKnown = tagAt(block.hashes, slotOf(row)) === tagOf(record);
      const { replacedAt } = block;
      const isDue = replacedAt === null || replacedAt === startedAt || replacedAt <= dayAgo;
      if (isKnown && !isDue) return;
      if (isKnown) block.replacedAt = startedAt;
      write(block, row, record);
    },
    /** Puts what changed, by block number, in one statement. Once per transaction. */
    save: (tx: Tx): void => {
      if (changed.length === 0) return;
      const v = changed
        .toSorted((one, other) => compare(one.entity, other.entity) || one.chunk - other.chunk)
        .map(({ entity, chunk, hashes, replacedAt }) => ({ entity, chunk, hashes, replacedAt }));
      putBlocks(tx, { connector, v });
      for (const { entity, chunk } of v) highest.set(entity, Math.max(chunk, highest.get(entity) ?? -1));
      for (const block of changed) block.isChanged = false;
      changed = [];
    },
    /** Drops what is in memory: the transaction was rolled back. */
    forget: (): void => {
      drop();
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
        return await sameRows(tx, { connector, entity }, { table, found, records });
      });
    },
  };
}

async function sameRows(
  tx: Tx,
  of: OfEntity,
  look: {
    readonly table: PlannedTable;
    readonly found: ReturnType<PlannedTable['beginLook']>;
    readonly records: readonly RawRecord[];
  },
): Promise<readonly (SameRow | 'other' | null)[]> {
  const { table, records } = look;
  const byKey = new Map(records.map((record) => [record.keyText, record]));
  const rows = await table.find(tx, [...byKey.values()]);
  const wanted = [...new Set([...rows.values()].map(({ row }) => chunkOf(row)))];
  const found = wanted.length === 0 ? [] : await readBlocks(tx, { ...of, wanted });
  const hashesOf = new Map(found.map(({ chunk, hashes }) => [chunk, hashes]));
  return records.map(({ keyText, raw }) => {
    const stored = rows.get(keyText);
    const hashes = stored && hashesOf.get(chunkOf(stored.row));
    if (stored === undefined || hashes === undefined || stored.deletedAt !== null) return null;
    const { row, hash, volatileHash } = stored;
    const slot = slotOf(row);
    if (tagAt(hashes, slot) !== tagOf({ hash, volatileHash })) return null;
    return holds(hashes, slot, { raw, hash, volatileHash })
      ? { hash, volatileHash, found: look.found(stored) }
      : 'other';
  });
}

type BlockName = Pick<Block, 'entity' | 'chunk'>;
type StoredBlock = Pick<Block, 'chunk' | 'hashes' | 'replacedAt'>;

const highestChunks = ask<
  { readonly connector: ConnectorName; readonly asked: readonly Pick<Block, 'entity'>[] },
  { readonly entity: EntityName; readonly chunk: number | null }
>(
  `SELECT asked.entity, (SELECT max(b.chunk) FROM _sync_raw AS b
     WHERE b.connector = :connector AND b.entity = asked.entity) AS chunk
   FROM {asked: entity text}`,
);
const readBlocks = ask<OfEntity & { readonly wanted: readonly number[] }, StoredBlock>(
  `SELECT chunk, hashes, replaced_at FROM _sync_raw
   WHERE connector = :connector AND entity = :entity AND chunk IN {wanted bigint}`,
);
const putBlocks = put<{
  readonly connector: ConnectorName;
  readonly v: readonly (BlockName & StoredBlock)[];
}>(
  `INSERT INTO _sync_raw (connector, entity, chunk, hashes, replaced_at)
   SELECT CAST(:connector AS text), v.entity, v.chunk, v.hashes, v.replaced_at
   FROM {v: entity text, chunk bigint, hashes bytea, replaced_at text, n} ORDER BY v.n
   ON CONFLICT (connector, entity, chunk) DO UPDATE SET hashes = excluded.hashes, replaced_at = excluded.replaced_at`,
);

function emptyBlock(entity: EntityName, chunk: number): Block {
  const hashes = Buffer.alloc(blockBytes);
  return { entity, chunk, hashes, replacedAt: null, isChanged: false };
}

function compare(one: string, other: string): number {
  return one < other ? -1 : Number(one > other);
}

/** The connector's rows count as stored from unknown bytes. */
export async function forgetRaw(tx: Tx, connector: ConnectorName): Promise<void> {
  await tx.run('DELETE FROM _sync_raw WHERE connector = :connector', { connector });
}

/** These rows are no more: nothing of their bytes stays. */
export async function emptyRaw(tx: Tx, of: OfEntity, rows: readonly number[]): Promise<void> {
  const blocks = await readBlocks(tx, { ...of, wanted: [...new Set(rows.map(chunkOf))] });
  const v = blocks.map((block) => ({ ...block, entity: of.entity, hashes: Buffer.from(block.hashes) }));
  const hashesOf = new Map(v.map(({ chunk, hashes }) => [chunk, hashes]));
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
export const blockBytes = rowsPerBlock * slotBytes;

export type OfBytes = Pick<PreparedRecord, 'raw' | 'hash' | 'volatileHash'>;

export function chunkOf(row: number): number {
  return Math.floor(row / rowsPerBlock);
}

/** Where the row's slot begins in its block. */
export function slotOf(row: number): number {
  return (row % rowsPerBlock) * slotBytes;
}

/** 32 bits of both hashes: another content and other volatile fields differ from the remembered ones. */
export function tagOf({ hash, volatileHash }: Omit<OfBytes, 'raw'>): number {
  const [content, volatile] = [hash, volatileHash ?? '0'].map((one) => Number.parseInt(one.slice(0, 8), 16));
  return ((content ?? 0) ^ (volatile ?? 0)) >>> 0;
}

export function tagAt(hashes: Buffer, slot: number): number {
  return hashes.readUInt32BE(slot + rawBytes);
}

export function holds(hashes: Buffer, slot: number, record: OfBytes): boolean {
  return (
    record.raw !== undefined &&
    tagAt(hashes, slot) === tagOf(record) &&
    hashes.toString('latin1', slot, slot + rawBytes) === record.raw.slice(0, rawBytes)
  );
}

const emptySlot = Buffer.alloc(slotBytes);

/** False where the slot had these bytes. */
export function writeSlot(hashes: Buffer, slot: number, record: OfBytes): boolean {
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
