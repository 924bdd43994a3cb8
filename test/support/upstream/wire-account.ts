import type { JsonObject } from '../../../src/core/json.ts';
import type { Params } from '../../../src/core/records.ts';
import type { Listing, SampleAccount } from '../../../src/sample/sample-account.ts';

/** The same account, its records as the service writes them: what a client sees, so what a test compares it with. */
export function wireAccount(
  account: SampleAccount,
  toWire: (entity: string, record: JsonObject, params: Params) => JsonObject,
): SampleAccount {
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

export function allOf(listing: Listing): readonly JsonObject[] {
  return listing.slice(0, Number.MAX_SAFE_INTEGER);
}
