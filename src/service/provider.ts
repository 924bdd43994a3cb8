import {
  isJsonObject,
  memberInAnySpelling,
  memberOf,
  valueAtKey,
  type JsonObject,
  type JsonValue,
} from '../core/json.ts';
import { hiddenWords, type RecordMask, type Params } from '../core/records.ts';
import { pagingParams, type Definition, type Entity } from '../definitions/definition.ts';
import {
  flagOf,
  signOfMore,
  tokenOf,
  emptyKey,
  keyOfToken,
  numberedKey,
} from '../definitions/pagination-file.ts';
import { orAborted, within } from '../http/or-aborted.ts';
import { ApiError } from './api-error.ts';

/**
 * Where the records and files of one connector come from: the third party as this service reaches it. `list`, `get` and
 * `download` of the API are answered from it, and so is the sync that fills the indexed store. The sample accounts are
 * one implementation.
 *
 * A call may reject with `ApiError`, which is the answer as it stands, with its status, body and headers: 400 for a
 * value or a page token that it cannot use, 401 where the third party does not take the credentials, 404 for an unknown
 * parent, 429 with Retry-After where it wants to be asked less, 502 for an answer that makes no sense, 503 while it is
 * down. A sync of the store tries 429 and 5xx again. Its message reaches the client, so it quotes no credential.
 * Anything else that is thrown is a fault: 500, without details, and the service's `onFailure` is called with it.
 */
export interface Provider {
  /** One page. */
  list(request: ProviderRequest): Promise<ProviderPage>;
  /** Null: there is no such record. */
  get(request: ProviderRequest): Promise<JsonObject | null>;
  /** Null: there is no such file. Nothing is read before `read` is called. */
  download(request: ProviderRequest): Promise<ProviderFile | null>;
}

export interface ProviderRequest {
  readonly entity: Entity;
  /** Checked against the definition: declared parameters only, typed, with their defaults and within their limits. */
  readonly params: Params;
  /**
   * Aborted when the client disconnects, when the service closes, and after 300 seconds, which are answered 504. From
   * then on no caller waits for the answer: end the work.
   */
  readonly signal: AbortSignal;
}

export interface ProviderPage {
  /** Objects, if the third party keeps to it. */
  readonly records: readonly JsonValue[];
  /** The connector's own `connector_metadata`: paging state, links; null where there is none. */
  readonly metadata: JsonObject | null;
}

export interface ProviderFile {
  /** Name from the third party. Hostile: it must be made harmless before use in a header or a path. */
  readonly name: string;
  readonly contentType: string;
  /** Size in bytes; null: not known before the end. */
  readonly size: number | null;
  /**
   * The bytes from the start, in chunks; nothing is held whole. What it throws before the first bytes is answered like
   * a call's error; later the connection is cut. `signal` is aborted when the client disconnects, when the service
   * closes, and when no byte has moved for a minute. Before the first bytes are sent, the connection is cut only after
   * 330 seconds.
   */
  read(signal: AbortSignal): AsyncIterable<Uint8Array>;
}

/** The connector that a store is kept of. */
export interface KeptConnector {
  readonly connectorId: string;
  readonly definition: Definition;
  readonly provider: Provider;
}

/** Connector that a provider is made for. */
export interface ProvidedConnector {
  readonly connectorId: string;
  readonly definition: Definition;
  /**
   * Which account at the third party the connector belongs to, as `ProviderCheck` has it; null: a sample account.
   * Absent: to be found by a check of credentials that no connector has yet.
   */
  readonly account?: string | null;
  /** Opens the credentials as they are stored at the time of the call; null: none were given. */
  readonly credentials: () => JsonObject | null;
  /**
   * Replaces the credentials by those with renewed tokens, sealed and on the disk when it returns. Does nothing where
   * others were given since `before` was read. Null: they are not stored.
   */
  readonly saveCredentials: ((before: JsonObject, renewed: JsonObject) => void) | null;
}

/**
 * Makes providers, and keeps what they share: connections, sessions, budgets. It belongs to the service it is given to,
 * which disposes of it when it ends, after the last call has been answered or aborted and before its state is closed,
 * and also when it cannot start. Disposing waits only for what would be lost otherwise, such as renewed tokens on their
 * way.
 */
export interface Providers extends AsyncDisposable {
  /** Makes no call and holds nothing open: one is made for each call. */
  open(connector: ProvidedConnector): Provider;
  /**
   * Asks the third party whether it takes the credentials, and whose they are; says why not in words that hold no
   * secret. Rejects, and is held to the same time, as a call of `Provider`: a third party that cannot be asked has not
   * refused the credentials.
   */
  check(connector: ProvidedConnector, signal: AbortSignal): Promise<ProviderCheck>;
}

export type ProviderCheck =
  /** Taken: they belong to this account; an empty text: the third party does not say to which. */
  | { readonly kind: 'account'; readonly account: string }
  | { readonly kind: 'refused'; readonly why: string }
  /** A sample account, which asks no third party; `why`: it counts as one that refuses the credentials. */
  | { readonly kind: 'sample'; readonly why: string | null };

/** A third party that takes longer has forgotten the call; a smaller page may take less. */
const deadlineMs = 300_000;

/**
 * Asks a provider one thing. `ask` gets a separate signal, which is aborted with `outer` and at the deadline; then this
 * rejects at once, also where the provider does not listen: with the reason of `outer`, or with `ApiError` 504.
 */
export async function askProvider<Answer>(outer: AbortSignal, ask: (signal: AbortSignal) => Promise<Answer>) {
  return await within(deadlineMs, outer, tooLate, (own) => orAborted(ask(own), own));
}

export function tooLate(): ApiError {
  return new ApiError(504, 'The third party did not answer in time.', { errorCode: 'third_party_timeout' });
}

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

/** Keeps of an answer's metadata the next page and totals; addresses and words beside them are left out. */
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
  const { flagKeys = [], doneKeys = [] } = { flagKeys: [], doneKeys: [], ...pagination };
  for (const key of doneKeys) keep(key, (value) => flagOf(value) ?? undefined);
  for (const key of flagKeys) {
    // The number or the address of the next page says no more than that there is one.
    keep(key, (value) => (value === null ? null : (flagOf(value) ?? value !== '')));
  }
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
      const base = 'https://localhost';
      const token = URL.canParse(text, base) ? new URL(text, base).searchParams.get(tokenKey.param) : null;
      return token === null
        ? null
        : `/?${new URLSearchParams({ [tokenKey.param]: mask.seal(token) }).toString()}`;
    });
  }
  return kept;
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

/** The error with the parts that clients decide by: its codes, and those words in it that the definition itself has. */
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
