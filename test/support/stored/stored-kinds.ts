import { join } from 'node:path';
import { fileSinkKind } from '../../contracts/file-sink/file-sink-kind.ts';
import { postgresSinkKind } from '../../contracts/postgres-sink-kind.ts';
import type { SinkKind } from '../../contracts/sink/fixture.ts';

export const storedTypes = ['sqlite', 'jsonl', 'postgres'] as const;
export type StoredType = (typeof storedTypes)[number];

/**
 * What the fixtures hold: of each type the oldest version that is read, and the later ones. `name` begins the names of
 * its files.
 */
export const storedSinks = [
  { type: 'sqlite', version: 7, name: 'sqlite' },
  { type: 'jsonl', version: 7, name: 'jsonl' },
  { type: 'postgres', version: 2, name: 'postgres' },
  { type: 'sqlite', version: 8, name: 'sqlite-8' },
  { type: 'jsonl', version: 8, name: 'jsonl-8' },
  { type: 'sqlite', version: 9, name: 'sqlite-9' },
  { type: 'jsonl', version: 9, name: 'jsonl-9' },
  { type: 'postgres', version: 3, name: 'postgres-3' },
  { type: 'sqlite', version: 10, name: 'sqlite-10' },
  { type: 'jsonl', version: 10, name: 'jsonl-10' },
  { type: 'postgres', version: 4, name: 'postgres-4' },
] as const;
export type StoredSink = (typeof storedSinks)[number];

/** The ledger's file of a sink that is one, below the folder of its bench. */
export const ledgerFiles = { sqlite: 'sink/warehouse.db', jsonl: 'sink/_ledger.db' } as const;

/** Sinks as the fixtures hold them: below `sink` in the folder, beside it what else was stored. */
export async function storedKind(type: StoredType): Promise<SinkKind> {
  if (type === 'postgres') return await postgresSinkKind();
  const ledgerFile = (folder: string): string => join(folder, ledgerFiles[type]);
  return fileSinkKind({
    options: (folder) =>
      type === 'sqlite'
        ? { type, name: 'warehouse', path: ledgerFile(folder), durability: 'normal' }
        : { type, name: 'warehouse', directory: join(folder, 'sink'), durability: 'normal' },
    ledgerFile,
  });
}
