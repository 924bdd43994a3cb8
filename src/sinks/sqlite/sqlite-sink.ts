import { openFileSink } from '../ledger/file-sink.ts';
import type { OpenHow } from '../sink-access.ts';
import type { Sink } from '../sink.ts';
import { openSqliteStore } from './sqlite-store.ts';

/** Records as tables of one SQLite file, which holds the ledger too. */
export async function openSqliteSink(options: OpenHow & { readonly file: string }): Promise<Sink> {
  return await openFileSink({ ...options, kind: 'sqlite', openStore: openSqliteStore });
}
