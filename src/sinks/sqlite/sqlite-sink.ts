import { openFileSink, type FileSinkWaits } from '../ledger/file-sink.ts';
import type { Sink } from '../sink.ts';
import { openSqliteStore } from './sqlite-store.ts';

export interface SqliteSinkOptions extends FileSinkWaits {
  readonly file: string;
  readonly durability: 'full' | 'normal';
}

/** Records as tables of one SQLite file, which holds the ledger too. */
export async function openSqliteSink(options: SqliteSinkOptions): Promise<Sink> {
  return await openFileSink({ ...options, kind: 'sqlite', openStore: openSqliteStore });
}
