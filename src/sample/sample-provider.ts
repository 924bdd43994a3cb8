import { createHmac } from 'node:crypto';
import type { JsonObject } from '../core/json.ts';
import type { Params } from '../core/records.ts';
import type { Entity } from '../definitions/definition.ts';
import { ApiError } from '../service/api-error.ts';
import type { Provider, ProviderPage, ProviderRequest } from '../service/provider.ts';
import type { SampleAccount } from './sample-account.ts';

/** `key`: page tokens are signed with it. */
export interface SampleConnector {
  readonly connectorId: string;
  readonly key: Buffer;
}

/** A sample account as the third party behind a connector. Answers at once; rejects a request whose signal is aborted. */
export function sampleProvider(account: SampleAccount, connector: SampleConnector): Provider {
  return {
    list: async (request) => {
      request.signal.throwIfAborted();
      return listPage(account, connector, request);
    },
    get: async ({ entity, params, signal }): Promise<JsonObject | null> => {
      signal.throwIfAborted();
      return account.get(entity.name, params);
    },
    download: async ({ entity, params, signal }) => {
      signal.throwIfAborted();
      return account.file?.(entity.name, params) ?? null;
    },
  };
}

/** One page of a list, cut as the entity's pagination says, with the connector's own metadata. */
function listPage(
  account: SampleAccount,
  connector: SampleConnector,
  { entity, params }: ProviderRequest,
): ProviderPage {
  const { pagination } = entity;
  const listing = account.list(entity.name, params);
  const { metadata } = listing;
  const numberOf = (param: string | null, otherwise: number): number => {
    const value = param === null ? null : params[param];
    return typeof value === 'number' ? value : otherwise;
  };
  switch (pagination.kind) {
    case 'single':
      return { records: listing.slice(0, Number.POSITIVE_INFINITY), metadata };
    case 'offset': {
      const size = numberOf(pagination.sizeParam, pagination.maxSize);
      return { records: listing.slice(numberOf(pagination.offsetParam, 0), size), metadata };
    }
    case 'pageToken': {
      const { tokenParam, sizeParam, maxSize, tokenKeys, flagKeys } = pagination;
      const size = numberOf(sizeParam, maxSize ?? 100);
      const signed = (offset: number): string => {
        const signature = signatureOf(connector, entity, params, [tokenParam, sizeParam], offset);
        return Buffer.from(`${signature}.${offset}`).toString('base64url');
      };
      const start = offsetOf(params[tokenParam], tokenParam, signed);
      // One record more than asked for tells whether there is a next page.
      const records = listing.slice(start, size + 1);
      const hasMore = records.length > size;
      return {
        records: records.slice(0, size),
        metadata: {
          ...metadata,
          [tokenKeys[0] ?? 'next_cursor']: hasMore ? signed(start + size) : null,
          [flagKeys[0] ?? 'has_more']: hasMore,
        },
      };
    }
  }
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
