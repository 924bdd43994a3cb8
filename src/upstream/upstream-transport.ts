import { isIP } from 'node:net';
import { openWire, type ExchangeRequest, type Wire, type WireLimits } from '../http/exchange.ts';
import { AddressRefusedError, guardedLookup, judgePublic, type ResolveHost } from '../http/guard-address.ts';

export interface WireRequest extends ExchangeRequest {
  /** The `baseUrl` of the calling definition; with a placeholder host where that is not known yet. */
  readonly base: URL;
  /**
   * An address from an answer must have the origin of `base` or be public: an answer may not choose among the hosts
   * that the definition may reach.
   */
  readonly namedBy: 'definition' | 'answer';
}

export type UpstreamTransport = ReturnType<typeof openUpstreamTransport>;

export interface UpstreamTransportOptions {
  /**
   * Hosts, and ports of hosts, that may be at any address: see `isAllowed`. All others must be public, and are reached
   * by https on its own port.
   */
  readonly allowHosts: readonly string[];
  /** Resolves names; tests replace it. */
  readonly resolve?: ResolveHost;
  readonly limits?: Partial<WireLimits>;
}

const defaultLimits: WireLimits = {
  connectTimeoutMs: 10_000,
  // The deadline of each request ends it before its head has arrived; only the body of a stream has none.
  headersTimeoutMs: 0,
  maxHeaderBytes: 32 * 1024,
  maxErrorBytes: 64 * 1024,
  bodyTimeoutMs: 60_000,
  leastFileBytes: 64 * 1024,
};

/**
 * Opens connections to third parties, shared by all accounts of a process. Requests are sent as by `Wire`, and may also
 * throw `AddressRefusedError`.
 */
export function openUpstreamTransport(options: UpstreamTransportOptions) {
  const limits = { ...defaultLimits, ...options.limits };
  const allowed = new Set(options.allowHosts.map((name) => name.toLowerCase()));
  const wireWith = (judge: typeof judgePublic) => openWire(limits, guardedLookup(judge, options.resolve));
  // A lookup knows only the host. Two wires: a host that is allowed at one port must not be reached at another one.
  const publicWire = wireWith(judgePublic);
  const allowedWire = wireWith(() => undefined);

  const wireFor = (request: WireRequest, signal: AbortSignal): Wire => {
    signal.throwIfAborted();
    const isHostAllowed = isAllowed(request, allowed);
    judgeUrl(request.url, isHostAllowed);
    return isHostAllowed ? allowedWire : publicWire;
  };

  return {
    send: async (request: WireRequest, signal: AbortSignal) =>
      await wireFor(request, signal).send(request, signal),
    open: async (request: WireRequest, signal: AbortSignal) =>
      await wireFor(request, signal).open(request, signal),
    async [Symbol.asyncDispose]() {
      for (const wire of [publicWire, allowedWire]) await wire[Symbol.asyncDispose]();
    },
  };
}

/**
 * Whether a host may be at any address. `allowed` contains `host`, for the scheme and the port of `base`, and
 * `host:port`, for this port by the scheme that the definition names.
 */
function isAllowed({ url, base, namedBy }: WireRequest, allowed: ReadonlySet<string>): boolean {
  const isLikeBase = url.protocol === base.protocol && url.port === base.port;
  // Compares schemes too: a blob: address has the origin of the address inside.
  if (namedBy === 'answer' && !(isLikeBase && url.origin === base.origin)) return false;
  const port = url.port || (url.protocol === 'https:' ? '443' : '80');
  return (isLikeBase && allowed.has(url.hostname)) || allowed.has(`${url.hostname}:${port}`);
}

/** Throws `AddressRefusedError`. */
function judgeUrl(url: URL, isHostAllowed: boolean): void {
  if (url.username !== '' || url.password !== '') {
    throw new AddressRefusedError('an address must not hold a user name or password');
  }
  if (isHostAllowed) return;
  if (url.protocol !== 'https:' || url.port !== '') {
    throw new AddressRefusedError(
      `${url.protocol}//${url.host.slice(0, 253)} may not be called: expected https on its own port`,
    );
  }
  // A literal address is connected to without a lookup.
  const host = url.hostname.replace(/^\[|\]$/g, '');
  if (isIP(host) !== 0) judgePublic(host, host);
}
