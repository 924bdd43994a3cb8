import { instantOf, type Clock, type Instant } from '../../core/clock.ts';
import type { OnRunEvent } from '../../core/events.ts';
import * as exchanges from '../../http/exchange.ts';
import { type ApiLimits } from './api-limits.ts';
import { type BrokenAnswers, type CallBudget, callWithRetries } from './call-with-retries.ts';
import { type CallFacts, classifyAnswer, classifyThrown, invalidBody } from './call-failure.ts';
import {
  AddressRefusedError,
  guardedLookup,
  isLinkLocalAddress,
  isLoopbackAddress,
} from '../../http/guard-address.ts';
import { orAborted } from '../../http/or-aborted.ts';

/** One call of the API: its request, the facts that classify a failure, and the reader of a 2xx answer. */
export interface ApiCall<T> {
  readonly request: Omit<HttpRequest, 'headers'> & Partial<Pick<HttpRequest, 'headers'>>;
  readonly facts: CallFacts;
  /** State shared by the calls that request the same with other parameters; absent: the call is judged alone. */
  readonly brokenAnswers?: BrokenAnswers;
  /** Hears of each attempt; its address begins below the base URL. */
  readonly onExchange?: exchanges.OnExchange | undefined;
  /** Throws `CallFailure` for a body that may be better next time, `SyncError` for one that will not. */
  read(answer: exchanges.WireAnswer): T;
}

/** A call whose answer may be long and is read as a stream, in every attempt from its start. */
export interface StreamCall<T> extends Omit<ApiCall<T>, 'read'> {
  /** Throws `CallFailure` for a body that may be better next time, `SyncError` to end the call. */
  receive(
    head: Pick<exchanges.WireStream, 'status' | 'header'>,
    body: AsyncIterable<Uint8Array>,
    signal: AbortSignal,
  ): Promise<T>;
}

interface ApiCallerOptions {
  readonly transport: HttpTransport;
  readonly tokens: TokenCache | null;
  readonly headers: Readonly<Record<string, string>>;
  readonly clock: Clock;
  readonly limits: ApiLimits;
  readonly redact: (text: string) => string;
  /** Hears the `Date` header of every answer. */
  readonly onServerTime?: (time: Instant | null) => void;
}

/** The calls of one account of the API, each with the account's token. Rejects as `callWithRetries` does. */
export function openApiCaller(options: ApiCallerOptions) {
  const { transport, tokens, clock, limits, redact } = options;

  const exchange = async <T>(
    call: ApiCall<T> | StreamCall<T>,
    token: string | null,
    budget: CallBudget,
    onEvent: OnRunEvent,
    signal: AbortSignal,
  ): Promise<T> => {
    const request = { ...call.request, headers: headersOf(call.request, token) };
    const { method, path, body } = request;
    const began = clock.now();
    const tell = (status: number | null, wireBytes: number): void =>
      call.onExchange?.(
        { method, url: path, body, status, ms: clock.now() - began, wireBytes, keys: null },
        {
          entity: call.facts.entity,
          address: `${path}${exchanges.shownQuery(Object.keys(request.query))} ${call.facts.label}`,
          waitedMs: 0,
        },
      );
    const answer = await sent(call, request, signal).catch((error: unknown) => {
      tell(null, 0);
      throw error;
    });
    tell(answer.status, answer.wireBytes);
    budget.costs.bytes += answer.wireBytes;
    options.onServerTime?.(instantOf(answer.header('date')));
    const stated = exchanges.policyRate(answer.header('ratelimit-policy'));
    if (stated !== null && budget.heardRate(stated)) {
      onEvent({ kind: 'rate-stated', requestsPerSecond: budget.rate().requestsPerSecond });
    }
    if (token !== null && answer.status !== 401) tokens?.accepted(token);
    if ('value' in answer) return answer.value;
    if ('read' in call && exchanges.isSuccess(answer.status)) {
      const page = exchanges.pageIn(answer.body, answer.header, redact);
      if (page !== null) throw invalidBody(call.facts, `expected JSON, got ${page}`);
      return call.read(answer);
    }
    const failure = classifyAnswer(answer, call.facts, redact, clock.now());
    if (answer.status === 401 && token !== null && tokens?.refused(token) === false) throw failure.error;
    throw failure;
  };

  const sent = async <T>(call: ApiCall<T> | StreamCall<T>, request: HttpRequest, signal: AbortSignal) => {
    const classified = (error: unknown): never => {
      signal.throwIfAborted();
      throw classifyThrown(error, call.facts) ?? error;
    };
    if ('read' in call) return await transport.send(request, signal).catch(classified);
    const answer = await transport.open(request, signal).catch(classified);
    if ('body' in answer) return answer;
    let wireBytes = 0;
    async function* chunks(stream: exchanges.WireStream): AsyncGenerator<Uint8Array> {
      try {
        for await (const bytes of stream.read(signal)) {
          wireBytes += bytes.byteLength;
          yield bytes;
        }
      } catch (error) {
        classified(error);
      }
    }
    try {
      // Errors of the reader itself pass as they are: the service has no part in them.
      const value = await call.receive(answer, chunks(answer), signal);
      return { status: answer.status, header: answer.header, value, wireBytes };
    } finally {
      answer.close();
    }
  };

  const headersOf = ({ headers, body }: ApiCall<unknown>['request'], token: string | null) => ({
    ...options.headers,
    ...headers,
    ...(body === null ? {} : { 'content-type': 'application/json' }),
    ...(token === null ? {} : { authorization: `Bearer ${token}` }),
  });

  return async <T>(
    call: ApiCall<T> | StreamCall<T>,
    budget: CallBudget,
    onEvent: OnRunEvent,
    signal: AbortSignal,
  ): Promise<T> =>
    await callWithRetries({
      facts: call.facts,
      isLong: !('read' in call),
      brokenAnswers: call.brokenAnswers,
      token: async () => (await tokens?.current(signal)) ?? null,
      send: (token) => exchange(call, token, budget, onEvent, signal),
      describe: (error) => redact(String(error)),
      limits,
      clock,
      budget,
      onEvent,
      signal,
    });
}

export interface HttpRequest extends Pick<exchanges.ExchangeRequest, 'method' | 'headers' | 'body'> {
  /** Below the base URL, beginning with `/api/`; already encoded. */
  readonly path: string;
  readonly query: Readonly<Record<string, string>>;
}

export type HttpTransport = ReturnType<typeof openHttpTransport>;

/** Sends as `Wire` does. */
export function openHttpTransport(baseUrl: URL, limits: ApiLimits) {
  const lookup = guardedLookup((address) => guardAddress(address, baseUrl.protocol === 'http:'));
  const wire = exchanges.openWire(limits, lookup);
  const prefix = baseUrl.pathname.replace(/\/+$/, '');
  const sent = ({ path, query, headers, method, body }: HttpRequest): exchanges.ExchangeRequest => ({
    url: pinnedUrl(baseUrl.origin, `${prefix}${path}`, query),
    method,
    headers: { accept: 'application/json', ...headers },
    body,
    timeoutMs: limits.attemptTimeoutMs,
    maxBodyBytes: limits.maxBodyBytes,
  });
  return {
    ...wire,
    send: async (request: HttpRequest, signal: AbortSignal) => await wire.send(sent(request), signal),
    open: async (request: HttpRequest, signal: AbortSignal) => await wire.open(sent(request), signal),
  };
}

/** The URL that is really sent must be the one that was meant: `..`, `%2e%2e` and NUL change the path on the way. */
function pinnedUrl(origin: string, pathname: string, query: Readonly<Record<string, string>>): URL {
  const url = new URL(`${origin}${pathname}`);
  if (url.pathname !== pathname || url.origin !== origin) {
    throw new TypeError('a request path changed its meaning when it was read as a URL');
  }
  url.search = new URLSearchParams(query).toString();
  return url;
}

/** Throws `AddressRefusedError` for link-local addresses, and with plain http for every address but loopback. */
export function guardAddress(address: string, isPlainHttp: boolean): void {
  if (isLinkLocalAddress(address)) {
    throw new AddressRefusedError(`the API's host leads to the link-local address ${address}`);
  }
  if (isPlainHttp && !isLoopbackAddress(address)) {
    throw new AddressRefusedError(
      `http is allowed for this machine only, but the API's host leads to ${address}`,
    );
  }
}

export interface IssuedToken {
  readonly token: string;
  readonly lifetimeMs: number;
}

export type TokenCache = ReturnType<typeof openTokenCache>;

const renewBeforeMs = 60_000;

interface HeldToken {
  readonly token: string;
  readonly renewAt: number;
  readonly isReplacement: boolean;
  isAccepted: boolean;
}

/**
 * The application token of one client, shared by all its calls. `request` fetches a token; it is not given a caller's
 * signal, because many callers wait for one request.
 */
export function openTokenCache(request: () => Promise<IssuedToken>, clock: Clock) {
  let held: HeldToken | null = null;
  let pending: Promise<string> | null = null;
  let wasRefused = false;
  const seen: string[] = [];

  const renew = async (): Promise<string> => {
    const askedAt = clock.now();
    const { token, lifetimeMs } = await request();
    // A lifetime at or below the margin: half of it, so that a token is used at all.
    const useMs = Math.max(lifetimeMs - renewBeforeMs, lifetimeMs / 2);
    held = { token, renewAt: askedAt + useMs, isReplacement: wasRefused, isAccepted: false };
    wasRefused = false;
    seen.push(token);
    if (seen.length > 4) seen.shift();
    return token;
  };

  return {
    /** The token to send. Concurrent callers share one request. Rejects on the caller's abort. */
    async current(signal: AbortSignal): Promise<string> {
      signal.throwIfAborted();
      if (held !== null && clock.now() < held.renewAt) return held.token;
      pending ??= renew().finally(() => {
        pending = null;
      });
      return await orAborted(pending, signal);
    },
    /** The API accepted this token: if it is refused later, it has expired, and a new one may be requested. */
    accepted(token: string): void {
      if (held?.token === token) held.isAccepted = true;
    },
    /**
     * The service answered 401 to this token. True when another attempt makes sense; false when the token came to
     * replace a refused one and was never taken itself: then the credentials are at fault.
     */
    refused(token: string): boolean {
      // Another caller was first: the current or requested token is newer.
      if (held?.token !== token) return true;
      if (held.isReplacement && !held.isAccepted) return false;
      held = null;
      wasRefused = true;
      return true;
    },
    /** Tokens that may still be echoed, for redaction. */
    known: (): readonly string[] => seen,
  };
}
