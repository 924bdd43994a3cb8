import type { JsonObject, JsonValue } from '../../../core/json.ts';

/** One page of a search, wherever it was made. */
export interface FoundPage {
  readonly records: readonly JsonValue[];
  readonly hasMore: boolean;
  /** For the next page of the same search. */
  readonly cursor: string | null;
  /** Milliseconds; null where nobody says. */
  readonly tookMs: number | null;
}

/** Where a search runs. */
export interface Searcher extends AsyncDisposable {
  /** `params`: query, limit, cursor, fields. Throws `SyncError`: SEARCH_INVALID for what cannot be asked. */
  search(params: JsonObject): Promise<FoundPage>;
}
