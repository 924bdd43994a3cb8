import PQueue from 'p-queue';
import type { Clock } from '../../core/clock.ts';
import { openSearchProcesses } from '../../search/process/open-search-processes.ts';
import type { ContextStores } from './context-stores.ts';
import { keepStore, type KeptStore } from './keep-store.ts';
import { noContextStores } from './no-context-stores.ts';
import { notReady, searchStore } from './search-store.ts';
import { removeStore, storeFile } from './store-file.ts';

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
/** Searches that may wait for a process; the next one is told to come back later. */
const maxWaiting = 64;

/** Nothing is opened or started before a connector is kept. The folder belongs to one service at a time. */
export function openContextStores(options: ContextStoresOptions): ContextStores {
  const { folder, clock, refreshEveryMs, cursorKey } = options;
  if (folder === null || options.isKept === false) return noContextStores(folder);
  const stores = new Map<string, KeptStore>();
  /** Stores that are being removed: one of the same connector waits for it. */
  const leaving = new Map<string, Promise<void>>();
  const slots = new PQueue({ concurrency: maxSyncs });
  let isClosed = false;
  const processes = openSearchProcesses({ ...options.search, maxWaiting, cursorKey, clock });

  const known = (connectorId: string): KeptStore => {
    const store = stores.get(connectorId);
    if (store === undefined) throw notReady();
    return store;
  };
  const remove = async (connectorId: string, store: KeptStore | undefined): Promise<void> => {
    await leaving.get(connectorId);
    await store?.[Symbol.asyncDispose]();
    await removeStore(storeFile(folder, connectorId));
  };

  return {
    keep(connector) {
      // A request that is still being handled while the service closes must not start a sync.
      if (isClosed) return;
      const { connectorId } = connector;
      const kept = stores.get(connectorId);
      if (kept !== undefined) {
        kept.change(connector);
        return;
      }
      // A store that could not be removed is gone on with.
      const after = leaving.get(connectorId)?.catch(() => undefined) ?? null;
      stores.set(connectorId, keepStore({ folder, connector, clock, refreshEveryMs, slots, after }));
    },
    async drop(connectorId) {
      const store = stores.get(connectorId);
      stores.delete(connectorId);
      const removed = remove(connectorId, store);
      leaving.set(connectorId, removed);
      await removed.finally(() => {
        if (leaving.get(connectorId) === removed) leaving.delete(connectorId);
      });
    },
    status: (connectorId) =>
      stores.get(connectorId)?.status() ?? { readiness: 'Loading', entities: [], problem: null },
    refresh: async (connectorId) => await known(connectorId).refresh(),
    searchable: async (connectorId, signal) => await known(connectorId).searchable(signal),
    search: async (connectorId, entity, params, signal) =>
      await searchStore(processes, known(connectorId), { entity, params, signal }),
    async [Symbol.asyncDispose]() {
      isClosed = true;
      await Promise.all([...stores.values()].map((store) => store[Symbol.asyncDispose]()));
      await Promise.allSettled(leaving.values());
      await processes[Symbol.asyncDispose]();
    },
  };
}
