import { isIP } from 'node:net';
import type { SyncError } from '../../core/errors.ts';
import {
  exchange,
  firstOf,
  isSuccess,
  openAgent,
  readAnswer,
  streamOf,
  type ExchangeRequest,
  type WireAnswer,
  type WireStream,
} from '../../http/exchange.ts';
import {
  AddressRefusedError,
  guardedLookup,
  isLinkLocalAddress,
  isLoopbackAddress,
} from '../../http/guard-address.ts';
import type { ApiLimits } from './api-limits.ts';
import { stopError } from './call-failure.ts';

export interface HttpRequest extends Omit<ExchangeRequest, 'url'> {
  /** Below the base URL, beginning with `/api/`; already encoded. */
  readonly path: string;
  readonly query: Readonly<Record<string, string>>;
}

export interface HttpTransport extends AsyncDisposable {
  /**
   * Sends once: no retry, no redirect. Throws undici's and Node's errors, `UnreadableBodyError`, `AttemptTimeoutError`,
   * or the signal's reason.
   */
  send(request: HttpRequest, signal: AbortSignal): Promise<WireAnswer>;
  /** Sends once likewise; a 2xx answer comes as soon as its head has, and its body may be of any length. */
  open(request: HttpRequest, signal: AbortSignal): Promise<WireAnswer | WireStream>;
}

export function openHttpTransport(baseUrl: URL, limits: ApiLimits): HttpTransport {
  const agent = openAgent(
    limits,
    guardedLookup((address) => guardAddress(address, baseUrl.protocol === 'http:')),
  );
  const prefix = baseUrl.pathname.replace(/\/+$/, '');
  const wire = ({ path, query, headers, method, body }: HttpRequest): ExchangeRequest => ({
    url: pinnedUrl(baseUrl.origin, `${prefix}${path}`, query),
    method,
    headers: { accept: 'application/json', ...headers },
    body,
  });
  return {
    send: async (request, signal) =>
      await exchange(agent, wire(request), limits.attemptTimeoutMs, signal, (response) =>
        readAnswer(response, limits, firstOf),
      ),
    open: async (request, signal) =>
      await exchange(agent, wire(request), limits.attemptTimeoutMs, signal, async (response, begun) => {
        if (!isSuccess(response.statusCode)) return await readAnswer(response, limits, firstOf);
        begun();
        return streamOf(response, limits, firstOf);
      }),
    async [Symbol.asyncDispose]() {
      // destroy, not close: a pending call must not keep the process alive.
      if (!agent.destroyed) await agent.destroy();
    },
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

/**
 * The service's base URL, judged again where it is used: https (http for this machine only), no credentials, query or
 * fragment, no link-local address. Throws `SyncError` CONFIG_INVALID; its message never repeats the URL, which might
 * hold a password.
 */
export function checkBaseUrl(text: string): URL {
  let url: URL;
  try {
    url = new URL(text);
  } catch {
    throw refused('is not a URL');
  }
  if (url.protocol !== 'https:' && url.protocol !== 'http:') throw refused('must begin with https://');
  if (url.username !== '' || url.password !== '') throw refused('must not hold a user name or password');
  if (url.search !== '' || url.hash !== '' || /[?#]/.test(text)) {
    throw refused('must not have a query or a fragment');
  }
  const host = url.hostname.replace(/^\[|\]$/g, '');
  const isPlainHttp = url.protocol === 'http:';
  if (isIP(host) !== 0) {
    try {
      guardAddress(host, isPlainHttp);
    } catch (error) {
      throw refused(error instanceof Error ? error.message : 'has an address that is refused');
    }
  } else if (isPlainHttp && !isLocalName(host)) {
    throw refused('must begin with https:// (http is allowed for this machine only)');
  }
  return url;
}

/** Only the name itself; what it resolves to is judged at every connect. */
function isLocalName(host: string): boolean {
  return /^localhost\.?$/.test(host) || (isIP(host) !== 0 && isLoopbackAddress(host));
}

function refused(why: string): SyncError {
  const message = `api.baseUrl ${why}; give the address of the Connector Execution API`;
  return stopError('CONFIG_INVALID', message);
}
