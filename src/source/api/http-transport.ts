import { isIP } from 'node:net';
import type { SyncError } from '../../core/errors.ts';
import { firstOf, openWire, type ExchangeRequest } from '../../http/exchange.ts';
import {
  AddressRefusedError,
  guardedLookup,
  isLinkLocalAddress,
  isLoopbackAddress,
} from '../../http/guard-address.ts';
import type { ApiLimits } from './api-limits.ts';
import { stopError } from './call-failure.ts';

export interface HttpRequest extends Pick<ExchangeRequest, 'method' | 'headers' | 'body'> {
  /** Below the base URL, beginning with `/api/`; already encoded. */
  readonly path: string;
  readonly query: Readonly<Record<string, string>>;
}

export type HttpTransport = ReturnType<typeof openHttpTransport>;

/** Sends as `Wire` does. */
export function openHttpTransport(baseUrl: URL, limits: ApiLimits) {
  const lookup = guardedLookup((address) => guardAddress(address, baseUrl.protocol === 'http:'));
  const wire = openWire(limits, lookup, firstOf);
  const prefix = baseUrl.pathname.replace(/\/+$/, '');
  const sent = ({ path, query, headers, method, body }: HttpRequest): ExchangeRequest => ({
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
