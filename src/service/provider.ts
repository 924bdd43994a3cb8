import type { JsonObject } from '../core/json.ts';
import type { Params } from '../core/records.ts';
import type { Definition, Entity } from '../definitions/definition.ts';

/**
 * Where the records and files of one connector come from: the third party as this service reaches it. `list`, `get` and
 * `download` of the API are answered from it, and so is the sync that fills the indexed store. The sample accounts are one
 * implementation.
 */
export interface Provider {
  /** One page. Throws `ApiError`: 404 for an unknown parent, 400 for a value or a page token it cannot use. */
  list(request: ProviderRequest): Promise<ProviderPage>;
  /** Null: there is no such record. Throws `ApiError` as `list` does. */
  get(request: ProviderRequest): Promise<JsonObject | null>;
  /** Null: there is no such file. Nothing is read before `read` is called. */
  download(request: ProviderRequest): Promise<ProviderFile | null>;
}

export interface ProviderRequest {
  readonly entity: Entity;
  /** Checked against the definition: declared parameters only, typed, with their defaults and within their limits. */
  readonly params: Params;
  /** Aborted when the client has gone. */
  readonly signal: AbortSignal;
}

export interface ProviderPage {
  readonly records: readonly JsonObject[];
  /** The connector's own `connector_metadata`: paging state, links; null where it says nothing. */
  readonly metadata: JsonObject | null;
}

export interface ProviderFile {
  /** As the third party names it: hostile, until it is written into a header or a path. */
  readonly name: string;
  readonly contentType: string;
  /** In bytes; null: not known before the end. */
  readonly size: number | null;
  /** The bytes from the start, in chunks; nothing is held whole. */
  read(signal: AbortSignal): AsyncIterable<Uint8Array>;
}

/** What a provider is made for. */
export interface ProvidedConnector {
  readonly connectorId: string;
  readonly definition: Definition;
  /** As the connector was created with; null: none were given. */
  readonly credentials: JsonObject | null;
}

/** Makes providers. They hold nothing open; one is made when it is needed. */
export interface Providers {
  open(connector: ProvidedConnector): Provider;
  /** Asks the third party whether the credentials are taken; says why not in words that hold no secret. */
  check(connector: ProvidedConnector, signal: AbortSignal): Promise<ProviderCheck>;
}

export type ProviderCheck = { readonly ok: true } | { readonly ok: false; readonly why: string };
