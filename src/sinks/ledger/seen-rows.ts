import type { ConnectorName, EntityName } from '../../core/names.ts';
import { ask, put, type Tx } from '../../sql/database.ts';
import { knownOrMade } from '../../core/grouped.ts';

/** A chunk's first half says which rows were met, the second which of them in their owner. */
const chunkBytes = 1_024;
const ownerHalf = chunkBytes / 2;
const rowsPerChunk = ownerHalf * 8;
/** 1 MiB of chunks stays in memory between transactions: rows of four million. */
const keptChunks = 1_024;

interface Chunk {
  readonly entity: EntityName;
  readonly number: number;
  readonly bits: Buffer;
  isChanged: boolean;
}

/**
 * Which rows a chain of runs has met: one bit per row number, per entity, in chunks of 1 KiB (half of it says in which
 * rows' owners), written in the page's transaction, so that it survives a kill with them. Rows must be loaded before a
 * query for them, in the same transaction.
 */
export type SeenRows = ReturnType<typeof openSeenRows>;

export function openSeenRows(connector: ConnectorName, origin: number) {
  const chain = { connector, origin };
  const chunksByEntity = new Map<EntityName, Map<number, Chunk>>();
  let changed: Chunk[] = [];
  let count = 0;
  let lastTx: Tx | null = null;
  /** As `keyOf` names them; null: not known. */
  let stored: Set<string> | null = null;

  const drop = (): void => {
    chunksByEntity.clear();
    changed = [];
    count = 0;
  };
  /** Reads once which chunks are stored: the others are empty, and cost no statement to load. */
  const begin = async (tx: Tx): Promise<void> => {
    if (stored !== null) return;
    stored = new Set((await storedChunks(tx, chain)).map(keyOf));
  };

  const chunkOf = (entity: EntityName, row: number): Chunk => {
    const chunk = chunksByEntity.get(entity)?.get(numberOf(row));
    if (chunk === undefined) throw new TypeError(`Seen rows of ${entity} are asked for that were not loaded`);
    return chunk;
  };

  const set = (chunk: Chunk, row: number, half: number): boolean => {
    const index = byteOf(row) + half;
    const byte = chunk.bits[index] ?? 0;
    if ((byte & bitOf(row)) !== 0) return true;
    chunk.bits[index] = byte | bitOf(row);
    if (!chunk.isChanged) {
      chunk.isChanged = true;
      changed.push(chunk);
    }
    return false;
  };

  return {
    begin,
    /** Reads the chunks of these rows that are stored and not in memory, in one statement. */
    load: async (tx: Tx, entity: EntityName, rows: readonly number[]): Promise<void> => {
      // Only between transactions: a transaction still needs what it has loaded.
      if (tx !== lastTx && count > keptChunks) drop();
      lastTx = tx;
      await begin(tx);
      const chunks = knownOrMade(chunksByEntity, entity, () => new Map<number, Chunk>());
      const missing = [...new Set(rows.map(numberOf))].filter((number) => !chunks.has(number));
      if (missing.length === 0) return;
      const wanted = missing.filter((chunk) => stored?.has(keyOf({ entity, chunk })) === true);
      const found = wanted.length === 0 ? [] : await readChunks(tx, { ...chain, entity, wanted });
      const bitsByNumber = new Map(found.map(({ chunk, bits }) => [chunk, bits]));
      for (const number of missing) {
        const bits = bitsByNumber.get(number) ?? Buffer.alloc(chunkBytes);
        chunks.set(number, { entity, number, bits, isChanged: false });
      }
      count += missing.length;
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
    /** Puts what changed, by chunk number, in one statement. Once per transaction. */
    save: (tx: Tx): void => {
      if (changed.length === 0) return;
      const v = changed
        .toSorted((one, other) => compare(one.entity, other.entity) || one.number - other.number)
        .map(({ entity, number, bits }) => ({ entity, chunk: number, bits }));
      putChunks(tx, { ...chain, v });
      for (const one of v) stored?.add(keyOf(one));
      for (const chunk of changed) chunk.isChanged = false;
      changed = [];
    },
    /** Drops what is in memory: the transaction was rolled back. */
    forget: (): void => {
      drop();
      stored = null;
    },
  };
}

type OfChain = { readonly connector: ConnectorName; readonly origin: number };
type ChunkName = { readonly entity: EntityName; readonly chunk: number };
type ChunkBits = { readonly chunk: number; readonly bits: Buffer };

const storedChunks = ask<OfChain, ChunkName>(
  `SELECT entity, chunk FROM _sync_seen WHERE connector = :connector AND origin = :origin`,
);
const readChunks = ask<
  OfChain & { readonly entity: EntityName; readonly wanted: readonly number[] },
  ChunkBits
>(
  `SELECT chunk, bits FROM _sync_seen
   WHERE connector = :connector AND entity = :entity AND origin = :origin AND chunk IN {wanted bigint}`,
);
const putChunks = put<OfChain & { readonly v: readonly (ChunkName & ChunkBits)[] }>(
  `INSERT INTO _sync_seen (connector, entity, origin, chunk, bits)
   SELECT CAST(:connector AS text), v.entity, CAST(:origin AS bigint), v.chunk, v.bits
   FROM {v: entity text, chunk bigint, bits bytea, n} ORDER BY v.n
   ON CONFLICT (connector, entity, origin, chunk) DO UPDATE SET bits = excluded.bits`,
);

function isSet({ bits }: Chunk, row: number, half: number): boolean {
  return ((bits[byteOf(row) + half] ?? 0) & bitOf(row)) !== 0;
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

function compare(one: string, other: string): number {
  return one < other ? -1 : Number(one > other);
}

/**
 * The seen rows of a finished chain are no longer needed. Also of chains whose runs are past their retention: they are
 * never resumed.
 */
export function dropSeen(tx: Tx, connector: ConnectorName, window: string): void {
  tx.put(
    `DELETE FROM _sync_seen WHERE connector = :connector AND origin NOT IN
       (SELECT origin FROM _sync_runs WHERE connector = :connector AND chain <> :window)`,
    { connector, window },
  );
}
