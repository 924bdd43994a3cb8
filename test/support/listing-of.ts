import type { JsonObject } from '../../src/core/json.ts';
import type { Listing } from '../../src/sample/sample-account.ts';

/** A listing of these records. */
export function listingOf(records: readonly JsonObject[], metadata: JsonObject | null = null): Listing {
  return { slice: (offset, limit) => records.slice(offset, offset + limit), metadata };
}
