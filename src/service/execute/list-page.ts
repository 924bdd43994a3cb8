import type { JsonObject } from '../../core/json.ts';
import type { Params } from '../../core/records.ts';
import type { Entity } from '../../definitions/definition.ts';
import type { SampleAccount } from '../sample/sample-account.ts';
import type { PageTokens } from './page-tokens.ts';

export interface ListPageRequest {
  readonly entity: Entity;
  /** Checked: paging parameters carry their defaults and limits. */
  readonly params: Params;
  readonly account: SampleAccount;
  readonly pageTokens: PageTokens;
  readonly connectorId: string;
}

export interface ListPage {
  readonly records: readonly JsonObject[];
  readonly metadata: JsonObject | null;
}

/** One page of a list, cut as the entity's pagination says, with that connector's own `connector_metadata`. */
export function listPage(request: ListPageRequest): ListPage {
  const { entity, params, account } = request;
  const { pagination } = entity;
  const listing = account.list(entity.name, params);
  switch (pagination.kind) {
    case 'single':
      return { records: listing.slice(0, Number.POSITIVE_INFINITY), metadata: listing.metadata };
    case 'offset': {
      const offset = numberOf(params[pagination.offsetParam], 0);
      const size = numberOf(params[pagination.sizeParam], pagination.maxSize);
      return { records: listing.slice(offset, size), metadata: listing.metadata };
    }
    case 'pageToken': {
      const size =
        pagination.sizeParam === null
          ? (pagination.maxSize ?? 100)
          : numberOf(params[pagination.sizeParam], pagination.maxSize ?? 100);
      const listingName = nameListing(request, [pagination.tokenParam, pagination.sizeParam ?? '']);
      const token = params[pagination.tokenParam];
      const start =
        typeof token === 'string' ? request.pageTokens.read(pagination.tokenParam, listingName, token) : 0;
      // One more than asked for tells whether there is a next page.
      const records = listing.slice(start, size + 1);
      const hasMore = records.length > size;
      return {
        records: hasMore ? records.slice(0, size) : records,
        metadata: {
          ...listing.metadata,
          [pagination.tokenKeys[0] ?? 'next_cursor']: hasMore
            ? request.pageTokens.issue(listingName, start + size)
            : null,
          [pagination.flagKeys[0] ?? 'has_more']: hasMore,
        },
      };
    }
  }
}

/** A token holds only for the listing it was given out for: same connector, entity and parameters, at any page size. */
function nameListing({ connectorId, entity, params }: ListPageRequest, pagingParams: string[]): string {
  const rest = Object.entries(params)
    .filter(([name]) => !pagingParams.includes(name))
    .sort(([left], [right]) => (left < right ? -1 : 1));
  return JSON.stringify([connectorId, entity.name, rest]);
}

function numberOf(value: unknown, otherwise: number): number {
  return typeof value === 'number' ? value : otherwise;
}
