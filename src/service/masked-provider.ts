import type { JsonObject, JsonValue } from '../core/json.ts';
import { isJsonObject, memberInAnySpelling, memberOf, valueAtKey } from '../core/json.ts';
import { hiddenWords, type RecordMask } from '../core/record-mask.ts';
import type { Params } from '../core/records.ts';
import type { Definition, Entity } from '../definitions/definition.ts';
import { emptyKey, keyOfToken, numberedKey } from '../definitions/pagination-file.ts';
import { pagingParams } from '../definitions/paging-params.ts';
import { flagOf, signOfMore, tokenOf } from '../definitions/sign-of-more.ts';
import { ApiError } from './api-error.ts';
import type { Provider, ProviderRequest } from './provider.ts';

/**
 * A provider whose answers have the masks of their entities, for clients and for the connector's store alike. Beside
 * its records a page has only what the next one is asked for by, with its token sealed; files have no names, and errors
 * none of the third party's own words.
 */
export function maskedProvider(provider: Provider, { errors }: Pick<Definition, 'errors'>): Provider {
  const within = async <Answer>(
    request: ProviderRequest,
    ask: (request: ProviderRequest, mask: RecordMask | null) => Promise<Answer>,
  ): Promise<Answer> => {
    const { entity, params } = request;
    const { mask } = entity;
    if (mask === null) return await ask(request, null);
    const opened = withOpenToken(entity, mask, params);
    try {
      return await ask({ ...request, params: opened }, mask);
    } catch (error) {
      throw error instanceof ApiError ? hidden(error, entity, errors) : error;
    }
  };
  return {
    list: async (asked) =>
      await within(asked, async (request, mask) => {
        const page = await provider.list(request);
        if (mask === null) return page;
        const { records, metadata } = page;
        return {
          records: records.map((record) => mask.record(record)),
          metadata: metadata && pagingOf(metadata, request.entity, mask),
        };
      }),
    get: async (asked) =>
      await within(asked, async (request, mask) => {
        const record = await provider.get(request);
        const made = mask === null || record === null ? record : mask.record(record);
        return made === null || isJsonObject(made) ? made : {};
      }),
    download: async (asked) =>
      await within(asked, async (request, mask) => {
        const file = await provider.download(request);
        return mask === null || file === null ? file : { ...file, name: '' };
      }),
  };
}

/** What an answer's metadata says of the next page and of totals, and no address or word beside it. */
function pagingOf(metadata: JsonObject, { pagination, cut }: Entity, mask: RecordMask): JsonObject {
  const kept: Record<string, JsonValue> = {};
  const keep = (key: string, shown: (value: JsonValue) => JsonValue | undefined): void => {
    const value = valueAtKey(metadata, key, memberInAnySpelling);
    const made = value === undefined ? undefined : shown(value);
    if (made !== undefined) kept[key] = made;
  };
  for (const key of pagination.totalKeys) {
    keep(key, (value) => (typeof value === 'number' ? value : undefined));
  }
  keep(emptyKey, (value) => (value === 'nothing' || value === 'null' ? value : undefined));
  const { key, is } = cut?.sign ?? {};
  if (key !== undefined) {
    keep(key, (value) => (is === undefined ? Boolean(value) : value === is ? value : null));
  }
  if ('flagKeys' in pagination) for (const key of pagination.flagKeys ?? []) keep(key, asFlag);
  if (pagination.kind === 'single') {
    const sign = signOfMore(metadata);
    if (sign !== null) kept[sign] = true;
  }
  if (pagination.kind !== 'pageToken') return kept;
  keep(numberedKey, (value) => value === true);
  for (const tokenKey of pagination.tokenKeys) {
    keep(keyOfToken(tokenKey), (value) => {
      const text = tokenOf(value) ?? null;
      if (text === null) return null;
      if (typeof tokenKey === 'string') return mask.seal(text);
      const token = tokenIn(text, tokenKey.param);
      return token === null
        ? null
        : `/?${new URLSearchParams({ [tokenKey.param]: mask.seal(token) }).toString()}`;
    });
  }
  return kept;
}

/** The number or the address of the next page says no more than that there is one. */
function asFlag(value: JsonValue): JsonValue {
  return value === null ? null : (flagOf(value) ?? value !== '');
}

function tokenIn(address: string, param: string): string | null {
  const base = 'https://localhost';
  return URL.canParse(address, base) ? new URL(address, base).searchParams.get(param) : null;
}

/** Throws 400 for a token that was not sealed with this key. */
function withOpenToken(entity: Entity, mask: RecordMask, params: Params): Params {
  const name = sealedParam(entity);
  const sent = name === null ? undefined : memberOf(params, name);
  if (name === null || typeof sent !== 'string' || sent === '') return params;
  const token = mask.open(sent);
  if (token !== null) return { ...params, [name]: token };
  throw new ApiError(400, 'The page token was not given out for this listing: begin again.', {
    field: `params.${name}`,
    errorCode: staleToken,
  });
}

const staleToken = 'upstream_stale_token';

function sealedParam({ pagination }: Entity): string | null {
  if (pagination.kind !== 'pageToken') return null;
  return pagingParams(pagination).find(({ role }) => role === 'tokenParam')?.name ?? null;
}

/** The error with what clients decide by: its codes, and those words in it that the definition itself has. */
function hidden(error: ApiError, entity: Entity, patterns: Definition['errors']): ApiError {
  const { status, headers, body } = error;
  const text = body.message.toLowerCase();
  const known = patterns.filter(
    (pattern) => pattern.status === status && text.includes(pattern.contains.toLowerCase()),
  );
  const words = known.map(({ contains }) => contains);
  const message = [`list and get of ${entity.name}: ${hiddenWords}`, ...words].join('; ');
  const tokenField = `params.${sealedParam(entity) ?? ''}`;
  return new ApiError(status, message, {
    headers,
    errors: body.errors.map(({ field, error_code: code }) => {
      const errorCode = field === tokenField ? staleToken : code;
      return { field, message, error_code: errorCode, details: null };
    }),
  });
}
