import type { ContextStores, KeptConnector, StoreStatus } from './context-stores.ts';
import { notReady } from './search-store.ts';
import { emptyLedger } from './store-ledger.ts';
import { statusOf } from './store-readiness.ts';

/** For a service without a folder: every connector stays `Loading`, and says why. */
export function noContextStores(): ContextStores {
  const connectors = new Map<string, KeptConnector>();
  const refuse = async (): Promise<never> => {
    throw notReady();
  };
  const loading: StoreStatus = { readiness: 'Loading', entities: [], problem };
  return {
    keep: (connector) => void connectors.set(connector.connectorId, connector),
    drop: async (connectorId) => void connectors.delete(connectorId),
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

const problem = 'This server keeps no indexed stores: it was started without a data folder.';
