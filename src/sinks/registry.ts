import { join } from 'node:path';
import type { Clock } from '../core/clock.ts';
import { openJsonlSink } from './jsonl/jsonl-sink.ts';
import { openJsonlKeys } from './jsonl/read-keys.ts';
import { openJsonlRecords } from './jsonl/read-records.ts';
import { openFileHistory } from './ledger/file-sink.ts';
import type { LedgerReader } from './ledger-reader.ts';
import type { KeyReader } from './read-keys.ts';
import type { RecordReader } from './record-reader.ts';
import type { Sink } from './sink.ts';
import { openSqliteKeys } from './sqlite/read-keys.ts';
import { openSqliteRecords } from './sqlite/read-records.ts';
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

/** Opens the stored records in one state, read only; works while another process writes. Throws when there is no sink yet. */
export function openRecords(options: SinkOptions): RecordReader {
  switch (options.type) {
    case 'sqlite':
      return openSqliteRecords(options.path);
    case 'jsonl':
      return openJsonlRecords(options.directory);
  }
}

/** Opens the keys of what is stored in one state, read only; works while another process writes. Throws when there is no sink yet. */
export function openKeys(options: SinkOptions): KeyReader {
  switch (options.type) {
    case 'sqlite':
      return openSqliteKeys(options.path);
    case 'jsonl':
      return openJsonlKeys(options.directory);
  }
}
