import { join } from 'node:path';
import type { Clock } from '../../core/clock.ts';
import { openFileSink } from '../ledger/file-sink.ts';
import type { Sink } from '../sink.ts';
import { openJsonlStore } from './jsonl-store.ts';

export interface JsonlSinkOptions {
  readonly directory: string;
  readonly durability: 'full' | 'normal';
  readonly clock: Clock;
}

/** Changes as lines of files below `directory`; the ledger in `_ledger.db` there knows every key and every file's length. */
export function openJsonlSink({ directory, durability, clock }: JsonlSinkOptions): Sink {
  return openFileSink({
    file: join(directory, '_ledger.db'),
    kind: 'jsonl',
    durability,
    clock,
    openStore: (db) => openJsonlStore(db, { directory, isDurable: durability === 'full' }),
  });
}
