import type { ConnectorName, EntityName } from '../../core/names.ts';
import { ask, put, type Tx } from '../../sql/database.ts';
import { knownOrMade } from '../../core/grouped.ts';

/** A chunk: bits of neighbouring rows of an entity. */
interface Block {
  readonly entity: EntityName;
  readonly chunk: number;
  readonly bytes: Buffer;
  isChanged: boolean;
}

function compare(one: string, other: string): number {
  return one < other ? -1 : Number(one > other);
}

/** A chunk's first half says which rows were met, the second which of them in their owner. */
const chunkBytes = 1_024;
const ownerHalf = chunkBytes / 2;
const rowsPerChunk = ownerHalf * 8;
/** 1 MiB of chunks: rows of four million. */
const keptChunks = 1_024;

/**
 * Rows that a chain of runs has met: one bit per row number and entity, in chunks of 1 KiB. The second half of a chunk
 * marks rows met in their owner. Chunks are written in the page's transaction, so that they survive a kill with the
 * rows. Rows must be loaded before they are asked for, in the same transaction; up to `keptChunks` stay in memory
 * between transactions.
 */
export type SeenRows = ReturnType<typeof openSeenRows>;

export function openSeenRows(connector: ConnectorName, origin: number) {
  const chain = { connector, origin };
  const byEntity = new Map<EntityName, Map<number, Block>>();
  let changed: Block[] = [];
  let count = 0;
  let lastTx: Tx | null = null;
  /** Stored chunks as named by `keyOf`; null: not known. */
  let stored: Set<string> | null = null;

  const drop = (): void => {
    byEntity.clear();
    changed = [];
    count = 0;
  };
  /** Reads once which chunks are stored: the others are empty, and cost no statement to load. */
  const begin = async (tx: Tx): Promise<void> => {
    if (stored !== null) return;
    stored = new Set((await storedChunks(tx, chain)).map(keyOf));
  };
  const chunkOf = (entity: EntityName, row: number): Block => {
    const chunk = byEntity.get(entity)?.get(numberOf(row));
    if (chunk === undefined) throw new TypeError(`Seen rows of ${entity} are asked for that were not loaded`);
    return chunk;
  };
  const set = (chunk: Block, row: number, half: number): boolean => {
    if (isSet(chunk, row, half)) return true;
    const index = byteOf(row) + half;
    chunk.bytes[index] = (chunk.bytes[index] ?? 0) | bitOf(row);
    if (!chunk.isChanged) changed.push(chunk);
    chunk.isChanged = true;
    return false;
  };

  return {
    begin,
    /** Reads the chunks of these rows that are stored and not in memory, in one statement. */
    load: async (tx: Tx, entity: EntityName, rows: readonly number[]): Promise<void> => {
      await begin(tx);
      // Only between transactions: a transaction still needs the chunks that it has loaded.
      if (tx !== lastTx && count > keptChunks) drop();
      lastTx = tx;
      const known = byEntity.get(entity);
      const missing = [...new Set(rows.map(numberOf))].filter((chunk) => known?.has(chunk) !== true);
      const wanted = missing.filter((chunk) => stored?.has(keyOf({ entity, chunk })) === true);
      const found = wanted.length === 0 ? [] : await readChunks(tx, { ...chain, entity, wanted });
      const bytesOf = new Map(found.map(({ chunk, bytes }) => [chunk, bytes]));
      for (const chunk of missing) {
        const bytes = bytesOf.get(chunk) ?? Buffer.alloc(chunkBytes);
        const ofEntity = knownOrMade(byEntity, entity, () => new Map<number, Block>());
        ofEntity.set(chunk, { entity, chunk, bytes, isChanged: false });
        count += 1;
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
      const v = changed.toSorted(
        (one, other) => compare(one.entity, other.entity) || one.chunk - other.chunk,
      );
      for (const chunk of v) chunk.isChanged = false;
      changed = [];
      if (v.length === 0) return;
      putChunks(tx, { ...chain, v });
      for (const one of v) stored?.add(keyOf(one));
    },
    forget: (): void => {
      drop();
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

function numberOf(row: number): number {
  return Math.floor(row / rowsPerChunk);
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
