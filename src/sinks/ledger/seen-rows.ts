import type Database from 'better-sqlite3';
import type { ConnectorName, EntityName } from '../../core/names.ts';

/**
 * Which rows a chain of runs has met: one bit per row number, per entity, kept in chunks beside the records and written
 * in the page's transaction, so that it survives a kill with them.
 */
export interface SeenRows {
  /** Notes the row; true when the chain had met it before. */
  mark(entity: EntityName, row: number): boolean;
  /** Writes what changed. Inside the transaction, once per commit. */
  save(): void;
  /** Drops what is in memory, so that the next look reads what is stored. For a rolled back transaction. */
  forget(): void;
}

const chunkBytes = 4_096;
const rowsPerChunk = chunkBytes * 8;
/** 1 MiB of chunks stays in memory between commits: rows of eight million. */
const keptChunks = 256;

interface Chunk {
  readonly entity: EntityName;
  readonly number: number;
  readonly bits: Buffer;
  isChanged: boolean;
}

export function openSeenRows(db: Database.Database, connector: ConnectorName, origin: number): SeenRows {
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
    if (known !== undefined) {
      return known;
    }
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

  return {
    mark: (entity, row) => {
      const number = Math.floor(row / rowsPerChunk);
      const chunk: Chunk =
        last !== null && last.number === number && last.entity === entity ? last : load(entity, number);
      last = chunk;
      const index = (row % rowsPerChunk) >> 3;
      const bit = 1 << (row & 7);
      const byte = chunk.bits[index] ?? 0;
      if ((byte & bit) !== 0) {
        return true;
      }
      chunk.bits[index] = byte | bit;
      if (!chunk.isChanged) {
        chunk.isChanged = true;
        changed.push(chunk);
      }
      return false;
    },
    save: () => {
      for (const chunk of changed) {
        write.run(connector, chunk.entity, origin, chunk.number, chunk.bits);
        chunk.isChanged = false;
      }
      changed = [];
      if (count > keptChunks) {
        forget();
      }
    },
    forget,
  };
}
