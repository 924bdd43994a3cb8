import { Agent } from 'undici';
import { startDeadline } from '../http/deadline.ts';
import { guardedLookup, type ResolveHost } from '../http/guard-address.ts';
import { readBody, readStart, UnreadableBodyError } from '../http/read-body.ts';
import { watchPace, type PaceLimits } from '../http/stream-body.ts';
import { isAllowed, judgePublic, judgeUrl, type NamedAddress } from './judge-url.ts';

export interface WireRequest extends NamedAddress {
  readonly method: 'GET' | 'POST';
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | null;
  /** From connecting to the last byte; of a stream to its head. */
  readonly timeoutMs: number;
  /** Of the body, compressed and decompressed each. Not of a stream. */
  readonly maxBodyBytes: number;
}

export interface WireAnswer {
  readonly status: number;
  /** Lower-case name; several headers of one name are one list. */
  readonly header: (name: string) => string | null;
  /** The whole body of a 2xx answer; of another one what could be read of its first 64 KiB. */
  readonly text: string;
  readonly wireBytes: number;
}

/** A 2xx answer whose body was not read yet. */
export interface WireStream {
  readonly status: number;
  readonly header: (name: string) => string | null;
  /** To be called once. Throws what `send` throws, and the signal's reason. */
  read(signal: AbortSignal): AsyncIterable<Uint8Array>;
  /** Closes the connection where the body was not read to its end. Idempotent. */
  close(): void;
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

type Response = Awaited<ReturnType<Agent['request']>>;

export function openUpstreamTransport(options: UpstreamTransportOptions): UpstreamTransport {
  const limits = { ...defaultLimits, ...options.limits };
  const allowed = new Set(options.allowHosts.map((name) => name.toLowerCase()));
  const agentWith = (judge: typeof judgePublic): Agent =>
    new Agent({
      // The gate of each credential bounds its calls. A limit here would let one account keep the others waiting.
      connections: null,
      pipelining: 1,
      connect: { timeout: limits.connectTimeoutMs, lookup: guardedLookup(judge, options.resolve) },
      // The deadline of each request ends it first; only the body of a stream has none.
      headersTimeout: 0,
      bodyTimeout: limits.bodyTimeoutMs,
      keepAliveTimeout: 4_000,
      keepAliveMaxTimeout: 10_000,
      maxHeaderSize: limits.maxHeaderBytes,
    });
  // A lookup knows only the host. Two agents: a host that is allowed at one port must not be reached at another one.
  const publicAgent = agentWith(judgePublic);
  const allowedAgent = agentWith(() => undefined);

  /** The request's head is there; the time limit holds until `read` calls `begun` or has ended. */
  const exchange = async <T>(
    request: WireRequest,
    signal: AbortSignal,
    read: (response: Response, begun: () => void) => Promise<T>,
  ): Promise<T> => {
    signal.throwIfAborted();
    const agent = isAllowed(request, allowed) ? allowedAgent : publicAgent;
    judgeUrl(request.url, agent === allowedAgent);
    const deadline = startDeadline(request.timeoutMs, signal);
    try {
      const response = await agent.request({
        origin: request.url.origin,
        path: `${request.url.pathname}${request.url.search}`,
        method: request.method,
        headers: { 'accept-encoding': 'gzip', ...request.headers },
        body: request.body,
        signal: deadline.signal,
      });
      const result = await read(response, deadline.lift);
      deadline.signal.throwIfAborted();
      return result;
    } catch (error) {
      signal.throwIfAborted();
      throw deadline.signal.aborted ? deadline.signal.reason : error;
    } finally {
      deadline.end();
    }
  };

  const isSuccess = ({ statusCode }: Response): boolean => statusCode >= 200 && statusCode < 300;

  return {
    send: (request, signal) =>
      exchange(request, signal, (response) =>
        isSuccess(response)
          ? receiveWhole(response, request.maxBodyBytes)
          : receiveError(response, limits.maxErrorBytes),
      ),
    open: (request, signal) =>
      exchange(request, signal, async (response, begun) => {
        if (!isSuccess(response)) return await receiveError(response, limits.maxErrorBytes);
        begun();
        return streamOf(response, limits);
      }),
    async [Symbol.asyncDispose]() {
      // destroy, not close: a pending call must not keep the process alive.
      for (const agent of [publicAgent, allowedAgent]) if (!agent.destroyed) await agent.destroy();
    },
  };
}

async function receiveWhole(response: Response, maxBytes: number): Promise<WireAnswer> {
  const announced = Number(response.headers['content-length'] ?? 0);
  // One more byte than is allowed shows that there are too many.
  const wire = announced > maxBytes ? null : await readUpTo(response.body, maxBytes);
  if (wire === null) {
    response.body.destroy();
    throw new UnreadableBodyError('too-large', `expected at most ${maxBytes} bytes, got more`);
  }
  const header = headerOf(response);
  const text = await readBody(wire, header('content-encoding'), maxBytes);
  return { status: response.statusCode, header, text, wireBytes: wire.byteLength };
}

/** Null: there is more. Leaving the loop destroys the body and with it the socket. */
async function readUpTo(body: AsyncIterable<unknown>, maxBytes: number): Promise<Uint8Array | null> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of body) {
    // `as`: a body without an encoding set yields Buffers.
    const bytes = chunk as Uint8Array;
    length += bytes.byteLength;
    if (length > maxBytes) return null;
    chunks.push(bytes);
  }
  return Buffer.concat(chunks);
}

async function receiveError(response: Response, maxBytes: number): Promise<WireAnswer> {
  const header = headerOf(response);
  const wire = await readStart(response.body, maxBytes);
  // The status alone says enough when the text of a failure cannot be read.
  const text = await readBody(wire, header('content-encoding'), maxBytes).catch(() => '');
  return { status: response.statusCode, header, text, wireBytes: wire.byteLength };
}

function streamOf(response: Response, limits: PaceLimits): WireStream {
  const { body } = response;
  // A body that is not read to its end is destroyed and emits an error: ignore it.
  body.on('error', () => undefined);
  return {
    status: response.statusCode,
    header: headerOf(response),
    close: () => void body.destroy(),
    async *read(signal) {
      const onAbort = (): void => void body.destroy(new Error('aborted'));
      signal.addEventListener('abort', onAbort, { once: true });
      const noteChunk = watchPace(limits);
      try {
        signal.throwIfAborted();
        let askedAt = performance.now();
        for await (const chunk of body) {
          // `as`: a body without an encoding set yields Buffers.
          const bytes = chunk as Uint8Array;
          noteChunk(bytes.byteLength, performance.now() - askedAt);
          yield bytes;
          askedAt = performance.now();
        }
      } catch (error) {
        signal.throwIfAborted();
        throw error;
      } finally {
        signal.removeEventListener('abort', onAbort);
        body.destroy();
      }
    },
  };
}

function headerOf({ headers }: Response): (name: string) => string | null {
  return (name) => {
    const value = Object.hasOwn(headers, name) ? headers[name] : undefined;
    return (Array.isArray(value) ? value.join(', ') : value) ?? null;
  };
}
