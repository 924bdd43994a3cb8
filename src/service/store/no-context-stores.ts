import type { ContextStores, KeptConnector, StoreStatus } from './context-stores.ts';
import { notReady } from './search-store.ts';
import { removeStore, storeFile } from './store-file.ts';
import { emptyLedger } from './store-ledger.ts';
import { statusOf } from './store-readiness.ts';

/**
 * For a service that keeps no stores: every connector stays `Loading`, and says why. `folder`: where an earlier service may have left
 * stores, which go with their connectors; null: nowhere.
 */
export function noContextStores(folder: string | null = null): ContextStores {
  const connectors = new Map<string, KeptConnector>();
  const refuse = async (): Promise<never> => {
    throw notReady();
  };
  const problem = `This server keeps no indexed stores: it was started ${folder === null ? 'without a data folder' : 'to keep none'}.`;
  const loading: StoreStatus = { readiness: 'Loading', entities: [], problem };
  return {
    keep: (connector) => void connectors.set(connector.connectorId, connector),
    async drop(connectorId) {
      connectors.delete(connectorId);
      if (folder !== null) await removeStore(storeFile(folder, connectorId));
    },
    status(connectorId) {
      const connector = connectors.get(connectorId);
      if (connector === undefined) return loading;
      return statusOf(connector.definition, emptyLedger, { isSyncing: false, problem });
    },
    refresh: refuse,
    searchable: refuse,
    search: refuse,
    [Symbol.asyncDispose]: async () => connectors.clear(),
  };
}
