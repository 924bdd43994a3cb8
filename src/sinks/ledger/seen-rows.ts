import type Database from 'better-sqlite3';
import type { ConnectorName, EntityName } from '../../core/names.ts';

/** A chunk's first half says which rows were met, the second which of them in their home. */
const chunkBytes = 4_096;
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

/** Which rows a chain of runs has met: a bit per row number and entity, in chunks that are written in the page's transaction. */
export type SeenRows = ReturnType<typeof openSeenRows>;

export function openSeenRows(db: Database.Database, connector: ConnectorName, origin: number) {
  const read = db
    .prepare<[string, string, number, number], Buffer>(
      'SELECT bits FROM _sync_seen WHERE connector = ? AND entity = ? AND origin = ? AND chunk = ?',
    )
    .pluck();
  const write = db.prepare<[string, string, number, number, Buffer]>(
    `INSERT INTO _sync_seen (connector, entity, origin, chunk, bits) VALUES (?, ?, ?, ?, ?)
     ON CONFLICT (connector, entity, origin, chunk) DO UPDATE SET bits = excluded.bits`,
  );
  const chunksByEntity = new Map<EntityName, Map<number, Chunk>>();
  let changed: Chunk[] = [];
  let count = 0;
  let last: Chunk | null = null;

  const load = (entity: EntityName, number: number): Chunk => {
    const chunks = chunksByEntity.get(entity) ?? new Map<number, Chunk>();
    chunksByEntity.set(entity, chunks);
    const known = chunks.get(number);
    if (known !== undefined) return known;
    const bits = read.get(connector, entity, origin, number) ?? Buffer.alloc(chunkBytes);
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
    /** Notes the row, and whether its home has shown it; true when the chain had met it before, wherever. */
    mark: (entity: EntityName, row: number, isAtHome: boolean): boolean => {
      const chunk = chunkOf(entity, row);
      if (isAtHome) set(chunk, row, homeHalf);
      return set(chunk, row, 0);
    },
    has: (entity: EntityName, row: number): boolean => isSet(entity, row, 0),
    hasAtHome: (entity: EntityName, row: number): boolean => isSet(entity, row, homeHalf),
    /** Writes what changed. Inside the transaction, once per commit. */
    save: (): void => {
      for (const chunk of changed) {
        write.run(connector, chunk.entity, origin, chunk.number, chunk.bits);
        chunk.isChanged = false;
      }
      changed = [];
      if (count > keptChunks) forget();
    },
    /** Drops what is in memory, so that the next look reads what is stored. For a rolled back transaction. */
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
