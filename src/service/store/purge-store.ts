import type { Clock } from '../../core/clock.ts';
import { dropSearchIndex } from '../../search/index/drop-search-index.ts';
import type { PurgeEnd, PurgeRequest } from '../../sinks/purges.ts';
import { isSinkThere } from '../../sinks/sqlite/open-database.ts';
import { openSqliteSink } from '../../sinks/sqlite/open-ledger.ts';
import { storeConnector, storeFile } from './store-file.ts';

/** Whether there is an indexed store of the connector. */
export function hasStore(folder: string, connectorId: string): boolean {
  return isSinkThere(storeFile(folder, connectorId));
}

/**
 * Removes records from the indexed store of a connector, beside a service that runs or not; the store's own syncs keep
 * them away. Its search index is dropped: the next sync makes it again. Null where there is no store. Throws
 * `ConnectorBusyError` while the store is synced.
 */
export async function purgeStore(
  {
    folder,
    connectorId,
    clock,
  }: { readonly folder: string; readonly connectorId: string; readonly clock: Clock },
  request: Omit<PurgeRequest, 'removeFile'>,
): Promise<PurgeEnd | null> {
  if (!hasStore(folder, connectorId)) return null;
  const file = storeFile(folder, connectorId);
  // Before the rows: its words would stay in pages that are freed after the file was rewritten.
  dropSearchIndex(file);
  await using sink = await openSqliteSink({ file, durability: 'normal', clock });
  // A store has no files.
  return await sink.purges.purge(storeConnector, { ...request, removeFile: () => Promise.resolve() });
}
