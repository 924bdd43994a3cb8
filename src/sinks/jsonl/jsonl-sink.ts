import { openFileSink } from '../ledger/file-sink.ts';
import type { OpenHow } from '../sink-access.ts';
import type { Sink } from '../sink.ts';
import { openJsonlStore } from './jsonl-store.ts';

/** Changes as lines of files below `directory`; the ledger in `file` there knows every key and every file's length. */
export async function openJsonlSink(
  options: OpenHow & { readonly directory: string; readonly file: string },
): Promise<Sink> {
  const { directory, durability } = options;
  return await openFileSink({
    ...options,
    kind: 'jsonl',
    openStore: (db) => openJsonlStore(db, { directory, isDurable: durability === 'full' }),
  });
}
