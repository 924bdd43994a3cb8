import type { JsonObject } from '../../../src/core/json.ts';
import type { Params } from '../../../src/core/records.ts';
import type { Listing, SampleAccount } from '../../../src/sample/sample-account.ts';

/** A record of a sample account as the service writes it. */
export type ToWire = (entity: string, record: JsonObject, params: Params) => JsonObject;

/**
 * The same account, its records as the service writes them: what a client sees, and so what a test holds it against.
 */
export function wireAccount(account: SampleAccount, toWire: ToWire): SampleAccount {
  return {
    list(entity, params) {
      const listing = account.list(entity, params);
      return {
        slice: (offset, limit) =>
          listing.slice(offset, limit).map((record) => toWire(entity, record, params)),
        metadata: listing.metadata,
      };
    },
    get(entity, params) {
      const record = account.get(entity, params);
      return record === null ? null : toWire(entity, record, params);
    },
    file: (entity, params) => account.file?.(entity, params) ?? null,
  };
}

/** How many records a listing has, found out with few records made: those of a page are, and the rest need not be. */
export function sizeOf(listing: Listing): number {
  const has = (position: number): boolean => listing.slice(position, 1).length > 0;
  let beyond = 1;
  while (has(beyond - 1)) beyond *= 2;
  let below = beyond >> 1;
  // There are at least `below` records and fewer than `beyond`.
  while (below + 1 < beyond) {
    const middle = (below + beyond) >> 1;
    if (has(middle - 1)) below = middle;
    else beyond = middle;
  }
  return below;
}

export function allOf(listing: Listing): readonly JsonObject[] {
  return listing.slice(0, Number.MAX_SAFE_INTEGER);
}
