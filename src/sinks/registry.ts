import { join } from 'node:path';
import type { Clock } from '../core/clock.ts';
import { openJsonlSink } from './jsonl/jsonl-sink.ts';
import { openFileHistory } from './ledger/file-sink.ts';
import type { LedgerReader } from './ledger-reader.ts';
import type { Sink } from './sink.ts';
import { openSqliteSink } from './sqlite/sqlite-sink.ts';

/** What the settings say of a sink. */
export type SinkOptions =
  | {
      readonly type: 'sqlite';
      readonly name: string;
      readonly path: string;
      readonly durability: 'full' | 'normal';
    }
  | {
      readonly type: 'jsonl';
      readonly name: string;
      readonly directory: string;
      readonly durability: 'full' | 'normal';
    };

/**
 * Opens a sink for writing, and makes it where there is none. The caller disposes it.
 * Throws `SyncError` SINK_INCOMPATIBLE (a file of something else, or of a newer version), SINK_FULL, SINK_FAILED.
 */
export async function openSink(options: SinkOptions, deps: { readonly clock: Clock }): Promise<Sink> {
  switch (options.type) {
    case 'sqlite':
      return openSqliteSink({ file: options.path, durability: options.durability, clock: deps.clock });
    case 'jsonl':
      return openJsonlSink({
        directory: options.directory,
        durability: options.durability,
        clock: deps.clock,
      });
  }
}

/** Opens what a sink says of its runs, read only; works while another process writes. Throws when there is no sink yet. */
export function openHistory(options: SinkOptions): LedgerReader & Disposable {
  switch (options.type) {
    case 'sqlite':
      return openFileHistory({ file: options.path, kind: 'sqlite' });
    case 'jsonl':
      return openFileHistory({ file: join(options.directory, '_ledger.db'), kind: 'jsonl' });
  }
}
