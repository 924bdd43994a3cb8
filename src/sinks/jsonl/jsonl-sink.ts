import { join } from 'node:path';
import { openFileSink, type FileSinkWaits } from '../ledger/file-sink.ts';
import type { Sink } from '../sink.ts';
import { openJsonlStore } from './jsonl-store.ts';

export interface JsonlSinkOptions extends FileSinkWaits {
  readonly directory: string;
  readonly durability: 'full' | 'normal';
}

/** Changes as lines of files below `directory`; the ledger in `_ledger.db` there knows every key and every file's length. */
export async function openJsonlSink({ directory, durability, ...waits }: JsonlSinkOptions): Promise<Sink> {
  return await openFileSink({
    ...waits,
    file: join(directory, '_ledger.db'),
    kind: 'jsonl',
    durability,
    openStore: (db) => openJsonlStore(db, { directory, isDurable: durability === 'full' }),
  });
}
