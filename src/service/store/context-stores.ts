import * as z from 'zod';
import type { Instant } from '../../core/clock.ts';
import type { JsonObject } from '../../core/json.ts';
import type { Definition } from '../../definitions/definition.ts';
import type { SearchAnswer } from '../../search/search-request.ts';
import type { Provider } from '../provider.ts';

/**
 * `Loading`: the first sync waits, reads or has stored nothing yet. `Building Preview`: it stores records. `Preview`:
 * it ended without everything (what there is can be searched). `Ready`: a sync was complete; later ones that are not
 * leave it so.
 */
export const readiness = z.enum(['Loading', 'Building Preview', 'Preview', 'Ready']);
export type Readiness = z.output<typeof readiness>;

export interface StoreStatus {
  readonly readiness: Readiness;
  readonly entities: readonly EntityStatus[];
  /** When the last sync that was not cut off ended; null: none has. */
  readonly syncedAt: Instant | null;
  /** Why the last sync was not complete; null: it was. No secret, no value of a record. */
  readonly problem: string | null;
}

/** `Updating`: searchable, and a refresh is under way. */
export const entityReadiness = z.enum(['Initializing', 'Building Preview', 'Preview', 'Ready', 'Updating']);

export interface EntityStatus {
  readonly entity: string;
  readonly status: z.output<typeof entityReadiness>;
  readonly isSearchable: boolean;
  /** Records that a search without a filter would find; null while nothing is searchable. */
  readonly records: number | null;
  readonly updatedAt: Instant | null;
}

/** The connector that a store is kept of. */
export interface KeptConnector {
  readonly connectorId: string;
  readonly definition: Definition;
  readonly provider: Provider;
}

/**
 * The indexed stores of all connectors: one SQLite sink each, filled and refreshed by syncs that run in processes of
 * their own, searched in others. This process only transfers pages, queries and answers, so it continues to answer
 * meanwhile.
 */
export interface ContextStores extends AsyncDisposable {
  /**
   * Begins to keep the connector's store: its first sync, or, where a store already exists, a refresh when it is due.
   * What is there is known before the next event: no request finds it missing.
   */
  keep(connector: KeptConnector): void;
  /** Ends what is under way for the connector and removes its store. Resolves when its files are removed. */
  drop(connectorId: string): Promise<void>;
  status(connectorId: string): StoreStatus;
  /**
   * `params` as an execute call brings them: query, limit, cursor, fields. Throws `ApiError`: 400 for a query that
   * cannot be asked, that takes too long, or while the store is not ready (`context_store_not_ready`); 429 when too
   * many wait.
   */
  search(connectorId: string, entity: string, params: JsonObject, signal: AbortSignal): Promise<SearchAnswer>;
}
