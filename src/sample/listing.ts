import type { JsonObject } from '../core/json.ts';

/** The records that a list call names, filtered and sorted, before a page is cut out of them. */
export interface Listing {
  /** At most `limit` records from `offset` (from 0); fewer only at the end. */
  slice(offset: number, limit: number): readonly JsonObject[];
  /** What the connector says about the list besides page tokens; null where it says nothing. */
  readonly metadata: JsonObject | null;
}

export function listingOf(records: readonly JsonObject[], metadata: JsonObject | null = null): Listing {
  return { slice: (offset, limit) => records.slice(offset, offset + limit), metadata };
}

/** A listing whose records are made when they are asked for: position (from 0) -> record. */
export function computedListing(
  size: number,
  recordAt: (position: number) => JsonObject,
  metadata: JsonObject | null = null,
): Listing {
  return {
    slice(offset, limit) {
      const records: JsonObject[] = [];
      const end = Math.min(size, offset + limit);
      for (let position = offset; position < end; position += 1) records.push(recordAt(position));
      return records;
    },
    metadata,
  };
}
