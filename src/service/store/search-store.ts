import { SyncError } from '../../core/errors.ts';
import type { JsonObject } from '../../core/json.ts';
import { isSinkThere } from '../../sinks/ledger/open-database.ts';
import type { openSearchProcesses } from '../../search/process/open-search-processes.ts';
import type { SearchAnswer } from '../../search/search-answer.ts';
import { ApiError } from '../api-error.ts';
import type { KeptStore } from './keep-store.ts';
import { storeConnector } from './store-file.ts';
import { isUnusable } from './store-ledger.ts';
import { isSearchable } from './store-readiness.ts';

type SearchProcesses = ReturnType<typeof openSearchProcesses>;

/** Searches one entity of a store in another process. Throws as `ContextStores.search` does. */
export async function searchStore(
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
export function notReady(): ApiError {
  return new ApiError(400, 'The context store of this connector is not ready', {
    errorCode: 'context_store_not_ready',
  });
}

function toApiError(error: unknown): unknown {
  if (!(error instanceof SyncError)) return error;
  const { code, message } = error;
  if (code === 'SEARCH_INVALID') {
    const path = error.context['path'];
    const field = typeof path === 'string' && path !== '' ? `params.${path}` : 'params';
    return new ApiError(400, message, { field, errorCode: 'search_invalid' });
  }
  if (code === 'SEARCH_TOO_SLOW') {
    return new ApiError(400, message, { field: 'params.query', errorCode: 'search_too_slow' });
  }
  if (code === 'SEARCH_BUSY') {
    const headers = { 'retry-after': retryAfterSeconds };
    return new ApiError(429, message, { errorCode: 'search_busy', headers });
  }
  return error;
}

/** Searches that wait are through, or given up, in about this time. */
const retryAfterSeconds = '2';
