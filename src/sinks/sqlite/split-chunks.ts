import type { Connection } from '../../sql/sqlite/open-sqlite.ts';

/** Of version 7: 4 KiB, the first half of them says which rows were met, the second which of them in their home. */
const oldHalf = 2_048;
const half = 512;
const parts = oldHalf / half;

interface SeenChunk {
  readonly connector: string;
  readonly entity: string;
  readonly origin: number;
  readonly chunk: number;
  readonly bits: Buffer;
}

/** Cuts each chunk of `_sync_seen_7` into chunks of 1 KiB, both halves of each. What is not stored is empty. */
export function splitChunks(db: Connection): void {
  const write = db.prepare<[string, string, number, number, Buffer]>(
    'INSERT INTO _sync_seen (connector, entity, origin, chunk, bits) VALUES (?, ?, ?, ?, ?)',
  );
  const chunks = db
    .prepare<[], SeenChunk>('SELECT connector, entity, origin, chunk, bits FROM _sync_seen_7')
    .all();
  for (const { connector, entity, origin, chunk, bits } of chunks) {
    for (let part = 0; part < parts; part += 1) {
      const met = bits.subarray(part * half, (part + 1) * half);
      const atHome = bits.subarray(oldHalf + part * half, oldHalf + (part + 1) * half);
      const both = Buffer.concat([met, atHome]);
      if (both.some((byte) => byte !== 0)) write.run(connector, entity, origin, parts * chunk + part, both);
    }
  }
}
