import type { Clock } from '../../core/clock.ts';
import { openFileSink } from '../ledger/file-sink.ts';
import type { Sink } from '../sink.ts';
import { openSqliteStore } from './sqlite-store.ts';

export interface SqliteSinkOptions {
  readonly file: string;
  readonly durability: 'full' | 'normal';
  readonly clock: Clock;
}

/** Records as tables of one SQLite file, which holds the ledger too. */
export function openSqliteSink(options: SqliteSinkOptions): Sink {
  return openFileSink({ ...options, kind: 'sqlite', openStore: openSqliteStore });
}
