import type { JsonObject, JsonValue } from '../core/json.ts';
import type { Params } from '../core/records.ts';
import type { Definition, Entity } from '../definitions/definition.ts';
import { orAborted } from '../http/or-aborted.ts';
import { startDeadline } from '../http/start-deadline.ts';
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
  /** As the third party names it: hostile, until it is written into a header or a path. */
  readonly name: string;
  readonly contentType: string;
  /** In bytes; null: not known before the end. */
  readonly size: number | null;
  /**
   * The bytes from the start, in chunks; nothing is held whole. What it throws before the first bytes is answered like
   * a call's error; later the connection is cut. `signal` is aborted when the client disconnects, when the service
   * closes, and when no byte has moved for a minute. Before the first bytes are sent, the connection is cut only after
   * 330 seconds.
   */
  read(signal: AbortSignal): AsyncIterable<Uint8Array>;
}

/** What a provider is made for. */
export interface ProvidedConnector {
  readonly connectorId: string;
  readonly definition: Definition;
  /**
   * Which account at the third party the connector belongs to, as `ProviderCheck` has it; null: a sample account.
   * Absent: to be found by a check of credentials that no connector has yet.
   */
  readonly account?: string | null;
  /** As they are stored now, opened at each call; null: none were given. */
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
  /** Of a sample account, which asks no third party; `why`: it counts as one that refuses them. */
  | { readonly kind: 'sample'; readonly why: string | null };

/** A third party that takes longer has forgotten the call; a smaller page may take less. */
const deadlineMs = 300_000;

/**
 * Asks a provider one thing. `ask` gets a separate signal, which is aborted with `outer` and at the deadline; then this
 * rejects at once, also where the provider does not listen: with the reason of `outer`, or with `ApiError` 504.
 */
export async function askProvider<Answer>(
  outer: AbortSignal,
  ask: (signal: AbortSignal) => Promise<Answer>,
): Promise<Answer> {
  outer.throwIfAborted();
  const deadline = startDeadline(deadlineMs, outer, tooLate);
  try {
    return await orAborted(ask(deadline.signal), deadline.signal);
  } finally {
    deadline.end();
  }
}

export function tooLate(): ApiError {
  return new ApiError(504, 'The third party did not answer in time.', { errorCode: 'third_party_timeout' });
}
