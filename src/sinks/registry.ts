import type { Clock } from '../core/clock.ts';
import { isSinkThere } from './ledger/open-database.ts';
import { openJsonlSink } from './jsonl/jsonl-sink.ts';
import { openJsonlKeys } from './jsonl/read-keys.ts';
import { openJsonlRecords } from './jsonl/read-records.ts';
import { ledgerFile } from './open-history.ts';
import type { KeyReader } from './read-keys.ts';
import type { RecordReader } from './record-reader.ts';
import type { SinkOptions } from './sink-options.ts';
import type { Sink } from './sink.ts';
import { openSqliteKeys } from './sqlite/read-keys.ts';
import { openSqliteRecords } from './sqlite/read-records.ts';
import { openSqliteSink } from './sqlite/sqlite-sink.ts';

/**
 * Opens a sink for writing, and makes it where there is none. The caller disposes it. `signal` ends every wait for the
 * write lock, of the opened sink too. `sinkId`: the sink that must be there already; none is made then.
 * `cacheKiB`: of memory for what was read, at most; 32 MiB unless said.
 * Throws `SyncError` SINK_INCOMPATIBLE (a file of something else, or of a newer version), SINK_FULL, SINK_FAILED; SINK_MOVED where
 * another sink than `sinkId` is there, or none.
 */
export async function openSink(
  options: SinkOptions,
  deps: {
    readonly clock: Clock;
    readonly signal?: AbortSignal;
    readonly sinkId?: string;
    readonly cacheKiB?: number;
  },
): Promise<Sink> {
  const { durability, lockTimeoutMs } = options;
  const how = { ...deps, durability, ...(lockTimeoutMs === undefined ? {} : { lockTimeoutMs }) };
  switch (options.type) {
    case 'sqlite':
      return await openSqliteSink({ ...how, file: options.path });
    case 'jsonl':
      return await openJsonlSink({ ...how, directory: options.directory });
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

/** The same; null when nothing has been synced into it yet. */
export function openExistingRecords(options: SinkOptions): RecordReader | null {
  return isSinkThere(ledgerFile(options)) ? openRecords(options) : null;
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
