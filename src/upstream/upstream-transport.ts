import { isIP } from 'node:net';
import {
  exchange,
  isSuccess,
  listOf,
  openAgent,
  readAnswer,
  streamOf,
  type ExchangeRequest,
  type PaceLimits,
  type WireAnswer,
  type WireStream,
} from '../http/exchange.ts';
import {
  AddressRefusedError,
  guardedLookup,
  isPublicAddress,
  type ResolveHost,
} from '../http/guard-address.ts';

export interface WireRequest extends ExchangeRequest {
  /** The `baseUrl` of the definition on whose behalf it is called; with another host where that is not known yet. */
  readonly base: URL;
  /**
   * An address from an answer must have the origin of `base` or be public: what the definition may reach, an answer may
   * not choose from.
   */
  readonly namedBy: 'definition' | 'answer';
  /** From connecting to the last byte; of a stream to its head. */
  readonly timeoutMs: number;
  /** Of the body, compressed and decompressed each. Not of a stream. */
  readonly maxBodyBytes: number;
}

/** Connections to third parties, shared by all accounts of a process. */
export interface UpstreamTransport extends AsyncDisposable {
  /**
   * Sends once: no retry, no redirect, no cookie. Throws `AddressRefusedError`, undici's and Node's errors,
   * `UnreadableBodyError`, `AttemptTimeoutError`, or the signal's reason.
   */
  send(request: WireRequest, signal: AbortSignal): Promise<WireAnswer>;
  /** Sends once likewise; a 2xx answer comes as soon as its head has, and its body may be of any length. */
  open(request: WireRequest, signal: AbortSignal): Promise<WireAnswer | WireStream>;
}

export interface UpstreamTransportOptions {
  /**
   * Hosts, and ports of hosts, that may lead to any address: see `isAllowed`. All others must be public, and are
   * reached by https on its own port.
   */
  readonly allowHosts: readonly string[];
  /** How names are resolved; tests give another. */
  readonly resolve?: ResolveHost;
  readonly limits?: Partial<TransportLimits>;
}

interface TransportLimits extends PaceLimits {
  readonly connectTimeoutMs: number;
  readonly maxHeaderBytes: number;
  readonly maxErrorBytes: number;
}

const defaultLimits: TransportLimits = {
  connectTimeoutMs: 10_000,
  maxHeaderBytes: 32 * 1024,
  maxErrorBytes: 64 * 1024,
  bodyTimeoutMs: 60_000,
  leastFileBytes: 64 * 1024,
};

export function openUpstreamTransport(options: UpstreamTransportOptions): UpstreamTransport {
  const limits = { ...defaultLimits, ...options.limits };
  const allowed = new Set(options.allowHosts.map((name) => name.toLowerCase()));
  const agentWith = (judge: typeof judgePublic) =>
    // The deadline of each request ends it before its head has come; only the body of a stream has none.
    openAgent({ ...limits, headersTimeoutMs: 0 }, guardedLookup(judge, options.resolve));
  // A lookup knows only the host. Two agents: a host that is allowed at one port must not be reached at another one.
  const publicAgent = agentWith(judgePublic);
  const allowedAgent = agentWith(() => undefined);

  const ask = async <T>(
    request: WireRequest,
    signal: AbortSignal,
    read: Parameters<typeof exchange<T>>[4],
  ): Promise<T> => {
    signal.throwIfAborted();
    const isHostAllowed = isAllowed(request, allowed);
    judgeUrl(request.url, isHostAllowed);
    const agent = isHostAllowed ? allowedAgent : publicAgent;
    return await exchange(agent, request, request.timeoutMs, signal, read);
  };
  const bodyLimits = ({ maxBodyBytes }: WireRequest) => ({
    maxWireBytes: maxBodyBytes,
    maxBodyBytes,
    maxErrorBytes: limits.maxErrorBytes,
  });

  return {
    send: (request, signal) =>
      ask(request, signal, (response) => readAnswer(response, bodyLimits(request), listOf)),
    open: (request, signal) =>
      ask<WireAnswer | WireStream>(request, signal, async (response, begun) => {
        if (!isSuccess(response.statusCode)) return await readAnswer(response, bodyLimits(request), listOf);
        begun();
        return streamOf(response, limits, listOf);
      }),
    async [Symbol.asyncDispose]() {
      // destroy, not close: a pending call must not keep the process alive.
      for (const agent of [publicAgent, allowedAgent]) if (!agent.destroyed) await agent.destroy();
    },
  };
}

/**
 * Whether a host may be at any address there. `allowed` has `host`, for the scheme and the port of `base`, and
 * `host:port`, for this port by the scheme that the definition names.
 */
function isAllowed({ url, base, namedBy }: WireRequest, allowed: ReadonlySet<string>): boolean {
  const isLikeBase = url.protocol === base.protocol && url.port === base.port;
  // Schemes too: a blob: address has the origin of the address inside.
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

/** Throws `AddressRefusedError` for an address that is not on the public internet. */
function judgePublic(address: string, hostname: string): void {
  if (isPublicAddress(address)) return;
  throw new AddressRefusedError(
    `the host ${hostname} leads to ${address}, which is no address of the public internet`,
  );
}
