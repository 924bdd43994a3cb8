import PQueue from 'p-queue';
import type { Clock } from '../../core/clock.ts';
import { SyncError } from '../../core/errors.ts';
import type { JsonObject } from '../../core/json.ts';
import { openSearchProcesses, type SearchProcesses } from '../../search/process/open-search-processes.ts';
import type { SearchAnswer } from '../../search/search-request.ts';
import { isSinkThere } from '../../sinks/sqlite/open-database.ts';
import { ApiError } from '../api-error.ts';
import type { ContextStores, KeptConnector } from './context-stores.ts';
import { keepStore, type KeptStore } from './keep-store.ts';
import { removeStore, storeConnector, storeFile } from './store-file.ts';
import { emptyLedger, isUnusable } from './store-ledger.ts';
import { isSearchable, statusOf } from './store-record.ts';

export interface ContextStoresOptions {
  /** Where the stores lie, below it in `stores/`. Null: none are kept, every connector stays `Loading`. */
  readonly folder: string | null;
  /** False: none are kept though there is a folder; what lies there goes with its connector. Default true. */
  readonly isKept?: boolean;
  readonly clock: Clock;
  /** From the end of one sync to the beginning of the next. Null: only when it is asked for. */
  readonly refreshEveryMs: number | null;
  readonly search: { readonly deadlineMs: number; readonly processes: number };
  /** Signs the cursors of searches. */
  readonly cursorKey: Buffer;
}

/** Syncs at a time, over all connectors: each takes a processor while it has pages. */
const maxSyncs = 2;
/** Files read at a time when a service begins: thousands of open ones are more than a process may have. */
const maxReads = 4;
/** Searches that may wait for a process; the next one is refused with 429. */
const maxWaiting = 64;

/**
 * Nothing is opened or started before a connector is kept. The folder belongs to one service at a time. Where no stores
 * are kept, every connector stays `Loading`, and says why; stores that an earlier service left are removed with their
 * connectors.
 */
export function openContextStores(options: ContextStoresOptions): ContextStores {
  const { folder, isKept = true, clock, refreshEveryMs, cursorKey } = options;
  const missing = folder === null ? 'without a data folder' : isKept ? null : 'to keep none';
  const problem = missing === null ? null : `This server keeps no indexed stores: it was started ${missing}.`;
  const connectors = new Map<string, KeptConnector>();
  const stores = new Map<string, KeptStore>();
  /** Stores that are being removed: one of the same connector waits for it. */
  const leaving = new Map<string, Promise<void>>();
  const slots = new PQueue({ concurrency: maxSyncs });
  const reads = new PQueue({ concurrency: maxReads });
  let isClosed = false;
  const processes = openSearchProcesses({ ...options.search, maxWaiting, cursorKey, clock });

  const remove = async (connectorId: string, store: KeptStore | undefined): Promise<void> => {
    await leaving.get(connectorId);
    await store?.[Symbol.asyncDispose]();
    if (folder !== null) await removeStore(storeFile(folder, connectorId));
  };

  return {
    keep(connector) {
      // A request that is still being handled while the service closes must not start a sync.
      if (isClosed) return;
      const { connectorId } = connector;
      connectors.set(connectorId, connector);
      const kept = stores.get(connectorId);
      if (kept !== undefined) kept.change(connector);
      if (kept !== undefined || folder === null || !isKept) return;
      // If removal failed, the old store is reused.
      const after = leaving.get(connectorId)?.catch(() => undefined) ?? null;
      stores.set(connectorId, keepStore({ folder, connector, clock, refreshEveryMs, slots, reads, after }));
    },
    async drop(connectorId) {
      const store = stores.get(connectorId);
      stores.delete(connectorId);
      connectors.delete(connectorId);
      const removed = remove(connectorId, store);
      leaving.set(connectorId, removed);
      await removed.finally(() => {
        if (leaving.get(connectorId) === removed) leaving.delete(connectorId);
      });
    },
    status(connectorId) {
      const connector = connectors.get(connectorId);
      if (connector === undefined) return { readiness: 'Loading', entities: [], syncedAt: null, problem };
      const without = { isSyncing: false, problem };
      return stores.get(connectorId)?.status() ?? statusOf(connector.definition, emptyLedger, without);
    },
    async search(connectorId, entity, params, signal) {
      const store = stores.get(connectorId);
      if (store === undefined) throw notReady();
      return await searchStore(processes, store, { entity, params, signal });
    },
    async [Symbol.asyncDispose]() {
      isClosed = true;
      await Promise.all([...stores.values()].map((store) => store[Symbol.asyncDispose]()));
      await Promise.allSettled(leaving.values());
      await processes[Symbol.asyncDispose]();
    },
  };
}

/** Searches one entity of a store in another process. Throws as `ContextStores.search` does. */
async function searchStore(
  processes: SearchProcesses,
  store: KeptStore,
  search: { readonly entity: string; readonly params: JsonObject; readonly signal: AbortSignal },
): Promise<SearchAnswer> {
  const { file, connector } = store;
  const entity = [...connector.definition.entities.values()].find(({ name }) => name === search.entity);
  const { readiness, entities } = store.status();
  const status = entities.find((one) => one.entity === search.entity);
  if (entity === undefined || status === undefined) {
    throw new ApiError(400, `Entity '${search.entity}' is not in the context store of this connector.`, {
      field: 'body.entity',
      errorCode: 'unknown_entity',
    });
  }
  if (!isSearchable(readiness) || !status.isSearchable) throw notReady();
  const scope = JSON.stringify([connector.connectorId, entity.name]);
  const call = { file, connector: storeConnector, entity, params: search.params, scope };
  try {
    return await processes.search(call, search.signal);
  } catch (error) {
    // A file that was removed is treated like a damaged one.
    const isLost = error instanceof SyncError && (isUnusable(error) || !isSinkThere(file));
    if (!isLost) throw toApiError(error);
    store.damaged(error.code);
    throw notReady();
  }
}

/** The hosted service's status code for it is not known; 400 is ours. */
function notReady(): ApiError {
  return new ApiError(400, 'The context store of this connector is not ready', {
    errorCode: 'context_store_not_ready',
  });
}

function toApiError(error: unknown): unknown {
  if (!(error instanceof SyncError)) return error;
  const { code, message, context } = error;
  if (code === 'SEARCH_INVALID') {
    const path = context['path'];
    const field = typeof path === 'string' && path !== '' ? `params.${path}` : 'params';
    return new ApiError(400, message, { field, errorCode: 'search_invalid' });
  }
  if (code === 'SEARCH_TOO_SLOW') {
    return new ApiError(400, message, { field: 'params.query', errorCode: 'search_too_slow' });
  }
  if (code !== 'SEARCH_BUSY') return error;
  // Searches that wait have ended, or were given up, in about this time.
  return new ApiError(429, message, { errorCode: 'search_busy', headers: { 'retry-after': '2' } });
}
