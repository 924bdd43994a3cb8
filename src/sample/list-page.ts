import { createHmac } from 'node:crypto';
import { valueAtKey, type JsonValue } from '../core/json.ts';
import type { Params } from '../core/records.ts';
import { convertValue } from '../definitions/convert-value.ts';
import type { Entity } from '../definitions/definition.ts';
import { keyOfToken, type TokenKey } from '../definitions/pagination-file.ts';
import { ApiError, badParameter } from '../service/api-error.ts';
import type { ProviderPage, ProviderRequest } from '../service/provider.ts';
import type { Listing, SampleAccount } from './sample-account.ts';

/** `key`: page tokens are signed with it. */
interface SampleConnector {
  readonly connectorId: string;
  readonly key: Buffer;
}

/** One page of a list, cut as the entity's pagination says, with the connector's own metadata. */
export function listPage(
  account: SampleAccount,
  { entity, params }: ProviderRequest,
  connector: SampleConnector,
): ProviderPage {
  const { pagination } = entity;
  const listing = account.list(entity.name, params);
  const { metadata } = listing;
  const numberOf = (param: string | null, otherwise: number): number => {
    const value = param === null ? null : params[param];
    return typeof value === 'number' ? value : otherwise;
  };
  const page = (start: number, size: number, [flagKey]: readonly string[]): ProviderPage => {
    const { records, hasMore } = cut(listing, start, size);
    return { records, metadata: flagKey === undefined ? metadata : { ...metadata, [flagKey]: hasMore } };
  };
  switch (pagination.kind) {
    case 'single':
      return { records: listing.slice(0, Number.POSITIVE_INFINITY), metadata };
    case 'offset': {
      const size = numberOf(pagination.sizeParam, pagination.maxSize);
      return { records: listing.slice(numberOf(pagination.offsetParam, 0), size), metadata };
    }
    case 'page': {
      const { pageParam, first, sizeParam, maxSize, flagKeys } = pagination;
      const size = numberOf(sizeParam, maxSize);
      return page(Math.max(0, numberOf(pageParam, first) - first) * size, size, flagKeys);
    }
    case 'lastRecord': {
      const { tokenParam, field, sizeParam, maxSize, flagKeys } = pagination;
      const start = startBehind(listing, field, { param: tokenParam, token: params[tokenParam] ?? null });
      return page(start, numberOf(sizeParam, maxSize ?? 100), flagKeys);
    }
    case 'pageToken': {
      const { tokenParam, sizeParam, maxSize, tokenKeys, flagKeys } = pagination;
      const size = numberOf(sizeParam, maxSize ?? 100);
      const signed = (offset: number): string => {
        const signature = signatureOf(connector, entity, params, [tokenParam, sizeParam], offset);
        return Buffer.from(`${signature}.${offset}`).toString('base64url');
      };
      const start = offsetOf(params[tokenParam], tokenParam, signed);
      const { records, hasMore } = cut(listing, start, size);
      const [tokenKey = 'next_cursor'] = tokenKeys;
      const token = hasMore ? signed(start + size) : null;
      return {
        records,
        metadata: {
          ...metadata,
          [keyOfToken(tokenKey)]: token === null ? null : asNext(tokenKey, token),
          [flagKeys[0] ?? 'has_more']: hasMore,
        },
      };
    }
  }
}

/** One record more than asked for tells whether there is a next page. */
function cut(listing: Listing, start: number, size: number) {
  const records = listing.slice(start, size + 1);
  return { records: records.slice(0, size), hasMore: records.length > size };
}

/** The token, or an address that has it. */
function asNext(key: TokenKey, token: string): string {
  return typeof key === 'string' ? token : `/?${new URLSearchParams({ [key.param]: token }).toString()}`;
}

/** The place behind the record with this value. Throws 400 where there is none. */
function startBehind(
  listing: Listing,
  field: string,
  { param, token }: { param: string; token: JsonValue },
): number {
  if (token === null) return 0;
  const records = listing.slice(0, Number.POSITIVE_INFINITY);
  const index = records.findIndex(
    (record) => convertValue('string', valueAtKey(record, field) ?? null) === convertValue('string', token),
  );
  if (index === -1) throw badParameter(param, `there is no record with this ${field}`);
  return index + 1;
}

/** Throws 400 for a token that was not issued for this list. */
function offsetOf(token: unknown, param: string, signed: (offset: number) => string): number {
  if (typeof token !== 'string') return 0;
  const offset = Number(Buffer.from(token, 'base64url').toString('latin1').split('.')[1]);
  if (signed(offset) === token) return offset;
  throw new ApiError(400, `${param} provided is invalid`, {
    field: `params.${param}`,
    errorCode: 'validation_error',
  });
}

/** A token holds for one connector, entity and set of parameters, at any page size. */
function signatureOf(
  { connectorId, key }: SampleConnector,
  entity: Entity,
  params: Params,
  paging: readonly (string | null)[],
  offset: number,
): string {
  const others = Object.entries(params)
    .filter(([name]) => !paging.includes(name))
    .sort(([left], [right]) => (left < right ? -1 : 1));
  const text = JSON.stringify([connectorId, entity.name, others, offset]);
  return createHmac('sha256', key).update(text).digest('base64url').slice(0, 22);
}
